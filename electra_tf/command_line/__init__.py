"""What a person types and sees; imports no TensorFlow."""

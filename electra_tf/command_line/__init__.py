"""What a person types and sees; imports no TensorFlow but to ask GPUs."""

"""An ELECTRA as Keras models: fit, predict, save."""

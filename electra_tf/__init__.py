"""ELECTRA in TensorFlow 2 and Keras 3, number for number the original."""

__version__ = "0.1.0"

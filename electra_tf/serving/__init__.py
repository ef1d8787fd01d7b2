"""A checkpoint -> a SavedModel that answers raw strings."""

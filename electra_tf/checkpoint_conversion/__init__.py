"""Checkpoints of other formats: one module for each, with its names."""

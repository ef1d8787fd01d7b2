"""Formats of checkpoints: one module for each, with its names."""

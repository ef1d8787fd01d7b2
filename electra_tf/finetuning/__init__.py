"""Labelled rows -> scored models."""

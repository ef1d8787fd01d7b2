"""Asks a trained model about texts."""

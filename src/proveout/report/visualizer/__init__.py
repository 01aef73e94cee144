"""A run as ttnn-visualizer reads it."""

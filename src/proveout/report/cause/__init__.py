"""An explanation of a model's error as text and as a picture."""

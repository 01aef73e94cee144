"""MLAgility's `parser` and `labels`, and its own module names while a script runs."""

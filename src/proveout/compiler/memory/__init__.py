"""A Program that does not fit: Steps divided, tensors that wait on the host, and what else would help."""

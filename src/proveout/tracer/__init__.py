"""The tracer: which ops a model's graphs hold, forward and backward, and how large their tensors are."""

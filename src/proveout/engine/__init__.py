"""Where compiler and devices meet: the torch.compile entry, `Compiled`, weight residency."""

"""What a chip is: specs as data, the allocator, the time model. Everything here is modelled."""

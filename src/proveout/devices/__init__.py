"""What runs Programs: `sim` (the embedded chip) and `cpu`; found by name in `registry`."""

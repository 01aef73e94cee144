"""The chip's arithmetic bit by bit: source registers, matrix unit, vector unit, packer. No kernel is known here."""

"""The op table: which ATen overload becomes which ttnn calls, and why not."""

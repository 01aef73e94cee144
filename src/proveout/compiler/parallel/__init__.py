"""Several chips: along what a graph is cut, the proof that this is exact, and the Program for all of them."""

"""Any failure as one small file that fails in the same way: fewer ops, then smaller shapes, then plainer values."""

"""What of a device operation costs time: one function a family, from the operation and its cores to its features."""

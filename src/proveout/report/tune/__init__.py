"""Certificates of `proveout tune` for people."""

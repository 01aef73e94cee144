"""Proveout."""

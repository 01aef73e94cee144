"""Fits what the chip's modelled times are made of: needs scipy, the published tables, and a source tree."""

"""Serving under load: requests that arrive by their own clock, what each of them felt, and how much a server can take.

The same figures come from an endpoint on the network (`client`) and from a scheduler of ours (`proveout.batching`).
"""

"""Which settings make a model quicker within its error budget: a greedy search, each step of it told.

A certified search over decisions per op is to stand beside `greedy`, on the same `Costs`.
"""

from proveout.tune.greedy import Costs, Trial, Tuned, search

__all__ = ["Costs", "Trial", "Tuned", "search"]

"""Many Jobs: found, proven and kept, on this machine or on a Ray cluster.

sweep(plan, scripts, workers, listener)   scripts in, Results out; every Record is in the store as soon as it is made
Local(jobs)                                workers here: children of one warm process, each on cores of its own
cluster.Cluster(address, store)            workers on the nodes of a Ray cluster
states(store)                              how far the sweeps of a store have come, also while they run
"""

from __future__ import annotations

from proveout.prove import settle
from proveout.sweep.controller import Interrupted, Listener, SweepPlan, Workers, selected, sweep
from proveout.sweep.local import Local
from proveout.sweep.results import Rebuild, Result
from proveout.sweep.state import State, states

__all__ = [
    "SweepPlan", "Interrupted", "Listener", "Local", "Rebuild", "Result", "State", "Workers", "selected",
    "settle", "states", "sweep",
]  # fmt: skip

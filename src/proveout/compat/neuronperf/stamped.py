"""A user's functions as NeuronPerf calls them. Nothing is imported here that a setup function may want to precede."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

VISIBLE_CORES = "NEURON_RT_VISIBLE_CORES"


@dataclass(frozen=True)
class Stamped:
    """A user's function that leaves in a file when it ran, one line for each copy of the model."""

    function: Any
    path: str

    def __call__(self, number: int, *rest: Any) -> Any:
        began = time.perf_counter_ns()
        try:
            return self.function(number, *rest)
        finally:
            with open(f"{self.path}-{number}", "w") as file:
                json.dump([began, time.perf_counter_ns()], file)


@dataclass(frozen=True)
class Placed:
    """A user's `env_setup_fn`, which finds its copy's cores where Neuron's runtime names them, and may change them."""

    function: Any

    def __call__(self, number: int, config: dict[str, Any]) -> Any:
        size = int(config["pipeline_size"])
        first, copies = (number * size, 1) if config["multiprocess"] else (0, int(config["n_models"]))
        os.environ[VISIBLE_CORES] = f"{first}-{first + copies * size - 1}"
        return self.function(number, config)


@dataclass(frozen=True)
class Spread:
    """A user's `preprocess_fn`, of whose list each element is an argument of the model, as of a tuple."""

    function: Any

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        prepared = self.function(*inputs, **named)
        return tuple(prepared) if isinstance(prepared, list) else prepared

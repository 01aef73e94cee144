"""A user's setup function that leaves behind when it ran. It imports nothing that the function may want to precede."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any


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

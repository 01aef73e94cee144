"""NeuronPerf's model for trying things out. It imports nothing, so that workers start at once."""

from __future__ import annotations

from typing import Any


class DummyModel:
    """Five times its input and three, computed in place."""

    def __call__(self, x: Any) -> Any:
        x *= 5
        x += 3
        return x

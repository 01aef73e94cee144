"""This machine's CPU: the Program's torch meaning, kernel by kernel or compiled by Inductor. Times are measured."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from proveout.devices.resident import Body, Resident
from proveout.errors import EnvironmentFault
from proveout.program import Program
from proveout.types import DeviceSpec, Settings


class Cpu:
    """The CPU, in one of two modes."""

    spec: DeviceSpec | None = None

    def __init__(self, mode: Literal["eager", "inductor"] = "eager") -> None:
        if mode == "inductor" and not any(map(shutil.which, ("g++", "clang++", "c++"))):
            raise EnvironmentFault("device 'cpu:inductor' needs a C++ compiler. Install g++, or use device 'cpu'.")
        self.name = "cpu" if mode == "eager" else "cpu:inductor"
        self.mode = mode

    def load(self, program: Program, settings: Settings) -> Resident:
        return Resident(program, wrap=with_inductor if self.mode == "inductor" else None)

    def close(self) -> None:
        """Nothing is held outside the loaded Programs."""


def with_inductor(body: Body, example: list[Any]) -> Body:
    """The body traced once and handed to Inductor; shapes are static, as the Program's are."""

    def compile_now() -> Body:
        from torch._inductor.compile_fx import compile_fx

        with torch.no_grad(), operators_by_name():
            compiled: Body = compile_fx(make_fx(body, tracing_mode="fake")(*example), example)
        return compiled

    # We are called from inside a compiled function, where PyTorch's dispatcher is switched off in part for this
    # thread; another thread starts with it whole.
    with ThreadPoolExecutor(1) as pool:
        compiled = pool.submit(compile_now).result()

    def run(*arguments: Any) -> list[torch.Tensor]:
        return list(compiled(*arguments))

    return run


@contextlib.contextmanager
def operators_by_name() -> Iterator[None]:
    """Inductor names an operator that it has no lowering for with its operands, each with all that it was made from.
    Where each layer's result is read twice, that text doubles with every layer: PyTorch 2.11 never got GPT-2 done."""
    from torch._inductor.exc import OperatorIssue

    whole = OperatorIssue.operator_str
    OperatorIssue.operator_str = staticmethod(lambda target, args, kwargs: f"  target: {target}")  # type: ignore[method-assign]
    try:
        yield
    finally:
        OperatorIssue.operator_str = staticmethod(whole)  # type: ignore[method-assign]

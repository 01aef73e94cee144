"""Something new of each kind, as a person would add it: the files that it takes, which the tests here then use.

The number of files is what the table calls "files to touch".
"""

from __future__ import annotations

KERNEL = ("kernels/eltwise.py", "kernels/ttnn_api.json")
"""Its row and its signature: what test_new_kernel.py adds to."""

VERB = {
    "cli/verbs/greet.py": '''
"""`proveout greet`: says hello."""

from proveout.cli.output import emit


def verb(name: str) -> int:
    """Say hello to somebody.

    Example:
      proveout greet Ada
    """
    emit(f"Hello, {name}.")
    return 0
''',
}

DEVICE = {
    "dummy_device.py": '''
"""A device of another package: torch on the CPU under a name of its own."""

from proveout.devices.host import Cpu
from proveout.devices.registry import DeviceInfo


class Dummy(Cpu):
    def __init__(self):
        super().__init__()
        self.name = "dummy"


def info():
    return DeviceInfo(
        "dummy", "a device that a test adds", times="measured", target="torch", spec=None, opener=Dummy, shared=True
    )
''',
}
"""In this source tree the entry would stand in `devices.registry.builtin`; from outside, an entry point names it."""

OP = {
    "ops/dummy.py": '''
"""The length of a vector with two parts."""

import torch

from proveout.ops.table import Op, Sample


def lower_hypot(b, self, other):
    """The root of the sum of squares."""
    squares = [b.call("ttnn.multiply", input_tensor_a=x, input_tensor_b=x) for x in (self, other)]
    return b.call("ttnn.sqrt", input_tensor=b.call("ttnn.add", input_tensor_a=squares[0], input_tensor_b=squares[1]))


def samples():
    yield Sample((torch.randn(4, 32), torch.randn(4, 32)))


OPS = [Op("aten.hypot.default", lower_hypot, samples=samples)]
''',
}

FUSION = {
    "compiler/program_passes/fuse_dummy.py": '''
"""relu(relu(x)) is relu(x)."""

from dataclasses import replace

from proveout.compiler.program_passes.match import Fusion, Listed, fuse


def fuse_dummy(program, policy):
    return fuse(program, find, policy)


def find(body, step):
    inner = body.maker(step.attr("input_tensor"), "ttnn.relu") if step.kernel == "ttnn.relu" else None
    if inner is None:
        return None
    return Fusion((inner, step), (replace(step, attrs=inner.attrs),), rounds_alike=True)


FUSIONS = (Listed("formulas", 9, fuse_dummy),)
''',
}

COLUMN = {
    "columns/table.py": """
    seeds: int = column(
        lambda r: 4200 + len(r.timings),
        (Shown("Seeds sown", "Seeds", "How many seeds a test has sown."),),
    )
""",
}
"""A field of the row that stands there."""

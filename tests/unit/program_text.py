"""Programs from their text and as text: what tests of passes read and write."""

from __future__ import annotations

import re
from textwrap import dedent
from types import SimpleNamespace

import torch

from proveout.devices.execute import aten_op
from proveout.devices.resident import Resident
from proveout.kernels.table import dtype_name, infer, torch_dtype
from proveout.program import Constant, Name, Program, Ref, Step, refs, verify
from proveout.types import TensorSpec


class Names(SimpleNamespace):
    """`ttnn.bfloat16` in a Program's text."""

    def __getattr__(self, name):
        return Names(prefix="ttnn.GeluVariant") if name == "GeluVariant" else Name(f"{self.prefix}.{name}")


SCOPE = {"Ref": Ref, "device": Name("device"), "ttnn": Names(prefix="ttnn"), "torch": Names(prefix="torch")}
SEND = "dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device"
FETCH = "dtype=torch.float32"
SDPA = "ttnn.transformer.scaled_dot_product_attention"


def parse(text):
    """A Program from its text: `input x float32 (4, 64)`, `weight …`, `constant …`, one call a line, `return y`."""
    given_ = {"input": [], "weight": [], "constant": []}
    specs, body, outputs = {}, [], ()
    for line in dedent(text).strip().splitlines():
        kind, _, rest = line.partition(" ")
        if kind in given_:
            name, dtype, shape = rest.split(" ", 2)
            specs[name] = TensorSpec(eval(shape), dtype)
            given_[kind].append(name)
        elif kind == "return":
            outputs = tuple(Ref(n.strip("% ")) for n in rest.split(","))
        else:
            body.append(read(line, specs))
    data = [Constant(n, b"\1" * specs[n].nbytes) for n in given_["constant"]]
    inputs, weights = (tuple(given_[k]) for k in ("input", "weight"))
    program = Program("p", "ttnn", inputs, weights, tuple(data), outputs, (), tuple(body), specs)
    verify(program, infer)
    return program


def read(line, specs):
    """One call; its results' specs come from the kernel's rule, or from ATen on meta tensors."""
    outputs, kernel, arguments = re.fullmatch(r"(?:(.*) = )?([\w.]+)\((.*)\)", line).groups()
    plain = re.sub(r"%(\w+)", r"Ref('\1')", arguments)
    attrs = eval(f"dict({plain})", SCOPE)
    names = tuple(n.strip("% ") for n in outputs.split(",")) if outputs else ()
    step = Step(kernel, tuple(attrs.items()), names)
    if step.on_host:
        tensors = {n: torch.empty(specs[n].shape, dtype=torch_dtype(specs[n].dtype), device="meta") for n in step.uses}
        found = aten_op(kernel)(**{k: tensors[v.name] if isinstance(v, Ref) else v for k, v in attrs.items()})
        made = [
            TensorSpec(tuple(t.shape), dtype_name(t.dtype)) for t in (found if isinstance(found, tuple) else (found,))
        ]
    else:
        made = infer(step, specs)
    specs.update(zip(names, made))
    return step


def show(program):
    """The calls of a Program, without specs."""
    out = []
    for title, steps in (("setup:", program.setup), ("body:", program.body)):
        if steps:
            out.append(title)
        for step in steps:
            head, _, call = program.format(step).rpartition(f"{step.kernel}(")
            out.append(
                f"{', '.join('%' + n for n in step.outputs)} = {step.kernel}({call}"
                if head
                else f"{step.kernel}({call}"
            )
    out.append("return " + ", ".join(f"%{r.name}" for r in refs(program.outputs)))
    return "\n".join(line.split("  # ")[0] for line in out)


def expect(program, text):
    verify(program, infer)
    assert show(program) == dedent(text).strip()


def run(program, *inputs):
    loaded = Resident(program)
    if program.weights:
        generator = torch.Generator().manual_seed(0)
        loaded.set_weights({w: torch.randn(program.specs[w].shape, generator=generator) for w in program.weights})
    return loaded.run(inputs).outputs

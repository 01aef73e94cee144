"""Writes a Program as a plain Python script of ttnn calls that runs by itself and checks its own outputs."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from pathlib import Path

from proveout.devices.execute import aten_op, gives_tuple, is_plain_name
from proveout.kernels.accept import load_program
from proveout.program import DEALLOCATE, Arg, Program, Ref, Step, code
from proveout.words import counted

HEAD = '''"""{title}

{counts}. Written by `proveout export`; the tensors beside it are the model's own.
It runs on the embedded chip; on Tenstorrent hardware change the import to `import ttnn`.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file

from proveout import ttnn

inf, nan = float("inf"), float("nan")
tensors = load_file(Path(__file__).with_name("tensors.safetensors"))
{device}
'''

ONE_CHIP = "device = ttnn.open_device(device_id=0, l1_small_size=16384)"
SEVERAL_CHIPS = """# Chips that exchange results need their fabric before they are opened.
ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
device = ttnn.open_mesh_device(ttnn.MeshShape(1, {chips}), l1_small_size=16384)"""
GIVEN = '''

def given(outputs):
    """The outputs that there are: a backward op gives None for a gradient that nobody asked for."""
    return [output for output in outputs if output is not None]

'''

TAIL = '''

def check():
    """The outputs against those that the compiled model gave."""
    found = forward(*[tensors[name] for name in INPUTS])
    for index, value in enumerate(found):
        if isinstance(value, torch.Tensor):
            wanted = tensors[f"output {index}"]
            torch.testing.assert_close(value, wanted, rtol=RTOL, atol=ATOL, equal_nan=True)
            print(f"output {index}: {tuple(value.shape)} {value.dtype} as compiled")


if __name__ == "__main__":
    check()
    ttnn.{close}(device)
'''


def write_script(folder: Path, title: str = "") -> Path:
    """`model.py` beside a saved Program and its tensors."""
    path = folder / "model.py"
    path.write_text(render(load_program(folder), title or folder.name))
    return path


def render(program: Program, title: str) -> str:
    """The script's text."""
    names = _identifiers(program)
    device_calls = sum(not s.on_host and s.kernel != DEALLOCATE for s in program.steps)
    host_calls = sum(s.on_host for s in program.steps)
    calls = f"{counted(device_calls, 'ttnn call')}, {counted(host_calls, 'op')} on the host"
    counts = f"{calls}, {counted(program.num_transfers, 'transfer')} per call"
    several = program.chips > 1
    device = SEVERAL_CHIPS.format(chips=program.chips) if several else ONE_CHIP
    head = HEAD.format(title=in_words(title), counts=counts, device=device)
    lines = [head + (GIVEN if any(map(gives_none, program.steps)) else "")]
    lines += [f"{names[w]} = tensors[{w!r}]" for w in (*program.weights, *(c.name for c in program.constants))]
    lines.append("\n# What depends on weights alone, once.")
    lines += [call_line(step, names) for step in program.setup]
    lines.append(f"\nINPUTS = {list(program.inputs)!r}")
    lines.append("RTOL, ATOL = 1.6e-2, 1e-5\n\n")
    lines.append(f"def forward({', '.join(names[n] for n in program.inputs)}):")
    module = None
    for step in program.body:
        if step.origin.module != module and step.kernel != DEALLOCATE:
            module = step.origin.module
            lines.append(f"    # {_one_line(module) or 'model'}")
        lines.append(f"    {call_line(step, names)}")
    lines.append(f"    return [{', '.join(arg_text(o, names) for o in program.outputs)}]")
    return "\n".join(lines) + "\n" + TAIL.replace("{close}", "close_mesh_device" if several else "close_device")


def call_line(step: Step, names: Mapping[str, str], more: str = "") -> str:
    """One Step as a line of Python; `more` are further arguments."""
    arguments = []
    for key, value in step.attrs:
        text = arg_text(value, names)
        arguments.append(f"{key}={text}" if is_plain_name(key) else f"**{{{key!r}: {text}}}")
    function = f"torch.ops.{step.kernel}" if step.on_host else step.kernel
    call = f"{function}({', '.join([*arguments, *([more] if more else [])])})"
    note = f"  # host: {_one_line(step.reason)}" if step.reason else ""
    targets = ", ".join(names[n] for n in step.outputs)
    if gives_none(step):
        call = f"given({call})"
    if len(step.outputs) == 1 and step.on_host and gives_tuple(step.kernel):
        targets += ","
    return f"{targets} = {call}{note}" if targets else f"{call}{note}"


def gives_none(step: Step) -> bool:
    """Whether some of a host op's outputs are None: a Step names only those that are not."""
    returns = aten_op(step.kernel)._schema.returns if step.on_host else ()  # type: ignore[attr-defined]
    return len(returns) > 1 and len(returns) != len(step.outputs)


def arg_text(arg: Arg, names: Mapping[str, str]) -> str:
    """An argument as Python."""
    if isinstance(arg, Ref):
        return names[arg.name]
    if isinstance(arg, tuple):
        return "[" + ", ".join(arg_text(a, names) for a in arg) + "]"
    return code(arg)


def in_words(text: str) -> str:
    """A name inside a docstring: nothing in it ends that, or the line."""
    return _one_line(text).replace("\\", "/").replace('"', "'")


def _one_line(text: str) -> str:
    """A comment's text: what comes after a line's end would be code."""
    return " ".join(text.split())


def identifier(name: str) -> str:
    """A value's name with what no Python name may have replaced."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def _identifiers(program: Program) -> dict[str, str]:
    """A Python name for each value, readable and unlike any other."""
    taken: set[str] = {"device", "tensors", "torch", "ttnn", "forward", "check", "given", "inf", "nan"}
    names = {}
    for value in program.specs:
        name = identifier(value)
        name = f"v_{name}" if keyword.iskeyword(name) or name[:1].isdigit() else name
        while name in taken:
            name += "_"
        taken.add(name)
        names[value] = name
    return names

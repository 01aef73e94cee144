"""Turns a Program's Steps into one Python function over torch tensors: the kernels' meanings, called in order.

Shared by every device that computes with torch. Placement is dropped, deallocation becomes `del`, and names such as
`ttnn.bfloat16` are resolved once, here.
"""

from __future__ import annotations

import functools
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proveout.errors import DeviceError
from proveout.kernels.accept import host_op
from proveout.kernels.pieces import Pieces
from proveout.kernels.table import call_meaning, kernels, kind_of, meaning_on, resolve, sees, storing, torch_dtype
from proveout.program import DEALLOCATE, FROM_TORCH, Arg, Program, Ref, Step


def aten_op(name: str) -> Callable[..., Any]:
    """The callable behind a host Step's name, `aten.nonzero.default` or `mylib.op.default`."""
    return host_op(WHOLE.get(name, name))


WHOLE = {"aten._conj.default": "aten._conj_physical.default", "aten._neg_view.default": "aten.neg.default"}
"""Ops that only note what is to be done, and the same done: what comes after may look at the memory itself."""


def is_plain_name(text: str) -> bool:
    """Whether a text may stand in generated Python as the name of an argument: code never gets there as one."""
    return text.isidentifier() and not keyword.iskeyword(text)


def check_chips(program: Program, device: str, chips: int) -> None:
    """Refuse a Program for more chips than a device has."""
    if program.chips > chips:
        raise DeviceError(
            f"the Program is for {program.chips} chips and {device} has {chips}. "
            "Compile it for this device, or with parallel='none'."
        )


def is_placement(step: Step) -> bool:
    """Whether a Step changes at most where and in which layout numbers lie."""
    return kind_of(step) in ("layout", "memory")


Meanings = Callable[[Step], Callable[..., Any]]
"""What each ttnn Step of a Program computes, as a function of its attributes."""


def fast(program: Program) -> Meanings:
    """torch's own kernels, with results stored as the Program's specs say."""
    return lambda step: storing(kernels()[step.kernel], tuple(program.specs[n].dtype for n in step.outputs))


def unrounded(step: Step) -> Callable[..., Any]:
    """The kernel's meaning as it is: nothing is rounded to block floats."""
    return kernels()[step.kernel].meaning


def on_chips(meanings: Meanings, chips: int) -> Meanings:
    """The same on values that lie on this many chips, each a `Pieces`."""
    return meanings if chips == 1 else lambda step: meaning_on(kernels()[step.kernel], chips, meanings(step))


def run_step(step: Step, values: Mapping[str, Any], meanings: Meanings = unrounded) -> tuple[Any, ...]:
    """One Step, now: its outputs."""
    attrs = {k: _concrete(v, values) for k, v in step.attrs if step.on_host or sees(kernels()[step.kernel], k)}
    if step.on_host:
        out = aten_op(step.kernel)(**attrs)
    else:
        out = call_meaning(kernels()[step.kernel], attrs, meanings(step))
    return _present(out) if isinstance(out, (tuple, list)) and not isinstance(out, Pieces) else (out,)


def _present(out: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs that there are: a backward gives None for a gradient nobody asked for, and a Step names none."""
    return tuple(o for o in out if o is not None)


def _concrete(arg: Arg, values: Mapping[str, Any]) -> Any:
    if isinstance(arg, Ref):
        return values[arg.name]
    return [_concrete(a, values) for a in arg] if isinstance(arg, tuple) else resolve(arg)


class Transfers:
    """Counts crossings between host and device as they happen."""

    def __init__(self) -> None:
        self.count = 0

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(**attrs: Any) -> Any:
            self.count += 1
            return function(**attrs)

        return call


def body_function(
    program: Program, stable: Sequence[str], transfers: Transfers, meanings: Meanings
) -> Callable[..., list[Any]]:
    """The body as `f(*inputs, *stable) -> [*outputs, *state]`; `stable` are the values that setup, weights and
    constants give."""
    used = {n for s in program.body for n in s.uses} | program.results
    params = [*program.inputs, *stable]
    variable = {name: f"v{i}" for i, name in enumerate(program.specs)}
    scope: dict[str, Any] = {"given": _present}
    lines = [f"def body({', '.join(variable[p] for p in params)}):"]
    left = (*program.outputs, *(Ref(value) for _, value in program.state))
    fresh = needs_copy(program)
    late = {Ref(name) for name in late_casts(program)}

    def bind(value: Any) -> str:
        name = f"c{len(scope)}"
        scope[name] = value
        return name

    def text(arg: Arg) -> str:
        if isinstance(arg, Ref):
            return variable[arg.name]
        if isinstance(arg, tuple):
            if any(True for _ in _refs(arg)):
                return "[" + ", ".join(map(text, arg)) + "]"
            return bind([_concrete(a, {}) for a in arg])
        value = resolve(arg)
        return repr(value) if value is None or type(value) in (bool, int, str) else bind(value)

    functions: dict[Callable[..., Any], str] = {}
    for step in program.body:
        if step.kernel == DEALLOCATE:
            lines.append(f"    del {variable[step.uses[0]]}")
            continue
        outputs = [variable[n] for n in step.outputs]
        if is_placement(step) and "dtype" not in dict(step.attrs):
            lines.append(f"    {outputs[0]} = {variable[step.uses[0]]}")
            continue
        meaning = aten_op(step.kernel) if step.on_host else meanings(step)
        if meaning not in functions:
            functions[meaning] = bind(transfers.counted(meaning) if step.is_transfer else meaning)
        texts = [(k, text(v)) for k, v in step.attrs if step.on_host or sees(kernels()[step.kernel], k)]
        arguments = ", ".join(f"{k}={v}" if is_plain_name(k) else f"**{{{k!r}: {v}}}" for k, v in texts)
        target = f"{outputs[0]} = " if len(outputs) == 1 else f"{', '.join(outputs)}, = " if outputs else ""
        call = f"{functions[meaning]}({arguments})"
        if step.attr("weight") in late:
            call += f".to({bind(torch_dtype(program.specs[step.outputs[0]].dtype))})"
        if step.on_host and gives_tuple(step.kernel):
            call = f"given({call})[0]" if len(outputs) == 1 else f"given({call})"
        lines.append(f"    {target}{call}")
        lines += [f"    del {variable[n]}" for n in step.outputs if n not in used]
    results = [f"{text(o)}.clone()" if index in fresh else text(o) for index, o in enumerate(left)]
    lines.append(f"    return [{', '.join(results)}]")
    exec(compile("\n".join(lines), f"<program {program.name}>", "exec"), scope)
    function: Callable[..., list[Any]] = scope["body"]
    return function


def late_casts(program: Program) -> frozenset[str]:
    """Setup results that are tables cast to the device's dtype and only looked up in: casting the rows that a call
    takes gives the same numbers, and the table itself stays the live weight."""
    casts = {s.outputs[0] for s in program.setup if s.kernel == FROM_TORCH}
    for step in program.setup:
        casts.difference_update(step.uses)
    for step in program.body:
        for key, arg in step.attrs:
            if not _is_table(step, key):
                casts.difference_update(ref.name for ref in _refs(arg))
    return frozenset(casts)


def _is_table(step: Step, key: str) -> bool:
    """Whether this argument is the table that a Step looks rows up in."""
    row = None if step.on_host else kernels()[step.kernel]
    return row is not None and row.kind == "lookup" and row.weight is not None and row.weight.operand == key


def gives_tuple(name: str) -> bool:
    """Whether an ATen op gives several values, however many of them a Step names."""
    returns = aten_op(name)._schema.returns  # type: ignore[attr-defined]
    return len(returns) > 1 or (len(returns) == 1 and str(returns[0].type).startswith("List"))


def needs_copy(program: Program) -> frozenset[int]:
    """Outputs, and after them values of the state, that share memory with an input, a weight or an earlier one, where
    eager's own do not."""
    root = {name: name for name in (*program.inputs, *program.weights, *(c.name for c in program.constants))}
    taken = set(root.values())
    for step in program.steps:
        for name in step.outputs:
            shares = step.uses and not step.on_host and kernels()[step.kernel].view
            root[name] = root.get(step.uses[0], step.uses[0]) if shares else name
    copies = set()
    for index, output in enumerate((*program.outputs, *(Ref(value) for _, value in program.state))):
        if isinstance(output, Ref):
            if root[output.name] in taken:
                copies.add(index)
            taken.add(root[output.name])
    return frozenset(copies)


def _refs(arg: Arg) -> list[Ref]:
    if isinstance(arg, Ref):
        return [arg]
    return [r for a in arg for r in _refs(a)] if isinstance(arg, tuple) else []

"""A Program's setup as a person writes it: a weight is turned and reshaped as torch's tensor, before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proveout.program import DEALLOCATE, FROM_TORCH, TO_TORCH, Arg, Name, Program, Ref, Step

EXACT = (Name("ttnn.bfloat16"), Name("ttnn.float32"))
"""Formats in which a number is the same wherever it lies; the numbers of a block share an exponent."""


def simplified(program: Program) -> Program:
    """The same Program, to be written and not run: `from_torch(weight.T)` of what is sent and then permuted."""
    setup = program.setup
    kept = set(program.resident)
    while (shorter := _shorter(setup, kept)) is not None:
        setup = shorter
    return replace(program, setup=setup)


def _shorter(setup: tuple[Step, ...], kept: set[str]) -> tuple[Step, ...] | None:
    """The setup with one value less: one that is sent for a single other Step, which can take it before that."""
    readers: dict[str, list[Step]] = {}
    for step in setup:
        for name in step.uses if step.kernel != DEALLOCATE else ():
            readers.setdefault(name, []).append(step)
    for sent in setup:
        if sent.kernel != FROM_TORCH or sent.attr("dtype") not in EXACT or sent.outputs[0] in kept:
            continue
        after = readers.get(sent.outputs[0], [])
        joined = _joined(sent, after[0], readers.get(after[0].outputs[0], [])) if len(after) == 1 else None
        if joined is None:
            continue
        gone = {*sent.outputs, *after[0].outputs}.difference(name for step in joined for name in step.outputs)
        if gone & kept:
            continue
        renamed = {after[0].outputs[0]: sent.attr("tensor")} if not joined else {}
        return tuple(
            _reading(new, renamed)
            for step in setup
            if step is not sent and not (step.kernel == DEALLOCATE and step.uses[0] in gone)
            for new in (joined if step is after[0] else (step,))
        )
    return None


def _joined(sent: Step, then: Step, readers: Sequence[Step]) -> tuple[Step, ...] | None:
    """Steps that give what the second one gave; none where it is taken back and sent in the same format again."""
    keys = {key for key, _ in then.attrs}
    moves = {"ttnn.permute": ("aten.permute.default", "dims"), "ttnn.reshape": ("aten.reshape.default", "shape")}
    if then.kernel in moves and keys == {"input_tensor", moves[then.kernel][1]}:
        kernel, key = moves[then.kernel]
        moved = f"{then.outputs[0]}.moved"
        attrs = (("self", sent.attr("tensor")), (key, then.attr(key)))
        return replace(then, kernel=kernel, attrs=attrs, outputs=(moved,)), _sent(sent, then, tensor=Ref(moved))
    if then.kernel == "ttnn.to_layout" and keys == {"tensor", "layout"}:
        return (_sent(sent, then, layout=then.attr("layout")),)
    again = then.kernel == TO_TORCH and all(
        step.kernel == FROM_TORCH and step.attr("dtype") == sent.attr("dtype") for step in readers
    )
    return () if again else None


def _sent(sent: Step, then: Step, **changed: Arg) -> Step:
    """What is sent with other arguments, under the name of what was made of it."""
    return replace(sent, attrs=tuple((k, changed.get(k, v)) for k, v in sent.attrs), outputs=then.outputs)


def _reading(step: Step, renamed: dict[str, Arg]) -> Step:
    if not renamed.keys() & set(step.uses):
        return step
    attrs = tuple((k, renamed.get(v.name, v) if isinstance(v, Ref) else v) for k, v in step.attrs)
    return replace(step, attrs=attrs)

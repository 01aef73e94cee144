"""What an explanation tells a person, in sentences, most important first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from proveout.cause.findings import COMPILER, LOFI, Contribution, tree_of, walk
from proveout.cause.local import Pass
from proveout.cause.sides import Pair

NOTABLE = 0.1
SPREAD = 0.2
"""Of the whole: where no op has as large a share, none stands out."""


def sentences(pair: Pair, seen: Pass, parts: Sequence[Contribution], whole: float, what: str) -> list[str]:
    """Of the `error`, or of the `difference` of two devices; `pair` is the side that the first part is of."""
    if not parts or not whole:
        return [f"Both sides give the same: there is no {what} to explain."]
    top, largest = parts[0], max(parts, key=lambda part: part.share)
    if top.op == COMPILER:
        return [_program(top, whole, what)]
    if not top.is_suspect and largest.share < SPREAD * whole:
        return [*_spread(parts, largest, whole, what), *_together(parts, whole, what)]
    out = [f"{_where(top)} makes {top.share / whole:.0%} of the {what}{_adds(top)}."]
    if top.is_suspect:
        out.append(f"{_unlike(top)}: look here first.")
    if top.adds and top.arrives >= 2 * top.adds:
        reason = f"What it adds arrives at the outputs {top.arrives / top.adds:.0f} × larger"
        magnifier = _magnifier(pair, seen, top.position)
        out.append(f"{reason}: amplification{f', most of it in {magnifier}' if magnifier else ' along the way'}.")
    if largest is not top:
        out.append(f"The largest share is that of {_where(largest)}: {largest.share / whole:.0%}{_adds(largest)}.")
    return [*out, *_together(parts, whole, what)]


def _program(top: Contribution, whole: float, what: str) -> str:
    share = f"{top.share / whole:.0%} of the {what}"
    if what == "difference":
        return (
            f"{share} is there in float32 already: the two Programs do not mean the same. Explain each of them alone."
        )
    return (
        f"{share} is there before any op runs on the device: the Program in float32 is off. A pass or a lowering "
        "changes what the model means; dump the graphs (`proveout compile --dump`)."
    )


def _unlike(top: Contribution) -> str:
    """What is not as expected of a suspect, and what it is held against."""
    if top.stands_out == LOFI:
        return "It computes as in LoFi, and others do not"
    what, lofi, _ = top.stands_out.partition(f", {LOFI}")
    usual = f" of it ({top.expected:.2%})"
    if "throughout" in what and top.usual_drift is not None:
        much, way = abs(top.usual_drift), "large" if top.usual_drift > 0 else "small"
        usual = f", and others like it would be {much:.1%} too {way}"
    return f"That is {what}{usual}{lofi}"


def _spread(parts: Sequence[Contribution], largest: Contribution, whole: float, what: str) -> list[str]:
    """Where no op stands out: how many there are, and the module that most of them are in."""
    out = [
        f"No op stands out: the {what} is spread over {sum(part.ops for part in parts)} ops. The largest share is "
        f"{largest.share / whole:.0%}, of {_where(largest)}{_adds(largest)}."
    ]
    modules = [branch for _, branch in walk(tree_of(parts)) if branch.share > SPREAD * whole and branch.is_module]
    if len(modules) > 1:  # the first is the whole model
        inner = modules[-1]
        out.append(f"{inner.share / whole:.0%} of it comes from {inner.path} ({inner.ops} ops).")
    return out


def _together(parts: Sequence[Contribution], whole: float, what: str) -> list[str]:
    together = sum(part.interaction for part in parts)
    if abs(together) <= NOTABLE * whole:
        return []
    if together > 0:
        how = f"{together / whole:.0%} of the {what} is there only because errors of several ops point the same way"
    else:
        how = f"Errors of several ops cancel: one by one they would make {1 - together / whole:.1f} × as much"
    return [f"{how} (interaction)."]


def _where(part: Contribution) -> str:
    if part.role == "several":
        return f"{part.op} in {part.origin.module or 'the model'}{f' on {part.side}' if part.side else ''}"
    places = ", ".join(filter(None, (part.origin.module, PurePath(part.origin.source).name, part.side)))
    return f"{part.op}{f' ({places})' if places else ''}"


def _adds(part: Contribution) -> str:
    if part.adds is None:
        return ""
    return f": it adds {part.adds:.2%}, and {part.arrives:.2%} arrives"


def _magnifier(pair: Pair, seen: Pass, position: int) -> str:
    """The op after this one that makes what it gives the largest number of times larger."""
    reached = set(pair.device.steps[position].outputs)
    best, name = 0.0, ""
    for index in range(position + 1, len(pair.device.steps)):
        step, local = pair.device.steps[index], seen.locals[index]
        if reached.intersection(step.uses):
            reached.update(step.outputs)
            if local.gain is not None and local.gain > best and local.role == "magnifies":
                best, name = local.gain, f"{step.kernel}{f' ({step.origin.module})' if step.origin.module else ''}"
    return f"{name}, which makes it {best:.1f} × larger" if name else ""

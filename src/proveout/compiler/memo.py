"""Repeated layers are lowered once: a node called as one before it was gets that one's Steps under new names.

What a lowering does depends on the op, its other arguments, and for each operand on its shape, dtype, proven range and
the forms in which it lies about. Two nodes that agree in all of it get the same Steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from proveout.compiler.emit import Emitter, Form, values_in
from proveout.ops.table import Refused, Value
from proveout.program import Ref, Step, with_refs
from proveout.reasons import Reason
from proveout.types import TensorSpec


@dataclass(frozen=True)
class _Template:
    """What one lowering left behind, or why it refused."""

    operands: tuple[Value, ...]
    forms: tuple[str, ...]
    """The names of the operands' forms, in the order of the key."""
    steps: tuple[tuple[Step, tuple[TensorSpec, ...]], ...] = ()
    added: tuple[tuple[str, Form, str], ...] = ()
    """(value, form, name) for each form that it made."""
    result: Any = None
    refusal: Reason | None = None


class Memo:
    """Remembers the lowerings of one Program."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._known: dict[Any, _Template] = {}

    def lowered(self, aten: str, arguments: dict[str, Any], lower: Callable[[], Any]) -> Any:
        """The result of `lower()`, by running it or by repeating what it did for an equal call."""
        b = self._emitter
        operands = tuple({v.name: v for v in values_in(list(arguments.values()))}.values())
        forms = tuple(dict.fromkeys(name for v in operands for name in b.forms[v.name].values()))
        outs = tuple(o and (o.shape, o.dtype) for o in b.outs)
        key = (aten, b.profile, outs, b.used_outputs, b.wraps_to, self._key(arguments, operands, forms))
        template = self._known.get(key)
        if template is not None:
            if template.refusal:
                raise Refused(template.refusal)
            return self._repeat(template, operands, forms)
        num_steps, num_forms, constants = len(b.steps), len(b.journal), set(b.constants)
        try:
            result = lower()
        except Refused as refusal:
            self._known[key] = _Template(operands, forms, refusal=refusal.reason)
            raise
        steps = tuple((s, tuple(b.specs[n] for n in s.outputs)) for s in b.steps[num_steps:])
        added = tuple((value, form, b.forms[value][form]) for value, form in b.journal[num_forms:])
        once = b.constants.keys() - constants
        for step, _ in steps:  # what a lowering makes of its own constants, all its repetitions share
            if step.uses and once.issuperset(step.uses):
                once.update(step.outputs)
        kept = tuple((s, specs) for s, specs in steps if not once.intersection(s.outputs))
        self._known[key] = _Template(operands, forms, kept, tuple(a for a in added if a[0] not in once), result)
        return result

    def _key(self, arguments: dict[str, Any], operands: tuple[Value, ...], forms: tuple[str, ...]) -> Any:
        position = {v.name: i for i, v in enumerate(operands)}
        place = {name: i for i, name in enumerate(forms)}

        def key(value: Any) -> Any:
            if isinstance(value, Value):
                return ("operand", position[value.name])
            if isinstance(value, (list, tuple)):
                return (type(value), *map(key, value))
            return type(value), repr(value)

        described = tuple(
            (
                v.shape,
                v.dtype,
                v.range,
                v.name if v.constant is not None else None,
                tuple((form, place[name]) for form, name in self._emitter.forms[v.name].items()),
            )
            for v in operands
        )
        return described, tuple((k, key(v)) for k, v in arguments.items())

    def _repeat(self, template: _Template, operands: tuple[Value, ...], forms: tuple[str, ...]) -> Any:
        b = self._emitter
        values = {old.name: new.name for old, new in zip(template.operands, operands, strict=True)}
        names = dict(zip(template.forms, forms, strict=True))
        for step, specs in template.steps:
            renamed = with_refs(step, lambda ref: Ref(names.get(ref.name, ref.name)))
            names.update(zip(step.outputs, b.step(step.kernel, dict(renamed.attrs), specs)))
        for value, form, name in template.added:
            if value not in values:
                values[value] = names[value] if value in names else b.fresh(f"{names.get(name, name)}.as")
            b.add_form(values[value], form, names.get(name, name))

        def result(value: Any) -> Any:
            if isinstance(value, Value):
                return replace(value, name=values.get(value.name, value.name))
            return tuple(map(result, value)) if isinstance(value, tuple) else value

        return result(template.result)

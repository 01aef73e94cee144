"""Chooses tile or row-major for every Step that takes either, so that conversions and padding cost least.

The choice is a minimum cut over the whole body; then conversions stand only where it crosses, each made once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

from proveout.chip.time import HOST_NS, TRACED_GAP_NS
from proveout.compiler.mincut import PriceGraph
from proveout.kernels.cost import step_time
from proveout.kernels.table import LAYOUT_NAMES, infer, kernels, kind_of, refusal, specs_of
from proveout.program import FROM_TORCH, TO_TORCH, Program, Ref, Step, with_refs
from proveout.types import DeviceSpec, Layout, Origin, Settings

LAYOUTS: tuple[Layout, Layout] = ("row_major", "tile")


def layouts(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    return _Choice(program, chip, settings).rebuilt()


class _Choice:
    def __init__(self, program: Program, chip: DeviceSpec, settings: Settings) -> None:
        self.program, self.chip, self.settings = program, chip, settings
        self.root = _without_conversions(program)
        self.stable = _stable(program)
        self.maker = {name: index for index, step in self._steps() for name in step.outputs}
        self.tiled = self._solve()

    # ---- the cut: side a is tile, side b row-major -----------------------------------------------------------

    def _solve(self) -> frozenset[object]:
        cut = PriceGraph()
        readers: dict[str, list[object]] = {}
        for index, step in self._steps():
            reader = index if _is_free(step) else f"needs {_needs(step)}" if _needs(step) else None
            for name in step.uses if reader is not None and not _makes(step) else ():
                source = self.root.get(name, name)
                if source in self.maker:
                    readers.setdefault(source, []).append(reader)
            if _is_free(step):
                cut.item(index, self._cost(index, "tile"), self._cost(index, "row_major"))
            else:
                for name in step.outputs:
                    wanted = self.program.specs[name].layout
                    cut.item(index, *((0.0, float("inf")) if wanted == "tile" else (float("inf"), 0.0)))
        cut.item("needs tile", cost_b=float("inf"))
        cut.item("needs row_major", cost_a=float("inf"))
        for name, uses in readers.items():
            to_rows, to_tiles = (self._conversion_ns(name, layout) for layout in LAYOUTS)
            cut.value(self.maker[name], uses, to_rows, to_tiles)
        return cut.solve()

    def _steps(self) -> Iterator[tuple[int, Step]]:
        for index, step in enumerate(self.program.body):
            if not step.on_host and not _converts(step):
                yield index, step

    def _cost(self, index: int, layout: Layout) -> float:
        """Modelled time of a free Step in a layout; what ttnn refuses is out of the question."""
        step = self.program.body[index]
        specs = {n: replace(self.program.specs[n], layout=layout) for n in (*step.uses, *step.outputs)}
        if refusal(kernels()[step.kernel], specs_of(step, specs)):
            return float("inf")
        return 0.0 if step.outputs[0] in self.stable else float(step_time(step, specs, self.chip, self.settings).ns)

    def _conversion_ns(self, name: str, layout: Layout) -> float:
        """One more Step: its kernel, and the gap or the host's pace before the next; once costs nothing."""
        if name in self.stable:
            return 0.0
        step = _conversion("x", layout, "y", Origin())
        other = LAYOUTS[1 - LAYOUTS.index(layout)]
        specs = {"x": replace(self.program.specs[name], layout=other)}
        specs["y"] = replace(specs["x"], layout=layout)
        gap_ns = TRACED_GAP_NS[1] if self.settings.trace else HOST_NS[1]
        return float(gap_ns + step_time(step, specs, self.chip, self.settings).ns)

    # ---- the Program with that choice ------------------------------------------------------------------------

    def rebuilt(self) -> Program:
        specs = dict(self.program.specs)
        body: list[Step] = []
        forms: dict[tuple[str, str], str] = {}

        def form(ref: Ref, layout: Layout | None) -> Ref:
            name = self.root.get(ref.name, ref.name)
            if layout is None or name not in self.maker or specs[name].layout == layout:
                return Ref(name)
            if (name, layout) not in forms:
                out = forms[name, layout] = f"{name}.{layout}"
                specs[out] = replace(specs[name], layout=layout)
                body.append(_conversion(name, layout, out, current.origin))
            return Ref(forms[name, layout])

        for index, current in enumerate(self.program.body):
            if _converts(current):
                del specs[current.outputs[0]]
                continue
            chosen: Layout = "tile" if index in self.tiled else "row_major"
            wanted = chosen if _is_free(current) else _needs(current)
            as_it_is = current.on_host or _makes(
                current
            )  # a transfer's operand is the host's, whatever layout it sends
            step = with_refs(current, functools.partial(form, layout=None if as_it_is else wanted))
            if _makes(step) and _is_free(step):
                step = step.with_attrs(layout=LAYOUT_NAMES[chosen])
            if not step.on_host and step.outputs:
                specs.update(zip(step.outputs, infer(step, specs)))
            body.append(step)
        state = tuple((weight, self.root.get(value, value)) for weight, value in self.program.state)
        return replace(self.program, body=tuple(body), specs=specs, state=state)


def _converts(step: Step) -> bool:
    return kind_of(step) == "layout"


def _conversion(source: str, layout: Layout, out: str, origin: Origin) -> Step:
    return Step("ttnn.to_layout", (("tensor", Ref(source)), ("layout", LAYOUT_NAMES[layout])), (out,), origin)


def _needs(step: Step) -> Layout | None:
    return None if step.on_host else kernels()[step.kernel].layout


def _makes(step: Step) -> bool:
    """Whether a Step makes a value in whichever layout it is asked for."""
    return step.kernel == FROM_TORCH or kind_of(step) == "creation"


def _is_free(step: Step) -> bool:
    """Whether a Step's result is in the layout that its operands, or the asker, choose."""
    row = None if step.on_host else kernels()[step.kernel]
    if row is None or step.kernel == TO_TORCH or not step.outputs or row.layout or row.out_layout:
        return False
    return not _makes(step) or ("layout" in dict(step.attrs) and "device" in dict(step.attrs))


def _without_conversions(program: Program) -> dict[str, str]:
    """Results of conversions, by the value that was converted."""
    root: dict[str, str] = {}
    for step in program.body:
        if _converts(step):
            (source,) = step.uses
            root[step.outputs[0]] = root.get(source, source)
    return root


def _stable(program: Program) -> frozenset[str]:
    """Values that do not change from call to call; what is done to them is done once."""
    known = set(program.fixed)
    for step in program.body:
        if known.issuperset(step.uses) and not step.on_host:
            known.update(step.outputs)
    return frozenset(known)

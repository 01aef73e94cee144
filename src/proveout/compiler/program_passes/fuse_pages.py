"""A cache in pages becomes ttnn's own calls: `paged_fill_cache` for prompts; for a token of each user
`paged_update_cache` and the decode attention, both with the page table.

The pattern is what `generation.cache`'s paged layers give after lowering: rows scattered into a state made flat, at
places that a table and the positions say, and attention over the pages that the same table looks up. A table's entries
are pages: what it would mean otherwise, eager refuses too.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from proveout.compiler.program_passes.fuse_attention import constant_of
from proveout.compiler.program_passes.fuse_decode import DecodeFusion, NewSteps, Put, repeats_heads
from proveout.compiler.program_passes.match import Listed, Policy
from proveout.compiler.program_passes.prune import prune
from proveout.kernels.table import LAYOUT_NAMES, kind_of
from proveout.ops.attention import SDPA
from proveout.program import FROM_TORCH, Arg, Name, Program, Ref, Step

SAME_PAGES = ("layout", "view", "cast", "memory")
PAGES_FIRST = (0, 2, 1, 3, 4)
"""[users or prompts, heads, pages, page, size] with pages before heads, and back."""


def fuse_pages(program: Program, policy: Policy) -> Program:
    if not program.state or not any(step.kernel == "ttnn.scatter" for step in program.body):
        return program
    program = prune(program)
    for attention in [step for step in program.body if step.kernel == SDPA]:
        program = _Pages(program, policy).fused(attention) or program
    for _, value in program.state:
        program = _Pages(program, policy).filled(value) or program
    return program


class _Pages(DecodeFusion):
    # ---- one token of each user --------------------------------------------------------------------------------

    def length(self, put: Put) -> int:
        return self.body.specs[put.table].shape[1] * self.body.specs[put.copy.outputs[0]].shape[2]

    def put(self, arg: Arg, query: tuple[int, ...], attention: Step) -> Put | None:
        """What is put into the pages that a table looks up for attention."""
        start, chain = self.back(arg, "layout", "view", "broadcast", "order")
        look = self.body.maker(start, "ttnn.embedding")
        if look is None:
            return None
        source, weights = self.back(look.attr("weight"), "layout", "view")
        scatter = self.body.maker(source, "ttnn.scatter")
        table, tables = self._table(look.attr("input_tensor"))
        kept = self._kept(scatter) if scatter is not None else None
        if scatter is None or kept is None or table is None or not self._whole(tables):
            return None
        value, copy, after = kept
        _, heads, page, size = self.body.specs[copy.outputs[0]].shape
        users, count = self.body.specs[table].shape
        if users != query[0] or not self._in_order(chain, (users, count, heads, page, size), query[1]):
            return None
        new, converted = self.back(scatter.attr("src"), "layout")
        position = self._position_of(scatter, table, (users, heads, page, size))
        if position is None or self.body.spec(new).numel != users * heads * size:
            return None
        inner = (scatter, *after, *weights, look, *chain)
        if self.read_elsewhere(inner, (attention,), value):
            return None
        before = (*converted, *self.back(scatter.attr("index"), *SAME_PAGES, "broadcast")[1], *tables)
        return Put(self.state[value], copy, value, scatter, new, (*inner, *self.alone(before)), position, table)

    def _kept(self, scatter: Step) -> tuple[str, Step, tuple[Step, ...]] | None:
        """The state that a scatter writes to: what holds it afterwards, its copy, and the Steps in between."""
        source, _ = self.back(scatter.attr("input"), "layout", "view")
        copy = self.copies.get(source.name)
        values = []
        for value, weight in self.state.items():
            start, steps = self.back(Ref(value), "layout", "view")
            if start.name == scatter.outputs[0] and copy is not None and copy.uses == (weight,):
                values.append((value, copy, steps))
        if len(values) != 1 or scatter.attr("reduce") or len(self.body.specs[values[0][0]].shape) != 4:
            return None
        return values[0]

    def _table(self, arg: Arg) -> tuple[str | None, tuple[Step, ...]]:
        """The input of the Program that these numbers are, cut perhaps, and the Steps on the way from last to first."""
        steps: list[Step] = []
        while True:
            source, more = self.back(arg, *SAME_PAGES, "broadcast")
            steps += more
            step = self.body.maker(source, "ttnn.clamp", "ttnn.slice")
            if step is None:
                break
            steps.append(step)
            arg = step.attr("input_tensor")
        maker = self.body.maker(source, FROM_TORCH)
        name = maker.uses[0] if maker is not None else ""
        is_table = name in self.program.inputs and len(self.body.specs[name].shape) == 2
        return (name if is_table else None), tuple(steps)

    @staticmethod
    def _whole(steps: tuple[Step, ...]) -> bool:
        """Whether a table comes through these Steps as it is."""
        return not any(s.kernel == "ttnn.slice" or kind_of(s) == "broadcast" for s in steps)

    def _in_order(self, chain: tuple[Step, ...], sizes: tuple[int, ...], query_heads: int) -> bool:
        """Whether these Steps make pages in order, [users, heads, length, size], of pages [users, count, …]."""
        users, count, heads, page, size = sizes
        moves = [s for s in reversed(chain) if kind_of(s) != "layout"]
        shapes = [self.body.specs[s.outputs[0]].shape for s in moves]
        orders = [i for i, s in enumerate(moves) if kind_of(s) == "order"]
        if len(orders) == 1:
            at = orders[0]
            if moves[at].attr("dims") != PAGES_FIRST or at == 0 or shapes[at - 1] != sizes:
                return False
            shapes = shapes[at + 1 :]
        elif orders or (count > 1 and heads > 1):
            return False
        whole = (users, heads, count * page, size)
        kinds = {kind_of(s) for s in moves[: len(moves) - len(shapes)]}
        if "broadcast" in kinds:
            return False
        while shapes and len(shapes[0]) >= 4 and shapes[0] == whole:
            shapes = shapes[1:]
        if not shapes:
            return heads == query_heads or not query_heads % heads
        return repeats_heads(whole, shapes, query_heads)

    def _position_of(self, scatter: Step, table: str, sizes: tuple[int, int, int, int]) -> Ref | None:
        """The positions where a scatter's index is that of each user's row in the page of its position."""
        users, heads, page, size = sizes
        index, steps = self.back(scatter.attr("index"), *SAME_PAGES, "broadcast")
        shapes = [self.body.specs[s.outputs[0]].shape for s in reversed(steps) if kind_of(s) in ("view", "broadcast")]
        if scatter.attr("dim") != 0 or self.body.spec(index).numel != users * heads:
            return None
        if [s for s in shapes if s not in ((users * heads, 1), (users * heads, size))] or not shapes:
            return None
        start = self._plus(index, torch.arange(heads) * page) if self.body.maker(index, "ttnn.add") else None
        gather = self.body.maker(start, "ttnn.gather") if start is not None else None
        if gather is None or gather.attr("dim") != 1 or self.body.spec(index).shape != (users, heads):
            return None
        every, _ = self.back(gather.attr("input"), *SAME_PAGES)
        first = self._plus(every, torch.arange(page))
        scaled = self.body.maker(first, "ttnn.multiply") if first is not None else None
        if scaled is None or scaled.attr("input_tensor_b") != heads * page:
            return None
        if self.body.spec(every).shape != (*self.body.specs[table].shape, page):
            return None
        name, steps_of_table = self._table(scaled.attr("input_tensor_a"))
        if name != table or not self._whole(steps_of_table):
            return None
        position, _ = self.back(gather.attr("index"), *SAME_PAGES)
        return position if self.body.spec(position).numel == users else None

    def _plus(self, arg: Arg, numbers: torch.Tensor) -> Ref | None:
        """What these numbers are added to, along the last dimension."""
        step = self.body.maker(arg, "ttnn.add")
        if step is None:
            return None
        data = constant_of(self.body, step.attr("input_tensor_b"))
        if data is None or data.shape[-1:] != numbers.shape or data.numel() != len(numbers):
            return None
        return self.back(step.attr("input_tensor_a"), *SAME_PAGES)[0] if bool((data == numbers).all()) else None

    def pages(self, new: NewSteps, put: Put) -> Ref:
        """int32, in rows. All layers share it."""
        name = f"{put.table}.pages"
        if name in new.specs:
            return Ref(name)
        maker = next(s for s in self.program.body if s.kernel == FROM_TORCH and s.uses == (put.table,))
        form = maker.with_attrs(layout=LAYOUT_NAMES["row_major"], dtype=Name("ttnn.int32"))
        new.add(replace(form, outputs=(name,)))
        new.after[id(maker)] = [*new.after.get(id(maker), []), *new.taken()]
        return Ref(name)

    # ---- prompts -----------------------------------------------------------------------------------------------

    def filled(self, value: str) -> Program | None:
        """The Program with what this state holds put there by fills, one a prompt; None where it is otherwise."""
        start, _ = self.back(Ref(value), "layout", "view")
        scatter = self.body.maker(start, "ttnn.scatter")
        kept = self._kept(scatter) if scatter is not None else None
        if scatter is None or kept is None or kept[0] != value or scatter.attr("dim") != 1:
            return None
        _, copy, after = kept
        pages, heads, page, size = self.body.specs[copy.outputs[0]].shape
        table, steps = self._table(scatter.attr("index"))
        if table is None or self.body.spec(scatter.attr("input")).shape != (1, pages, heads * page * size):
            return None
        prompts, width = self.body.specs[table].shape
        count = self.body.spec(scatter.attr("index")).shape[1] // prompts
        cuts = [s for s in steps if s.kernel == "ttnn.slice"]
        first = ((0, 0), (prompts, count), (1, 1))
        if any(tuple(cut.attr(f"slice_{n}") for n in ("start", "end", "step")) != first for cut in cuts):
            return None
        shapes = [self.body.specs[s.outputs[0]].shape for s in steps if s.kernel != "ttnn.slice"]
        in_order = _row_shapes(prompts, count, heads * page * size)
        if not all(shape in in_order or (cuts and shape == (prompts, width)) for shape in shapes):
            return None
        new = self._prompts(scatter.attr("src"), (prompts, heads, count, page, size))
        if new is None:
            return None
        source, moved = new
        inside = (scatter, *after)
        if self.read_elsewhere(inside, value=value):
            return None
        around = (*moved, *steps, *self.back(scatter.attr("input"), "layout", "view")[1])
        put = Put(self.state[value], copy, value, scatter, source, (*inside, *self.alone(around)), table=table)
        return self._rewritten_fill(put, (prompts, heads, count * page, size))

    def _prompts(self, arg: Arg, sizes: tuple[int, int, int, int, int]) -> tuple[Ref, tuple[Step, ...]] | None:
        """The prompts [prompts, heads, length, size] that were cut into pages here, and the Steps that did it."""
        prompts, heads, count, page, size = sizes
        source, moved = self.back(arg, "layout", "view")
        order = self.body.maker(source)
        if order is not None and kind_of(order) == "order":
            before, more = self.back(order.attr("input_tensor"), "layout", "view")
            whole = (prompts, heads, count * page, size)
            if order.attr("dims") == PAGES_FIRST and self.body.spec(order.attr("input_tensor")).shape == sizes:
                path = [before, *(Ref(s.outputs[0]) for s in reversed(more))]
                fits = next((ref for ref in path if self.body.spec(ref).shape == whole), before)
                return fits, (*moved, order, *more)
        if count == 1 or heads == 1:
            return self.back(arg, "layout")[0], moved
        return None

    def _rewritten_fill(self, put: Put, shape: tuple[int, int, int, int]) -> Program | None:
        new = NewSteps(self.body, put.step)
        table = self.pages(new, put)
        source: Ref = put.new if self.body.spec(put.new).shape == shape else new.reshape("prompts", put.new, shape)
        if new.specs[source.name].layout != "tile":
            source = new.call("ttnn.to_layout", "prompt_tiles", tensor=source, layout=LAYOUT_NAMES["tile"])
        steps = new.fill("ttnn.experimental.paged_fill_cache", put, source, page_table=table)
        return self.replaced(new, {id(put.step): steps}, (put,))


def _row_shapes(prompts: int, count: int, width: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of a table's pages on their way to an index of [1, pages, width], in the order of the prompts."""
    number = prompts * count
    return (prompts, count), (number,), (1, number, 1), (1, number), (number, 1), (1, number, width)


FUSIONS = (Listed("formulas", 4.6, fuse_pages),)

"""A cache in pages becomes ttnn's own calls: `paged_fill_cache` for prompts; for a token of each user
`paged_update_cache` and the decode attention, both with the page table.

The pattern is what `generation.cache`'s paged layers give after lowering: rows scattered into a state made flat, at
places that a table and the positions say, and attention over the pages that the same table looks up. A table's entries
are pages: what it would mean otherwise, eager refuses too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from proveout.compiler.program_passes.fuse_attention import constant_of
from proveout.compiler.program_passes.fuse_decode import Calls, Decoding, repeats_heads, with_attrs
from proveout.compiler.program_passes.match import Listed, Policy
from proveout.compiler.program_passes.prune import prune
from proveout.compiler.program_passes.shard_users import user_memory
from proveout.kernels.table import LAYOUT_NAMES, kind_of
from proveout.ops.attention import SDPA
from proveout.program import FROM_TORCH, Arg, Name, Program, Ref, Step
from proveout.types import TensorSpec

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


@dataclass(frozen=True)
class _Put:
    """Rows of a state that a scatter writes."""

    weight: str
    copy: Step
    """The setup's Step that puts the state on the device."""
    value: str
    """What holds the state afterwards."""
    scatter: Step
    new: Ref
    table: str
    """The Program's input that names pages."""
    gone: tuple[Step, ...]
    """Steps whose results nobody needs any more."""
    position: Ref | None = None


class _Pages(Decoding):
    # ---- one token of each user --------------------------------------------------------------------------------

    def fused(self, attention: Step) -> Program | None:
        """The Program with this attention and its two updates as calls on pages; None where it is not one."""
        query = self.body.spec(attention.attr("input_tensor_q")).shape
        if len(query) != 4 or query[2] != 1 or attention.attr("is_causal"):
            return None
        if self.policy.chip is not None and user_memory(self.row(attention, query), self.policy.chip) is None:
            return None
        keys, values = (self._looked_up(attention.attr(f"input_tensor_{x}"), query, attention) for x in "kv")
        if keys is None or values is None or keys.scatter is values.scatter:
            return None
        if keys.position is None or keys.position != values.position or keys.table != values.table:
            return None
        length = self.body.specs[keys.table].shape[1] * self.body.specs[keys.copy.outputs[0]].shape[2]
        seen = self.seen(attention.attr("attn_mask"), query[0], length)
        if seen is None or seen[0] != keys.position:
            return None
        return self._rewritten_pages(attention, keys, values, keys.position, seen[1])

    def _looked_up(self, arg: Arg, query: tuple[int, ...], attention: Step) -> _Put | None:
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
        if self.read_elsewhere(inner, value, attention):
            return None
        before = (*converted, *self.back(scatter.attr("index"), *SAME_PAGES, "broadcast")[1], *tables)
        alone = tuple(s for s in before if len(self.body.readers(s.outputs[0])) == 1)
        return _Put(self.state[value], copy, value, scatter, new, table, (*inner, *alone), position)

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

    def _rewritten_pages(
        self, attention: Step, keys: _Put, values: _Put, position: Ref, window: int | None
    ) -> Program | None:
        new = Calls(self.body, attention)
        users, heads, _, size = self.body.spec(attention.attr("input_tensor_q")).shape
        at, table = new.positions(position), self._pages(new, keys.table)
        instead: dict[int, list[Step]] = {}
        caches = []
        for put, hint in ((keys, "key"), (values, "value")):
            spec = self.body.specs[put.copy.outputs[0]]
            new.specs[put.copy.outputs[0]] = replace(spec, layout="tile")
            row = new.reshape(hint, put.new, (1, users, spec.shape[1], size))
            attrs: tuple[tuple[str, Arg], ...] = (
                ("cache_tensor", Ref(put.copy.outputs[0])),
                ("input_tensor", row),
                ("update_idxs_tensor", at),
                ("page_table", table),
            )
            caches.append(
                new.add(Step("ttnn.experimental.paged_update_cache", attrs, (put.value,), put.scatter.origin))
            )
            instead[id(put.scatter)] = new.taken()
        query = new.reshape("query", attention.attr("input_tensor_q"), (1, users, heads, size))
        more: dict[str, Arg] = {} if window is None else {"sliding_window_size": window}
        out = new.call(
            "ttnn.transformer.paged_scaled_dot_product_attention_decode",
            "decode",
            input_tensor_q=query,
            input_tensor_k=caches[0],
            input_tensor_v=caches[1],
            page_table_tensor=table,
            cur_pos_tensor=at,
            scale=attention.attr("scale"),
            **more,
        )
        attrs = (("input_tensor", out), ("shape", (users, heads, 1, size)))
        new.add(Step("ttnn.reshape", attrs, attention.outputs, attention.origin))
        instead[id(attention)] = new.taken()
        if not new.same(attention.outputs[0]):
            return None
        return self._with(new, instead, (keys, values), [attention])

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
        if self.read_elsewhere(inside, value, None):
            return None
        around = (*moved, *steps, *self.back(scatter.attr("input"), "layout", "view")[1])
        alone = tuple(s for s in around if len(self.body.readers(s.outputs[0])) == 1)
        put = _Put(self.state[value], copy, value, scatter, source, table, (*inside, *alone))
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

    def _rewritten_fill(self, put: _Put, shape: tuple[int, int, int, int]) -> Program | None:
        new = Calls(self.body, put.scatter)
        prompts, heads, length, size = shape
        table = self._pages(new, put.table)
        new.specs[put.copy.outputs[0]] = replace(self.body.specs[put.copy.outputs[0]], layout="tile")
        source: Ref = put.new if self.body.spec(put.new).shape == shape else new.reshape("prompts", put.new, shape)
        if new.specs[source.name].layout != "tile":
            source = new.call("ttnn.to_layout", "prompt_tiles", tensor=source, layout=LAYOUT_NAMES["tile"])
        cache = Ref(put.copy.outputs[0])
        for prompt in range(prompts):
            one = source
            if prompts > 1:
                begin, end = (prompt, 0, 0, 0), (prompt + 1, heads, length, size)
                one = new.call(
                    "ttnn.slice", "prompt", input_tensor=source, slice_start=begin, slice_end=end, slice_step=(1,) * 4
                )
            name = put.value if prompt == prompts - 1 else self.body.fresh(f"{put.value}.filled")
            attrs: tuple[tuple[str, Arg], ...] = (
                ("cache_tensor", cache),
                ("input_tensor", one),
                ("page_table", table),
                ("batch_idx", prompt),
            )
            cache = new.add(Step("ttnn.experimental.paged_fill_cache", attrs, (name,), put.scatter.origin))
        return self._with(new, {id(put.scatter): new.taken()}, (put,), [])

    # ---- both --------------------------------------------------------------------------------------------------

    def read_elsewhere(self, inner: tuple[Step, ...], value: str, attention: Step | None) -> bool:
        """Whether somebody else reads a value that would vanish."""
        allowed = {id(s) for s in (*inner, *((attention,) if attention else ()))}
        names = [n for s in inner for n in s.outputs if n != value]
        return any(id(r) not in allowed for n in names for r in self.body.readers(n))

    def _pages(self, new: Calls, table: str) -> Ref:
        """The page table as the kernels take it: int32, in rows. All layers share it."""
        name = f"{table}.pages"
        if name in new.specs:
            return Ref(name)
        maker = next(s for s in self.program.body if s.kernel == FROM_TORCH and s.uses == (table,))
        form = with_attrs(maker, layout=LAYOUT_NAMES["row_major"], dtype=Name("ttnn.int32"))
        new.add(replace(form, outputs=(name,)))
        new.after[id(maker)] = [*new.after.get(id(maker), []), *new.taken()]
        return Ref(name)

    def _with(
        self, new: Calls, instead: dict[int, list[Step]], puts: tuple[_Put, ...], replaced: list[Step]
    ) -> Program | None:
        """The Program with these Steps in place of those; None where ttnn refuses one, or where it would not pay."""
        steps = [s for group in instead.values() for s in group]
        gone = [s for put in puts for s in put.gone]
        if not new.accepted(steps) or not self.pays([*gone, *replaced], steps, new.specs):
            return None
        for put in puts:
            instead |= {id(s): [] for s in put.gone if put.value in s.outputs and id(s) not in instead}
        copies = {id(p.copy): with_attrs(p.copy, layout=LAYOUT_NAMES["tile"]) for p in puts}
        body = [s for old in self.program.body for s in (*instead.get(id(old), [old]), *new.after.get(id(old), ()))]
        specs: dict[str, TensorSpec] = dict(new.specs)
        setup = tuple(copies.get(id(step), step) for step in self.program.setup)
        return prune(replace(self.program, setup=setup, body=tuple(body), specs=specs))


def _row_shapes(prompts: int, count: int, width: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of a table's pages on their way to an index of [1, pages, width], in the order of the prompts."""
    number = prompts * count
    return (prompts, count), (number,), (1, number, 1), (1, number), (number, 1), (1, number, width)


FUSIONS = (Listed("formulas", 4.6, fuse_pages),)

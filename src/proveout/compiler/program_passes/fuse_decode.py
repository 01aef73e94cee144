"""One token of each user against a cache becomes ttnn's own calls: `paged_update_cache` and the decode attention.

The pattern is what a static cache gives after lowering: keys and values scattered into a state at each user's position,
and attention of one query per user over all of it, masked to what is not later than that position (and not before a
window). Whatever differs, a mask with padding or biases say, keeps the lowering that it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from proveout.compiler.program_passes.fuse_attention import MASKED, constant_of
from proveout.compiler.program_passes.match import Body, Listed, Policy
from proveout.compiler.program_passes.prune import prune
from proveout.compiler.program_passes.shard_users import user_memory
from proveout.kernels.cost import program_ns, step_time
from proveout.kernels.table import LAYOUT_NAMES, infer, kernels, kind_of, refusal, specs_of
from proveout.ops.attention import SDPA
from proveout.program import FROM_TORCH, Arg, Program, Ref, Step
from proveout.types import TensorSpec

SAME_NUMBERS = ("layout", "view", "broadcast", "cast")


def fuse_decode(program: Program, policy: Policy) -> Program:
    if not program.state or not any(step.kernel == SDPA for step in program.body):
        return program
    program = prune(program)  # who reads a cache counts, and what attention was fused from does no longer
    for attention in [step for step in program.body if step.kernel == SDPA]:
        program = DecodeFusion(program, policy).fused(attention) or program
    return program


@dataclass(frozen=True)
class Put:
    """Rows of a state that one Step writes."""

    weight: str
    copy: Step
    """The setup's Step that puts the state on the device."""
    value: str
    """What holds the state afterwards."""
    step: Step
    new: Ref
    gone: tuple[Step, ...]
    """Steps whose results nobody needs any more."""
    position: Ref | None = None
    """Whatever holds a position for each user."""
    table: str = ""
    """The Program's input that names pages, where the state lies in pages."""


class DecodeFusion:
    """What a Program does with a cache, asked of one attention after the other."""

    def __init__(self, program: Program, policy: Policy) -> None:
        self.program, self.policy, self.body = program, policy, Body(program)
        self.copies = {s.outputs[0]: s for s in program.setup if s.kernel == FROM_TORCH and len(s.uses) == 1}
        self.state = {value: weight for weight, value in program.state}

    def fused(self, attention: Step) -> Program | None:
        """The Program with this attention and its two updates as decode calls; None where it is not one."""
        query = self.body.spec(attention.attr("input_tensor_q")).shape
        if len(query) != 4 or query[2] != 1 or attention.attr("is_causal"):
            return None
        if self.policy.chip is not None and user_memory(self.row(attention, query), self.policy.chip) is None:
            return None
        keys, values = (self.put(attention.attr(f"input_tensor_{x}"), query, attention) for x in "kv")
        if keys is None or values is None or keys.step is values.step:
            return None
        if keys.position is None or keys.position != values.position or keys.table != values.table:
            return None
        seen = self.seen(attention.attr("attn_mask"), query[0], self.length(keys))
        if seen is None or seen[0] != keys.position:
            return None
        return self._rewritten(attention, keys, values, keys.position, seen[1])

    def row(self, attention: Step, query: tuple[int, ...]) -> TensorSpec:
        """One user's queries as a row of the batch."""
        spec = self.body.spec(attention.attr("input_tensor_q"))
        return replace(spec, shape=(1, query[0], query[1], query[3]))

    # ---- the pattern -------------------------------------------------------------------------------------------

    def back(self, arg: Arg, *kinds: str) -> tuple[Ref, tuple[Step, ...]]:
        """Backwards over Steps of these kinds: where they start, and the Steps from last to first."""
        steps = []
        while (step := self.body.maker(arg)) is not None and kind_of(step) in kinds and len(step.uses) == 1:
            steps.append(step)
            arg = Ref(step.uses[0])
        assert isinstance(arg, Ref)
        return arg, tuple(steps)

    def put(self, arg: Arg, query: tuple[int, ...], attention: Step) -> Put | None:
        """What is put into the cache that attention looks at: a scatter of one row per user and head into a state."""
        start, chain = self.back(arg, "layout", "view", "broadcast")
        step = self.body.maker(start, "ttnn.scatter")
        if step is None or step.attr("dim") != 2 or step.outputs[0] not in self.state or step.attr("reduce"):
            return None
        source, conversions = self.back(step.attr("input"), "layout")
        copy = self.copies.get(source.name)
        weight = self.state[step.outputs[0]]
        shape = self.body.spec(start).shape
        new, conversions_of_new = self.back(step.attr("src"), "layout")
        if copy is None or copy.uses != (weight,) or len(shape) != 4 or shape[0] != query[0]:
            return None
        if self.body.spec(new).shape != (*shape[:2], 1, shape[3]) or not self.alone((step,)):
            return None
        shapes = [self.body.specs[s.outputs[0]].shape for s in reversed(chain) if kind_of(s) != "layout"]
        position = self._position(step.attr("index"), shape)
        if position is None or not repeats_heads(shape, shapes, query[1]):
            return None
        if self.read_elsewhere((copy, *conversions), (step,)) or self.read_elsewhere(chain, (attention,)):
            return None
        before = [*conversions, *conversions_of_new, *self.back(step.attr("index"), *SAME_NUMBERS)[1]]
        return Put(weight, copy, step.outputs[0], step, new, (step, *chain, *self.alone(before)), position)

    def length(self, put: Put) -> int:
        """How many positions of a user the state has."""
        return self.body.specs[put.copy.outputs[0]].shape[2]

    def alone(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        """Those whose result one Step reads."""
        return tuple(s for s in steps if len(self.body.readers(s.outputs[0])) == 1)

    def read_elsewhere(self, inner: tuple[Step, ...], readers: tuple[Step, ...] = (), value: str = "") -> bool:
        """Whether the caller gets what would vanish, or a Step besides these reads it: the results of `inner` but
        `value`, the state afterwards."""
        names = {n for s in inner for n in s.outputs if n != value}
        return self.body.read_elsewhere(names, (*inner, *readers))

    def _position(self, index: Arg, shape: tuple[int, ...]) -> Ref | None:
        """The value with one position per user that an index [users, heads, 1, size] repeats."""
        source, steps = self.back(index, *SAME_NUMBERS)
        widths = [self.body.specs[s.outputs[0]].shape for s in steps] + [self.body.spec(source).shape]
        narrow = next((w for w in widths if w != (*shape[:2], 1, shape[3])), None)
        users = shape[0]
        if self.body.spec(source).numel != users or narrow is None or narrow[0] != users or narrow != (users, 1, 1, 1):
            return None
        return source

    def seen(self, mask: Arg, users: int, length: int) -> tuple[Ref, int | None] | None:
        """The positions up to which a mask lets each user see, and from how far back (None: from the start)."""
        if not isinstance(mask, Ref):
            return None
        start, _ = self.back(mask, "layout", "view", "broadcast", "memory")
        chosen = self.body.maker(start, "ttnn.where")
        if chosen is None or not (self._is(chosen.attr("true_value"), 0) and self._hides(chosen.attr("false_value"))):
            return None
        test, _ = self.back(chosen.attr("predicate"), "layout", "view", "cast")
        both = self.body.maker(test, "ttnn.logical_and", "ttnn.bitwise_and")
        if both is None:
            position = self._compared(test, ("ttnn.le", "ttnn.ge"), users, length)
            return None if position is None else (position, None)
        for one, other in (
            (both.attr("input_tensor_a"), both.attr("input_tensor_b")),
            (both.attr("input_tensor_b"), both.attr("input_tensor_a")),
        ):
            position = self._compared(one, ("ttnn.le", "ttnn.ge"), users, length)
            window = self._window(other, position, users, length) if position is not None else None
            if position is not None and window is not None:
                return position, window
        return None

    def _compared(self, arg: Arg, names: tuple[str, str], users: int, length: int) -> Ref | None:
        """The positions in `arange <= positions`, or in `positions >= arange`."""
        sides = self._sides(arg, names)
        if sides is None or not self._is_arange(sides[0], length):
            return None
        source, _ = self.back(sides[1], *SAME_NUMBERS)
        return source if self.body.spec(source).numel == users else None

    def _sides(self, arg: Arg, names: tuple[str, str]) -> tuple[Arg, Arg] | None:
        """The two operands of a comparison, the smaller first; `names` are it and its mirror image."""
        step = self.body.maker(self.back(arg, "layout", "view", "cast")[0], *names)
        if step is None:
            return None
        a, b = step.attr("input_tensor_a"), step.attr("input_tensor_b")
        return (a, b) if step.kernel == names[0] else (b, a)

    def _window(self, arg: Arg, position: Ref, users: int, length: int) -> int | None:
        """How far back `arange > positions - window` lets a user see."""
        sides = self._sides(arg, ("ttnn.lt", "ttnn.gt"))
        if sides is None or not self._is_arange(sides[1], length):
            return None
        before = self.body.maker(self.back(sides[0], "layout", "view", "broadcast")[0], "ttnn.subtract", "ttnn.add")
        if before is None:
            return None
        source, _ = self.back(before.attr("input_tensor_a"), *SAME_NUMBERS)
        number = before.attr("input_tensor_b")
        if source != position or not isinstance(number, (int, float)) or isinstance(number, bool):
            return None
        window = int(number if before.kernel == "ttnn.subtract" else -number)
        return window if window > 0 and window == abs(number) else None

    def _is_arange(self, arg: Arg, length: int) -> bool:
        data = constant_of(self.body, arg)
        return data is not None and data.numel() == length and bool((data.reshape(-1) == torch.arange(length)).all())

    def _is(self, arg: Arg, number: float) -> bool:
        if isinstance(arg, (int, float)):
            return arg == number
        data = constant_of(self.body, arg)
        return data is not None and data.numel() == 1 and float(data) == number

    def _hides(self, arg: Arg) -> bool:
        if isinstance(arg, (int, float)):
            return arg <= MASKED
        data = constant_of(self.body, arg)
        return data is not None and data.numel() == 1 and float(data) <= MASKED

    # ---- the calls ---------------------------------------------------------------------------------------------

    def _rewritten(self, attention: Step, keys: Put, values: Put, position: Ref, window: int | None) -> Program | None:
        new = NewSteps(self.body, attention)
        users, heads, _, size = self.body.spec(attention.attr("input_tensor_q")).shape
        at, table = new.positions(position), self.pages(new, keys)
        instead: dict[int, list[Step]] = {}
        caches = []
        for put, hint in ((keys, "key"), (values, "value")):
            row = new.reshape(hint, put.new, (1, users, self.body.specs[put.copy.outputs[0]].shape[1], size))
            attrs: dict[str, Arg] = {"cache_tensor": new.cache(put), "input_tensor": row, "update_idxs_tensor": at}
            if table is not None:
                attrs["page_table"] = table
            update = Step("ttnn.experimental.paged_update_cache", tuple(attrs.items()), (put.value,), put.step.origin)
            caches.append(new.add(update))
            instead[id(put.step)] = new.taken()
        query = new.reshape("query", attention.attr("input_tensor_q"), (1, users, heads, size))
        looked_up: dict[str, Arg] = {} if table is None else {"page_table_tensor": table}
        more: dict[str, Arg] = {} if window is None else {"sliding_window_size": window}
        out = new.call(
            f"ttnn.transformer.{'' if table is None else 'paged_'}scaled_dot_product_attention_decode",
            "decode",
            input_tensor_q=query,
            input_tensor_k=caches[0],
            input_tensor_v=caches[1],
            **looked_up,
            cur_pos_tensor=at,
            scale=attention.attr("scale"),
            **more,
        )
        shape = (("input_tensor", out), ("shape", (users, heads, 1, size)))
        new.add(Step("ttnn.reshape", shape, attention.outputs, attention.origin))
        instead[id(attention)] = new.taken()
        return self.replaced(new, instead, (keys, values), attention)

    def pages(self, new: NewSteps, put: Put) -> Ref | None:
        """The page table as the kernels take it; None where the state is not in pages."""
        return None

    def replaced(
        self, new: NewSteps, instead: dict[int, list[Step]], puts: tuple[Put, ...], attention: Step | None = None
    ) -> Program | None:
        """The Program with these Steps in place of those; None where ttnn refuses one, or where it would not pay."""
        steps = [s for group in instead.values() for s in group]
        gone = [*(s for put in puts for s in put.gone), *((attention,) if attention else ())]
        if attention and not new.same(attention.outputs[0]):
            return None
        if not new.accepted(steps) or not self.pays(gone, steps, new.specs):
            return None
        instead |= {id(s): [] for put in puts for s in put.gone if put.value in s.outputs and id(s) not in instead}
        copies = {id(put.copy): put.copy.with_attrs(layout=LAYOUT_NAMES["tile"]) for put in puts}
        body = [s for old in self.program.body for s in (*instead.get(id(old), [old]), *new.after.get(id(old), ()))]
        setup = tuple(copies.get(id(step), step) for step in self.program.setup)
        return prune(replace(self.program, setup=setup, body=tuple(body), specs=dict(new.specs)))

    def pays(self, before: list[Step], after: list[Step], specs: dict[str, TensorSpec]) -> bool:
        chip, settings = self.policy.chip, self.policy.settings
        if chip is None:
            return True
        old = program_ns([step_time(s, self.body.specs, chip, settings) for s in before], settings)
        return program_ns([step_time(s, specs, chip, settings) for s in after], settings) <= old


class NewSteps:
    """New Steps in order, with the specs of what they make."""

    def __init__(self, body: Body, last: Step) -> None:
        self.body, self.last = body, last
        self.specs: dict[str, TensorSpec] = dict(body.specs)
        self.after: dict[int, list[Step]] = {}
        """Steps that stand right after one of the Program's."""
        self._steps: list[Step] = []

    def add(self, step: Step) -> Ref:
        self.specs.update(zip(step.outputs, infer(step, self.specs)))
        self._steps.append(step)
        return Ref(step.outputs[0])

    def call(self, kernel: str, hint: str, **attrs: Arg) -> Ref:
        name = self.body.fresh(f"{self.last.outputs[0]}.{hint}")
        return self.add(Step(kernel, tuple(attrs.items()), (name,), self.last.origin))

    def cache(self, put: Put) -> Ref:
        """The state on the device, in tiles, as the cache kernels take it."""
        name = put.copy.outputs[0]
        self.specs[name] = replace(self.body.specs[name], layout="tile")
        return Ref(name)

    def fill(self, kernel: str, put: Put, prompts: Ref, **more: Arg) -> list[Step]:
        """Fills of a cache with the prompts [users, heads, length, size], one call a user."""
        users, heads, length, size = self.specs[prompts.name].shape
        cache = self.cache(put)
        for user in range(users):
            one = prompts
            if users > 1:
                begin, end = (user, 0, 0, 0), (user + 1, heads, length, size)
                one = self.call("ttnn.slice", f"prompt{user}", input_tensor=prompts, slice_start=begin, slice_end=end)
            name = put.value if user == users - 1 else self.body.fresh(f"{put.value}.filled{user}")
            attrs: dict[str, Arg] = {"cache_tensor": cache, "input_tensor": one, **more, "batch_idx": user}
            cache = self.add(Step(kernel, tuple(attrs.items()), (name,), put.step.origin))
        return self.taken()

    def reshape(self, hint: str, source: Arg, shape: tuple[int, ...]) -> Ref:
        assert isinstance(source, Ref)
        if self.specs[source.name].layout != "tile":
            source = self.call("ttnn.to_layout", f"{hint}_tiles", tensor=source, layout=LAYOUT_NAMES["tile"])
        return self.call("ttnn.reshape", hint, input_tensor=source, shape=shape)

    def positions(self, source: Ref) -> Ref:
        """The positions as both kernels take them: [users], in rows. All layers share them."""
        name = f"{source.name}.positions"
        if name in self.specs:
            return Ref(name)
        maker, rows = self.body.maker(source), LAYOUT_NAMES["row_major"]
        if maker is not None and maker.kernel == FROM_TORCH and len(self.specs[source.name].shape) == 1:
            self.add(replace(maker.with_attrs(layout=rows), outputs=(name,)))
        else:
            flat = (self.specs[source.name].numel,)
            line = self.call("ttnn.reshape", "positions", input_tensor=source, shape=flat)
            self.add(Step("ttnn.to_layout", (("tensor", line), ("layout", rows)), (name,), self.last.origin))
        assert maker is not None
        self.after[id(maker)] = self.taken()
        return Ref(name)

    def taken(self) -> list[Step]:
        steps, self._steps = self._steps, []
        return steps

    def same(self, name: str) -> bool:
        """Whether a value is still the same kind of tensor, wherever it lies."""
        return replace(self.specs[name], memory=self.body.specs[name].memory) == self.body.specs[name]

    def accepted(self, steps: list[Step]) -> bool:
        return all(refusal(kernels()[s.kernel], specs_of(s, self.specs)) is None for s in steps)


def repeats_heads(shape: tuple[int, ...], shapes: list[tuple[int, ...]], heads: int) -> bool:
    """Whether these are the shapes on the way from [users, shared, length, size] to one key head per query head, each
    shared one repeated for its neighbours."""
    users, shared, length, size = shape
    if heads % shared or not shapes:
        return not heads % shared  # attention itself repeats them
    group, whole = heads // shared, (users, heads, length, size)
    apart, wide = (users, shared, 1, length, size), (users, shared, group, length, size)
    return shapes in ([apart, wide, whole], [apart, whole], [wide, whole]) or (shared == 1 and shapes == [whole])


FUSIONS = (Listed("formulas", 4.5, fuse_decode),)

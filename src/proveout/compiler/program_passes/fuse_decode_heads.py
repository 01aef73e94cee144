"""One token's queries, keys and values stay on its user's core from their product to the cache and the attention.

`fuse_decode` and `fuse_pages` leave heads that are cut by reshapes and rotated in tiles of one row each. Here
`nlp_create_qkv_heads_decode` cuts all three at once into shards, one user a core, and the rotation and what writes the
cache take them as they lie. Norms of heads want them out of their shards and back, and so do rotations of a size that
ttnn's kernel does not take (Phi-3's 96). What a core has is a box of whole rows of cores, in which ttnn counts users as
we do; on several chips heads are cut over those instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from proveout.compiler.program_passes.fuse_products import is_plain_product, joined_product, siblings
from proveout.compiler.program_passes.fuse_rotary import Rotation, rotation_in
from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, fuse
from proveout.compiler.program_passes.shard_users import user_memory
from proveout.compiler.program_passes.views import Chain, Emit, View, chain_to
from proveout.kernels.attention import rotates
from proveout.kernels.memory_config import memory_arg
from proveout.kernels.table import MEMORY_NAMES, kind_of
from proveout.program import Arg, Program, Ref, Step, with_refs
from proveout.types import L1, TILE, DeviceSpec

MOST_HEADS = TILE
"""So many queries lie in shards of the same shape as keys and values do."""
ATTENTION = ("scaled_dot_product_attention_decode", "paged_scaled_dot_product_attention_decode")


def fuse_decode_heads(program: Program, policy: Policy) -> Program:
    chip = policy.chip
    if chip is None or not policy.one_chip:
        return program
    return fuse(program, lambda body, step: _find(body, step, chip), policy)


@dataclass(frozen=True)
class Part:
    """Queries, keys or values: columns of a product, and what is done to each head of them."""

    source: str
    start: int
    heads: int
    norm: Step | None
    rotation: Rotation | None
    steps: tuple[Step, ...]
    """From the product to who reads it."""


def _find(body: Body, attention: Step, chip: DeviceSpec) -> Fusion | None:
    if attention.kernel.rpartition(".")[2] not in ATTENTION:
        return None
    query = attention.attr("input_tensor_q")
    keys, values = (
        body.maker(attention.attr(f"input_tensor_{x}"), "ttnn.experimental.paged_update_cache") for x in "kv"
    )
    if keys is None or values is None or not isinstance(query, Ref) or body.maker(query) is None:
        return None
    _, users, heads, size = body.spec(query).shape
    memory = user_memory(body.spec(query), chip)
    in_rows = users <= chip.grid[0] or users % chip.grid[0] == 0
    there = body.spec(query).memory.is_sharded
    if memory is None or there or not in_rows or heads > MOST_HEADS or body.spec(query).dtype != "bfloat16":
        return None
    parts = [_part(body, arg) for arg in (query, keys.attr("input_tensor"), values.attr("input_tensor"))]
    found = [part for part in parts if part is not None]
    if len(found) != 3 or found[1].heads != found[2].heads or body.spec(keys.attr("input_tensor")).shape[-1] != size:
        return None
    rows = _rows(body, found, users, size)
    if rows is None:
        return None
    source, products, setup, new = rows
    cut = tuple(body.fresh(f"{attention.outputs[0]}.{name}_heads") for name in ("query", "key", "value"))
    held = memory_arg(memory)
    attrs: tuple[tuple[str, Arg], ...] = (
        (
            "input_tensor",
            new.call(
                "ttnn.reshape", f"{source}.users", input_tensor=Ref(source), shape=_wide(body, users, found, size)
            ),
        ),
        ("num_heads", heads),
        ("num_kv_heads", found[1].heads),
        ("memory_config", held),
    )
    new.steps.append(Step("ttnn.experimental.nlp_create_qkv_heads_decode", attrs, cut, attention.origin))
    given = [_finished(body, new, part, Ref(name), held, users, size) for part, name in zip(found, cut)]
    queries, *others = given
    new.steps += [step.with_attrs(input_tensor=heads) for step, heads in zip((keys, values), others)]
    new.steps.append(attention.with_attrs(input_tensor_q=queries))
    moves = dict.fromkeys(s for part in found for s in part.steps)
    removed = (*products, *moves, keys, values, attention)
    here = min(body.position(s.outputs[0]) for s in (keys, values, attention))
    inside = {n for s in new.steps for n in s.outputs} | {n for s in setup for n in s.outputs}
    outside = {n for s in new.steps for n in s.uses} - inside
    if any(body.maker(Ref(n)) is not None and body.position(n) >= here for n in outside):
        return None
    return Fusion(removed, tuple(new.steps), setup, rounds_alike=True)


def _part(body: Body, arg: Arg) -> Part | None:
    """What stands between a product and [1, users, heads, size]."""
    if not isinstance(arg, Ref):
        return None
    _, users, heads, size = body.specs[arg.name].shape
    chain = chain_to(body, arg.name)
    steps = [*chain.steps]
    rotation = _rotated(body, chain, (users, heads, 1, size))
    if rotation is not None:
        chain = chain_to(body, rotation.x.name)
        steps += [*rotation.steps, *chain.steps]
    norm = body.maker(Ref(chain.source), kind="norm")
    if norm is not None:
        into = norm.attr("input_tensor")
        if not isinstance(into, Ref) or not chain.view.in_order or body.spec(into).shape[-1] != size:
            return None
        chain = chain_to(body, into.name)
        steps += [norm, *chain.steps]
    width = body.specs[chain.source].shape[-1]
    wanted = View((((users, width), (heads, size), (size, 1)),)).joined
    if (
        chain.view.joined != wanted
        or chain.view.offset + heads * size > width
        or kind_of_maker(body, chain) != "product"
    ):
        return None
    return Part(chain.source, chain.view.offset, heads, norm, rotation, tuple(steps))


def kind_of_maker(body: Body, chain: Chain) -> str | None:
    maker = body.maker(Ref(chain.source))
    return None if maker is None else kind_of(maker)


def _rotated(body: Body, chain: Chain, shape: tuple[int, ...]) -> Rotation | None:
    """The rotation of each head that a chain of moves starts from, by a row of each user's own."""
    maker = body.maker(Ref(chain.source))
    if maker is None or not chain.view.in_order:
        return None
    rotation = rotation_in(body, maker)
    if maker.kernel == "ttnn.experimental.rotary_embedding_hf":
        x, cos, sin = (maker.attr(name) for name in ("input_tensor", "cos_cache", "sin_cache"))
        assert isinstance(x, Ref)
        assert isinstance(cos, Ref)
        assert isinstance(sin, Ref)
        rotation = Rotation(x, cos, sin, (maker,))
    if rotation is None or body.spec(rotation.x).shape != shape:
        return None
    row = (shape[0], 1, 1, shape[3])
    return rotation if body.spec(rotation.cos).shape == body.spec(rotation.sin).shape == row else None


def _rows(
    body: Body, parts: list[Part], users: int, size: int
) -> tuple[str, tuple[Step, ...], tuple[Step, ...], Emit] | None:
    """The value with a row of queries, keys and values for each user; the products that it stands for, what setup does
    for it, and the Steps so far."""
    starts = [0, parts[0].heads * size, (parts[0].heads + parts[1].heads) * size]
    width = starts[2] + parts[2].heads * size
    sources = [part.source for part in parts]
    makers = [body.maker(Ref(source)) for source in sources]
    first = makers[0]
    assert first is not None
    new = Emit(body, first)
    if len(set(sources)) == 1:
        side_by_side = [part.start for part in parts] == starts and body.specs[sources[0]].shape[-1] == width
        return (sources[0], (), (), new) if side_by_side else None
    products = tuple(s for s in makers if s is not None and is_plain_product(body, s))
    whole = all(part.start == 0 and body.specs[part.source].shape[-1] == part.heads * size for part in parts)
    together = siblings(body, first)
    if len(set(sources)) != 3 or len(products) != 3 or not whole or not all(p in together for p in products):
        return None
    joined, setup, name = joined_product(body, products)
    new.steps.append(joined)
    return name, products, setup, new


def _wide(body: Body, users: int, parts: list[Part], size: int) -> tuple[int, ...]:
    return (1, 1, users, sum(part.heads for part in parts) * size)


def _finished(body: Body, new: Emit, part: Part, heads: Ref, held: Arg, users: int, size: int) -> Ref:
    """What is done to each head: on the shards that `heads` lies in where a kernel does that, or outside."""
    in_shards = part.rotation is not None and rotates(size)
    if part.norm is not None or (part.rotation is not None and not in_shards):
        heads = new.call("ttnn.to_memory_config", f"{heads.name}.rows", tensor=heads, memory_config=MEMORY_NAMES[L1])
        if part.norm is not None:
            attrs = {**dict(part.norm.attrs), "input_tensor": heads}
            heads = new.call(part.norm.kernel, f"{part.norm.outputs[0]}.heads", **attrs)
        if part.rotation is not None and not in_shards:
            heads = _rotated_outside(body, new, part.rotation, heads, users, part.heads)
        heads = new.call("ttnn.to_memory_config", f"{heads.name}.users", tensor=heads, memory_config=held)
    if part.rotation is None or not in_shards:
        return heads
    cos, sin = (_table(body, new, table, held, users) for table in (part.rotation.cos, part.rotation.sin))
    return new.call(
        "ttnn.experimental.rotary_embedding_hf",
        f"{heads.name}.rotated",
        input_tensor=heads,
        cos_cache=cos,
        sin_cache=sin,
        is_decode_mode=True,
        memory_config=held,
    )


def _rotated_outside(body: Body, new: Emit, rotation: Rotation, heads: Ref, users: int, count: int) -> Ref:
    """By the Steps that it was written in, on all heads of a user at once."""
    tables = (_row(body, new, table, users) for table in (rotation.cos, rotation.sin))
    names = dict(zip((rotation.x, rotation.cos, rotation.sin), (heads, *tables)))
    for step in rotation.steps:
        attrs = dict(with_refs(step, lambda ref: names[ref]).attrs)
        if step.kernel == "ttnn.slice":
            start, end = attrs["slice_start"], attrs["slice_end"]
            assert isinstance(start, tuple)
            assert isinstance(end, tuple)
            attrs |= {"slice_start": (0, 0, 0, start[-1]), "slice_end": (1, users, count, end[-1])}
        heads = names[Ref(step.outputs[0])] = new.call(step.kernel, f"{step.outputs[0]}.heads", **attrs)
    return heads


def _table(body: Body, new: Emit, table: Ref, held: Arg, users: int) -> Ref:
    """Cosines or sines with each user's on its core; all layers share them."""
    name = f"{table.name}.users"
    if name in body.specs or any(name in s.outputs for s in new.steps):
        return Ref(name)
    return new.call("ttnn.to_memory_config", name, tensor=_row(body, new, table, users), memory_config=held)


def _row(body: Body, new: Emit, table: Ref, users: int) -> Ref:
    """Cosines or sines as one row for each user; all layers share them."""
    shape, name = (1, users, 1, body.spec(table).shape[-1]), f"{table.name}.row"
    if body.spec(table).shape == shape:
        return table
    if name in body.specs or any(name in s.outputs for s in new.steps):
        return Ref(name)
    return new.call("ttnn.reshape", name, input_tensor=table, shape=shape)


FUSIONS = (Listed("products", 2.5, fuse_decode_heads),)

"""Queries, keys and values cut into heads, and heads joined again: ttnn has a call for each, in whole tiles.

Models write them as reshapes, permutes and slices in many ways: three products or one, batch or sequence first, heads
as a dimension of their own or as part of the batch (`nn.MultiheadAttention`), the three side by side in each row or in
each head. What counts is which number goes where, and that `views` can tell.

Heads that are no multiple of a tile are filled up with zeros once, in the weights: ttnn's calls want whole tiles, and
to fill them at every call takes longer than the attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proveout.compiler.program_passes.fuse_products import is_plain_product, joined_product, siblings
from proveout.compiler.program_passes.fuse_rows import back, below, by_row, rows_of, wide
from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, fuse, number
from proveout.compiler.program_passes.views import (
    MOVES,
    Chain,
    Emit,
    Factor,
    View,
    chain_to,
    leaves,
    unread_but_here,
)
from proveout.program import Arg, Program, Ref, Step
from proveout.types import TILE


def fuse_heads(program: Program, policy: Policy) -> Program:
    return fuse(program, _find_split, policy)


def fuse_concatenation(program: Program, policy: Policy) -> Program:
    return fuse(program, _find_concatenation, policy)


@dataclass(frozen=True)
class Heads:
    """Queries, keys or values: how they lie in the rows of a product."""

    chain: Chain
    scaled: tuple[Step, ...]
    """What multiplies them by a number on the way: done after the cut."""
    batch: tuple[Factor, ...]
    length: tuple[Factor, ...]
    """Which rows, counted in rows."""
    count: int
    apart: int
    """From one head to the next, in columns."""
    size: int
    start: int
    is_transposed: bool
    pad: tuple[Step, ...] = ()
    """What fills them up to whole tiles after the cut, and lays them out in tiles."""

    @property
    def filled(self) -> int:
        """Their size in whole tiles."""
        return self.size + -self.size % TILE

    @property
    def rows(self) -> View:
        return View((self.batch, self.length))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the kernel's result."""
        batch, length = self.rows.shape
        return (batch, self.count, *((self.filled, length) if self.is_transposed else (length, self.filled)))

    @property
    def steps(self) -> tuple[Step, ...]:
        return (*self.chain.steps, *self.pad)

    @property
    def out(self) -> str:
        return self.steps[-1].outputs[0]


# ---- one call for queries, keys and values -----------------------------------------------------------------------


def _find_split(body: Body, step: Step) -> Fusion | None:
    if step.kernel not in MOVES or body.maker(Ref(step.uses[0]), *MOVES) is not None:
        return None
    source = step.uses[0]
    if body.readers(source)[0] is not step:
        return None  # one of its moves asks for all
    product = body.maker(Ref(source))
    cut = _cut(body, source)
    if cut is not None and len(cut) == 3:
        cut.sort(key=lambda h: h.start)
        return _from_one(body, source, product, cut)
    if cut is None or len(cut) != 1 or product is None:
        return None
    products = siblings(body, product)
    if len(products) != 3 or products[0] is not product:
        return None
    each = [_cut(body, p.outputs[0]) for p in products]
    if any(c is None or len(c) != 1 for c in each):
        return None
    return _from_three(body, products, [c[0] for c in each if c])


def _from_one(body: Body, source: str, product: Step | None, cut: list[Heads]) -> Fusion | None:
    width = body.specs[source].shape[-1]
    query, key, _ = cut
    wanted = [0, query.count * query.size, (query.count + key.count) * query.size]
    side_by_side = [h.start for h in cut] == wanted and all(h.apart == h.size for h in cut)
    by_head = all(h.apart == 3 * h.size and h.start == i * h.size for i, h in enumerate(cut))
    if sum(h.count * h.size for h in cut) != width or not (side_by_side or by_head):
        return None
    removed = tuple(dict.fromkeys(s for h in cut for s in h.steps))
    if product is None or not is_plain_product(body, product):
        return None if by_head or query.pad else _split(body, Emit(body, removed[-1]), removed, source, cut, (), ())
    if query.pad and not _can_fill(body, product):
        return None
    setup = Emit(body, product)
    attrs = dict(product.attrs)
    if by_head:
        columns = ((3, query.size), (query.count, 3 * query.size), (query.size, 1))
        for name in ("input_tensor_b", "bias"):
            weight = attrs.get(name)
            if isinstance(weight, Ref):
                shape = body.spec(weight).shape
                lead = tuple(((n, width),) for n in shape[:-1])
                attrs[name] = setup.move(weight, shape, View((*lead, columns)), f"{weight.name}.side_by_side")
    if query.pad:
        attrs = _filled_columns(body, setup, attrs, query, [product])
    product = replace(product, attrs=tuple(attrs.items()), outputs=(body.fresh(f"{source}.rows"),))
    old = body.maker(Ref(source))
    assert old is not None
    return _split(body, Emit(body, removed[-1]), (old, *removed), source, cut, tuple(setup.steps), (product,))


def _from_three(body: Body, products: list[Step], cut: list[Heads]) -> Fusion | None:
    if any(h.start or h.apart != h.size or h.count * h.size != width for h, width in zip(cut, _widths(body, products))):
        return None
    pairs = sorted(zip(cut, products), key=lambda pair: -pair[0].count)  # queries first: they may have more heads
    for other in (0, 2):  # and the kernel transposes what stands in the middle
        if pairs[other][0].is_transposed and pairs[other][0].count == pairs[1][0].count:
            pairs[other], pairs[1] = pairs[1], pairs[other]
    cut, products = [h for h, _ in pairs], [p for _, p in pairs]
    if cut[0].pad and not all(_can_fill(body, product) for product in products):
        return None
    joined, setup, whole = joined_product(body, tuple(products))
    if cut[0].pad:
        filling = Emit(body, joined)
        attrs = _filled_columns(body, filling, dict(joined.attrs), cut[0], products)
        joined = replace(joined, attrs=tuple(attrs.items()))
        setup = (*setup, *filling.steps)
    moves = tuple(s for h in cut for s in h.steps)
    removed = (*products, *moves)
    return _split(body, Emit(body, joined), removed, whole, cut, setup, (joined,))


def _can_fill(body: Body, product: Step) -> bool:
    """A block format shares exponents over sixteen numbers, which others would share after filling."""
    return not body.spec(product.attr("input_tensor_b")).dtype.endswith("_b")


def _filled_columns(
    body: Body, setup: Emit, attrs: dict[str, Arg], heads: Heads, products: Sequence[Step]
) -> dict[str, Arg]:
    """Weight and bias of the product that these are joined to, with the columns of each head filled up with zeros."""
    filled = dict(attrs)
    for name in ("input_tensor_b", "bias"):
        weight = attrs.get(name)
        if isinstance(weight, Ref):
            shapes = [body.spec(p.attr(name)).shape for p in products]
            *lead, _ = shapes[0]
            count = sum(shape[-1] for shape in shapes) // heads.size
            filled[name] = _fill(setup, weight, (*lead, count, heads.size), len(lead) + 1)
    return filled


def _fill(setup: Emit, weight: Ref, apart: tuple[int, ...], dim: int) -> Ref:
    """A weight whose dimension of heads, told apart from their numbers in the next, has them in whole tiles."""
    whole = setup.call("ttnn.reshape", f"{weight.name}.apart", input_tensor=weight, shape=apart)
    padding = tuple((0, -size % TILE if d == dim else 0) for d, size in enumerate(apart))
    whole = setup.call("ttnn.pad", f"{weight.name}.filled", input_tensor=whole, padding=padding, value=0.0)
    size = apart[dim] + -apart[dim] % TILE
    shape = (*apart[: dim - 1], apart[dim - 1] * size, *apart[dim + 1 :])
    return setup.call("ttnn.reshape", f"{weight.name}.whole", input_tensor=whole, shape=shape)


def _widths(body: Body, products: list[Step]) -> list[int]:
    return [body.specs[p.outputs[0]].shape[-1] for p in products]


def _split(
    body: Body,
    new: Emit,
    removed: tuple[Step, ...],
    source: str,
    cut: list[Heads],
    setup: tuple[Step, ...],
    products: tuple[Step, ...],
) -> Fusion | None:
    """The rows in the order that the cut wants, of the product's operand or its result; and the call that cuts them."""
    query, key, value = cut
    alike = query.rows == key.rows == value.rows and query.size == key.size == value.size and key.count == value.count
    grouped = key.count != query.count
    if not alike or query.is_transposed or value.is_transposed or (grouped and key.is_transposed):
        return None
    rows = query.rows
    if not rows.is_whole:
        return None
    if products:
        (product,) = products
        operand = product.attr("input_tensor_a")
        assert isinstance(operand, Ref)
        moved = _operand(body, new, operand, rows)
        last = next(s for s in removed if operand.name in s.uses)
        chain = chain_to(body, operand.name)
        readers = tuple(r for r in removed if operand.name in r.uses)
        if moved is not None:
            attrs = tuple((k, moved if k == "input_tensor_a" else v) for k, v in product.attrs)
            new.steps.append(replace(product, attrs=attrs))
            whole = Ref(product.outputs[0])
            reads_above = all(operand.name not in s.uses for s in new.steps)
            if reads_above and not body.read_elsewhere({operand.name}, readers):
                removed = (*unread_but_here(body, chain.steps, last), *removed)
        else:
            new.steps.append(product)
            whole = Ref(product.outputs[0])
            width = sum(h.count * h.filled for h in cut)
            whole = new.call("ttnn.reshape", f"{whole.name}.rows", input_tensor=whole, shape=(*rows.shape, width))
    else:
        shape = body.specs[source].shape
        whole = new.move(Ref(source), shape, wide(rows, shape[-1]), f"{source}.rows")
    attributes: dict[str, Arg] = {"input_tensor": whole, "num_heads": query.count, "transpose_key": key.is_transposed}
    if grouped:
        attributes["num_kv_heads"] = key.count
    names = tuple(_finished(body, h) for h in cut)
    last = max((h.steps[-1] for h in cut), key=lambda s: body.position(s.outputs[0]))
    kernel = "ttnn.transformer.split_query_key_value_and_split_heads"
    new.steps.append(Step(kernel, tuple(attributes.items()), names, last.origin))
    for heads, name in zip(cut, names):
        _finish(body, new, heads, name)
    return Fusion(removed, tuple(new.steps), setup, rounds_alike=True)


def _operand(body: Body, new: Emit, operand: Ref, rows: View) -> Ref | None:
    """A product's operand with its rows in this order; None where its result is better reshaped, which is free."""
    shape = body.spec(operand).shape
    chain = chain_to(body, operand.name)
    whole = wide(rows, shape[-1])
    seen = chain.view.then(whole) if chain.view.is_whole else None
    source = chain.source
    if seen is None:
        seen, source = whole, operand.name
    before = body.specs[source]
    if before.layout == "tile" and not list(seen.moves(before.shape)):
        return Ref(source)
    if rows.in_order and rows.shape[1] % TILE == 0:
        return None
    if before.layout != "tile":
        seen, source = whole, operand.name
    return new.move(Ref(source), body.specs[source].shape, seen, f"{operand.name}.rows")


def _finished(body: Body, heads: Heads) -> str:
    """What the kernel's result is called: as the chain's, where that is the same tensor."""
    alike = not heads.scaled and body.specs[heads.out].shape == heads.shape
    return heads.out if alike else body.fresh(f"{heads.out}.heads")


def _finish(body: Body, new: Emit, heads: Heads, name: str) -> None:
    """The numbers that were multiplied on the way, and the batch and the heads as one dimension where they were."""
    if name == heads.out:
        return
    value = Ref(name)
    shape = body.specs[heads.out].shape
    if shape != heads.shape:
        value = new.call("ttnn.reshape", f"{name}.flat", input_tensor=value, shape=shape)
    for step in heads.scaled:
        attrs = {k: value if isinstance(v, Ref) else v for k, v in step.attrs}
        value = new.call(step.kernel, f"{name}.scaled", **attrs)
    new.steps[-1] = replace(new.steps[-1], outputs=(heads.out,))


def _cut(body: Body, source: str) -> list[Heads] | None:
    """What a value is cut into, if all of it are heads."""
    chains = leaves(body, source, passes=_is_scaling)
    heads = [_heads(body, chain) for chain in chains or ()]
    if not heads or any(h is None for h in heads):
        return None
    return [h for h in heads if h is not None]


def _is_scaling(step: Step) -> bool:
    return step.kernel in ("ttnn.multiply", "ttnn.div") and number(step) is not None and len(step.attrs) == 2


def _heads(body: Body, chain: Chain) -> Heads | None:
    """[batch, heads, length, size], with the last two exchanged, or the first two as one."""
    shape = body.specs[chain.source].shape
    if len(chain.view.dims) not in (3, 4) or not chain.steps or not shape:
        return None
    width = shape[-1]
    *first, length, size = chain.view.dims
    flat = [factor for factors in first for factor in factors]  # a batch of heads may be told as a larger batch
    batch, heads = [f for f in flat if f[1] >= width], [f for f in flat if f[1] < width]
    if flat != batch + heads:
        return None
    transposed = len(length) == 1 and length[0][1] == 1 and chain.view.shape[-2] > 1
    if transposed:
        length, size = size, length
    if len(size) != 1 or size[0][1] != 1 or len(heads) > 1 or any(f[1] % width for f in (*batch, *length)):
        return None
    (depth, _), (count, apart) = size[0], heads[0] if heads else (1, size[0][0])
    pad = _pad_of(body, chain, depth) if depth % TILE and not transposed else ()
    if (depth % TILE and not pad) or apart % depth or chain.view.offset >= width or (heads and apart >= width):
        return None
    rows = [tuple((n, stride // width) for n, stride in factors) for factors in (batch, length)]
    scaled = tuple(s for s in chain.steps if s.kernel not in MOVES)
    return Heads(chain, scaled, rows[0], rows[1], count, apart, depth, chain.view.offset, transposed, pad)


def _pad_of(body: Body, chain: Chain, size: int) -> tuple[Step, ...]:
    """What fills heads up to whole tiles with zeros, where it alone reads them."""
    pad = _only_reader(body, chain.steps[-1].outputs[0], "ttnn.pad")
    padding = pad.attr("padding") if pad is not None else None
    if pad is None or not isinstance(padding, tuple) or pad.attr("value") != 0.0:
        return ()
    *others, last = padding
    if last != (0, -size % TILE) or any(pair != (0, 0) for pair in others):
        return ()
    laid = _only_reader(body, pad.outputs[0], "ttnn.to_layout")
    return (pad,) if laid is None else (pad, laid)


def _only_reader(body: Body, name: str, kernel: str) -> Step | None:
    """The Step that alone reads a value, if it calls this kernel."""
    readers = tuple(body.readers(name))
    if len(readers) != 1 or readers[0].kernel != kernel or body.read_elsewhere({name}, readers):
        return None
    return readers[0]


# ---- and one to join them ----------------------------------------------------------------------------------------


def _find_concatenation(body: Body, step: Step) -> Fusion | None:
    if step.kernel not in MOVES or body.maker(Ref(step.uses[0]), *MOVES) is not None:
        return None
    source = step.uses[0]
    shape = body.specs[source].shape
    chains = leaves(body, source)
    if len(shape) not in (3, 4) or chains is None or len(chains) != 1 or not chains[0].steps:
        return None
    (chain,) = chains
    length, size = shape[-2:]
    if size % TILE or len(chain.view.dims) < 2:
        return None
    joined = chain.view.dims[-1]
    if len(joined) != 2 or joined[1][1] != 1 or joined[0][1] != length * size:
        return None
    heads, depth = joined[0][0], joined[1][0]
    whole_view = View((*chain.view.dims[:-1], (joined[0], (size, 1))), chain.view.offset)
    if depth + -depth % TILE != size:
        return None  # heads cut from longer ones, as where values are shorter than queries
    project = _projection(body, chain) if depth != size else None
    if not (chain.view if project is None else whole_view).is_whole:
        return None
    across = length * size
    others = [f for d in chain.view.dims[:-1] for f in d]
    if any(n * stride > across and stride < heads * across for n, stride in others):
        return None  # a dimension that goes along the sequence and beyond it
    new = Emit(body, chain.steps[-1])
    batch = body.specs[source].numel // (heads * across)
    whole = Ref(source)
    if shape != (batch, heads, length, size):
        apart = (batch, heads, length, size)
        whole = new.call("ttnn.reshape", f"{source}.apart", input_tensor=whole, shape=apart)
    rows = new.call("ttnn.transformer.concatenate_heads", f"{source}.heads", input_tensor=whole)

    def along(factor: Factor) -> Factor:
        """A factor of the batch stays; a step along the sequence is now a row of all heads."""
        return factor if factor[1] >= heads * across else (factor[0], factor[1] * heads)

    dims = tuple(tuple(along(f) for f in factors) for factors in chain.view.dims[:-1])
    view, spec = View((*dims, ((heads * size, 1),))), replace(body.specs[source], shape=(batch, length, heads * size))
    after = below(body, chain.steps[-1].outputs[0])
    setup = Emit(body, chain.steps[-1])
    if project is not None:
        weight = project.attr("input_tensor_b")
        assert isinstance(weight, Ref)
        filled = _fill(setup, weight, (heads, depth, body.spec(weight).shape[1]), 1)
        filled_product = replace(project, attrs=tuple((k, filled if v == weight else v) for k, v in project.attrs))
    order = back(body, rows_of(view, spec.shape), after[1]) if after is not None else None
    if after is None or order is None or len(list(order.moves(spec.shape[:-1]))) > 1:
        out = body.specs[chain.steps[-1].outputs[0]]
        moved = new.move(rows, spec.shape, view, f"{source}.rows")
        if project is None:
            new.convert(moved, spec, out)
            return Fusion(chain.steps, new.named(chain.steps[-1].outputs), rounds_alike=True)
        attrs = tuple((k, moved if k == "input_tensor_a" else v) for k, v in filled_product.attrs)
        new.steps.append(replace(filled_product, attrs=attrs))
        return Fusion((*chain.steps, project), tuple(new.steps), tuple(setup.steps), rounds_alike=True)
    region, down = after
    by_row(body, new, rows, spec, order, region if project is None else [filled_product, *region[1:]], down)
    return Fusion(
        (*chain.steps, *region, *down.steps), new.named(down.steps[-1].outputs), tuple(setup.steps), rounds_alike=True
    )


def _projection(body: Body, chain: Chain) -> Step | None:
    """The product that alone reads heads that were joined again."""
    name = chain.steps[-1].outputs[0]
    readers = tuple(body.readers(name))
    if len(readers) != 1 or body.read_elsewhere({name}, readers) or not is_plain_product(body, readers[0]):
        return None
    fits = readers[0].attr("input_tensor_a") == Ref(name) and _can_fill(body, readers[0])
    return readers[0] if fits else None


FUSIONS = (Listed("products", 1.2, fuse_concatenation), Listed("products", 2, fuse_heads))

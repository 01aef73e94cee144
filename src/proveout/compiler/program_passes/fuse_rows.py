"""Products, norms and functions of one value work row by row: rows that were put in another order, or under other
dimensions, before them and back after them need not have been.

`nn.MultiheadAttention` turns a batch of sequences into a sequence of batches and back; a Linear after a reshape is an
addmm between two reshapes. In tiles both cost more than the product, unless the length is a multiple of a tile.
"""

from __future__ import annotations

from dataclasses import replace

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, fuse, is_plain
from proveout.compiler.program_passes.views import MOVES, Chain, Emit, View, chain_to, leaves, unread_but_here
from proveout.kernels.table import kind_of
from proveout.program import Program, Ref, Step
from proveout.types import TensorSpec


def fuse_rows(program: Program, policy: Policy) -> Program:
    return fuse(program, _find, policy)


def _find(body: Body, step: Step) -> Fusion | None:
    readers = body.readers(step.outputs[0]) if step.outputs else []
    if step.kernel not in MOVES or (readers and all(r.kernel in MOVES for r in readers)):
        return None
    down = chain_to(body, step.outputs[0])
    region: list[Step] = []
    value = down.source
    while (row_wise := _row_wise(body, value)) is not None and len(body.readers(value)) == 1:
        region.insert(0, row_wise)
        value = _operand(row_wise)
        if body.maker(Ref(value), *MOVES) is not None:
            break
    up = chain_to(body, value)
    if not region or not up.steps:
        return None
    first = rows_of(up.view, body.specs[up.source].shape)
    rows = back(body, first, down)
    if rows is None:
        return None
    spec = body.specs[up.source]
    if spec.shape[:-1] != rows.shape and all(_is_free(body, move) for move in up.steps):
        return None  # nothing is won, and layers that are alike would no longer be
    new = Emit(body, step)
    by_row(body, new, Ref(up.source), spec, rows, region, down)
    removed = (*unread_but_here(body, up.steps, region[0]), *region, *down.steps)
    if len(new.steps) >= len(region) + len(up.steps) + len(down.steps):
        return None
    return Fusion(removed, new.named(step.outputs), rounds_alike=True)


def below(body: Body, name: str) -> tuple[list[Step], Chain] | None:
    """What works row by row on a value that nothing else reads, and the moves of its result after it."""
    region: list[Step] = []
    while len(readers := body.readers(name)) == 1 and not body.read_elsewhere({name}, tuple(readers)):
        if readers[0].kernel in MOVES:
            break
        row_wise = _row_wise(body, readers[0].outputs[0]) if readers[0].outputs else None
        if row_wise is None or _operand(row_wise) != name:
            return None
        region.append(row_wise)
        name = row_wise.outputs[0]
    chains = leaves(body, name)
    if not region or chains is None or len(chains) != 1 or not chains[0].steps:
        return None
    return region, chains[0]


def by_row(body: Body, new: Emit, source: Ref, spec: TensorSpec, rows: View, region: list[Step], down: Chain) -> None:
    """The same on other rows, and then the moves that are left."""
    for old in region:
        attrs = tuple((k, source if v == Ref(_operand(old)) else v) for k, v in old.attrs)
        source = Ref(body.fresh(f"{old.outputs[0]}.by_row"))
        new.steps.append(replace(old, attrs=attrs, outputs=(source.name,)))
    out = body.specs[down.steps[-1].outputs[0]]
    width = out.shape[-1]
    source = new.move(source, (*spec.shape[:-1], width), wide(rows, width), f"{source.name}.rows")
    new.convert(source, body.specs[down.source], out)


def back(body: Body, first: View | None, down: Chain) -> View | None:
    """Where rows lie that were put in an order and then moved again."""
    second = rows_of(down.view, body.specs[down.source].shape)
    return first.then(second) if first is not None and second is not None else None


def _is_free(body: Body, move: Step) -> bool:
    """Whether a reshape only renames: rows and tiles stay whole."""
    source, out = body.specs[move.uses[0]], body.specs[move.outputs[0]]
    whole = all(spec.padded_shape[-2:] == spec.shape[-2:] for spec in (source, out))
    return move.kernel == "ttnn.reshape" and whole and source.shape[-1:] == out.shape[-1:]


def _row_wise(body: Body, name: str) -> Step | None:
    """What makes a value from the rows of its first operand, each by itself."""
    step = body.maker(Ref(name))
    if step is None or step.on_host or not step.uses or step.uses.count(_operand(step)) != 1:
        return None
    if kind_of(step) == "product":
        weight, bias = step.attr("input_tensor_b"), step.attr("bias")
        plain = is_plain(step, "input_tensor_a", "input_tensor_b", "bias", "activation", "transpose_b")
        return (
            step
            if plain and len(body.spec(weight).shape) == 2 and (bias is None or len(body.spec(bias).shape) == 1)
            else None
        )
    if step.kernel in ("ttnn.layer_norm", "ttnn.rms_norm"):
        return step if step.attr("residual_input_tensor") is None else None
    return step if kind_of(step) in ("unary", "cast") and len(step.uses) == 1 else None


def _operand(step: Step) -> str:
    operand = step.attr("input_tensor_a") or step.attr("input_tensor")
    return operand.name if isinstance(operand, Ref) else step.uses[0]


def rows_of(view: View, shape: tuple[int, ...]) -> View | None:
    """A view as one of rows, where each stays whole."""
    if not shape or not view.dims:
        return None
    width = shape[-1]
    if not view.is_whole or view.dims[-1] != View.of((width,)).dims[0] or width == 1:
        return None
    if any(stride % width for factors in view.dims[:-1] for _, stride in factors):
        return None
    return View(tuple(tuple((n, stride // width) for n, stride in factors) for factors in view.dims[:-1]))


def wide(rows: View, width: int) -> View:
    """A view of rows as a view of their numbers."""
    dims = tuple(tuple((size, stride * width) for size, stride in factors) for factors in rows.dims)
    return View((*dims, ((width, 1),)))


FUSIONS = (Listed("products", 1.4, fuse_rows),)

"""What becomes of a value that is cut along its batch: one rule for each family of ATen ops.

A rule says along which dimension an op's results are cut when its operands are, and which of its sizes shrink with
them; `Mixes` says why there is no such dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch.fx import Node

from proveout.compiler.parallel.call import Demand, Mixes, OpSplit, ShardedOp, dims_of, nodes, shape_of
from proveout.compiler.parallel.shapes import (
    concatenate,
    cut,
    expand,
    permute,
    repeat,
    scatter_slice,
    squeeze,
    take_slice,
    transpose,
    unsqueeze,
    view,
    viewed_dim,
)

Rule = Callable[[ShardedOp], OpSplit]


def rule_for(op: torch._ops.OpOverload) -> Rule | None:
    """The rule of an op's family, or None."""
    name = op._schema.name.removeprefix("aten::") if op.namespace == "aten" else ""
    if name in _rules():
        return _rules()[name]
    return pointwise if torch.Tag.pointwise in op.tags and name else None


# ---- families --------------------------------------------------------------------------------------------------------


def pointwise(call: ShardedOp) -> OpSplit:
    """Element by element, operands broadcast to the result."""
    dims = {call.split(t) + len(call.out) - len(shape_of(t)) for t in call.tensors() if call.split(t) is not None}  # type: ignore[operator]
    if len(dims) != 1:
        raise Mixes("operands hold the batch in different dimensions")
    (dim,) = dims
    for tensor in call.tensors():
        call.meet(tensor, dim, call.out)
    return call.everywhere(dim)


def _product(call: ShardedOp, left: str, right: str) -> int:
    a, b = call.args[left], call.args[right]
    rank, cut = len(shape_of(a)), (call.split(a), call.split(b))
    if cut[0] == rank - 1 or (cut[1] is not None and cut[1] == max(len(shape_of(b)) - 2, 0)):
        raise Mixes("it sums over the batch")
    if rank == 3 and 0 in cut:
        call.require(a, 0)
        call.require(b, 0)
        return 0
    if cut == (rank - 2, None):
        return rank - 2
    if cut == (None, rank - 1):
        return rank - 1
    raise Mixes("operands hold the batch in different dimensions")


def product(call: ShardedOp, left: str = "self", right: str = "mat2", added: str = "") -> OpSplit:
    """Rows of one matrix times columns of another; `added` is broadcast to the result."""
    dim = _product(call, left, right)
    call.meet(call.args.get(added), dim, call.out)
    return call.everywhere(dim)


def linear(call: ShardedOp) -> OpSplit:
    call.whole("weight", "bias")
    dim = call.split(call.args["input"])
    if dim is None or dim == len(shape_of(call.args["input"])) - 1:
        raise Mixes("it sums over the batch")
    return call.everywhere(dim)


def itemwise(call: ShardedOp, inner: int, shared: Sequence[str] = ()) -> OpSplit:
    """Each item by itself, over its last `inner` dimensions."""
    call.whole(*shared)
    node = call.args["self" if "self" in call.args else "input"]
    dim = call.split(node)
    if dim is None or dim >= len(shape_of(node)) - inner:
        raise Mixes("it works along the batch")
    return call.everywhere(dim)


def convolution(call: ShardedOp) -> OpSplit:
    call.whole("weight", "bias")
    if call.split(call.args["input"]) != 0:
        raise Mixes("it works along the batch")
    return call.everywhere(0)


def pad(call: ShardedOp) -> OpSplit:
    dim = call.split(call.args["self"])
    assert dim is not None
    from_last = len(call.out) - 1 - dim
    if any(call.args["pad"][2 * from_last : 2 * from_last + 2]):
        raise Mixes("it pads the batch")
    return call.everywhere(dim)


def along(call: ShardedOp, name: str = "dim", together: Sequence[str] = ()) -> OpSplit:
    """Along some dimensions, each line by itself; the operands `together` are as long as the first."""
    dims = dims_of(call, name)
    dim = next(s for t in call.tensors() if (s := call.split(t)) is not None)
    if dim in dims:
        raise Mixes("it works along the batch")
    for operand in ("self", *together):
        if isinstance(call.args.get(operand), Node):
            if shape_of(call.args[operand])[dim] != shape_of(call.args["self"])[dim]:
                raise Mixes("it takes some rows of the batch")
            call.require(call.args[operand], dim)
    return call.everywhere(dim)


def reduction(call: ShardedOp) -> OpSplit:
    if "other" in call.args:
        return pointwise(call)
    dim = call.split(call.args["self"])
    assert dim is not None
    dims = dims_of(call)
    if dim in dims:
        raise Mixes("it reduces over the batch")
    return call.everywhere(dim if call.args.get("keepdim") else dim - sum(d < dim for d in dims))


def layer_norm(call: ShardedOp) -> OpSplit:
    return itemwise(call, len(call.args["normalized_shape"]), ("weight", "bias"))


def group_norm(call: ShardedOp) -> OpSplit:
    call.whole("weight", "bias")
    if call.split(call.args["input"]) != 0:
        raise Mixes("it works along the batch")
    return call.everywhere(0, N=lambda n: call.args["N"] // call.batch * n)


def batch_norm(call: ShardedOp) -> OpSplit:
    if call.args.get("training", call.args.get("train", False)) or call.args.get("running_mean") is None:
        raise Mixes("in training it uses the statistics of the whole batch")
    call.whole("weight", "bias", "running_mean", "running_var")
    dim = call.split(call.args["input"])
    if dim is None or dim == 1:
        raise Mixes("it works along the batch")
    return OpSplit((dim, *(None for _ in call.outs[1:])))


def attention(call: ShardedOp) -> OpSplit:
    for name in ("query", "key", "value"):
        call.require(call.args[name], 0)
    rows, columns = shape_of(call.args["query"])[-2], shape_of(call.args["key"])[-2]
    call.meet(call.args.get("attn_mask"), 0, (*call.out[:-2], rows, columns))
    return call.everywhere(0)


def embedding(call: ShardedOp) -> OpSplit:
    call.whole("weight")
    dim = call.split(call.args["indices"])
    assert dim is not None
    return call.everywhere(dim)


def index_select(call: ShardedOp) -> OpSplit:
    (at,) = dims_of(call)
    dim = call.split(call.args["self"])
    if dim is None:
        return call.everywhere(at)
    if dim == at or call.split(call.args["index"]) is not None:
        raise Mixes("it takes rows of the batch")
    return call.everywhere(dim)


def index(call: ShardedOp) -> OpSplit:
    """Tensors for some neighbouring dimensions: their broadcast shape stands where those dimensions were."""
    source, indices = call.args["self"], call.args["indices"]
    places = [i for i, x in enumerate(indices) if x is not None]
    first, count = places[0], len(places)
    if places != list(range(first, first + count)) or any(g.meta["val"].dtype == torch.bool for g in nodes(indices)):
        raise Mixes("it takes rows by mask or in several places")
    width = max(len(shape_of(g)) for g in nodes(indices))
    dim = call.split(source)
    if dim is not None:
        if dim in places or any(call.split(g) is not None for g in nodes(indices)):
            raise Mixes("it takes rows of the batch")
        return call.everywhere(dim if dim < first else dim - count + width)
    out = call.out[first : first + width]
    (at,) = {call.split(g) + width - len(shape_of(g)) for g in nodes(indices) if call.split(g) is not None}  # type: ignore[operator]
    for tensor in nodes(indices):
        call.meet(tensor, at, out)
    return call.everywhere(first + at)


def index_put(call: ShardedOp) -> OpSplit:
    """Writes at indices of other dimensions than the batch's, the batch standing before them."""
    indices = call.args["indices"]
    places = [i for i, x in enumerate(indices) if x is not None]
    dim = next(s for t in call.tensors() if (s := call.split(t)) is not None)
    rows = len(shape_of(call.args["self"]))
    if call.split(call.args["self"]) is None or places != list(range(places[0], places[0] + len(places))):
        raise Mixes("it writes rows of the batch")
    if dim >= places[0] or any(call.split(g) is not None for g in nodes(indices)):
        raise Mixes("it writes rows of the batch")
    call.require(call.args["self"], dim)
    width = max(len(shape_of(g)) for g in nodes(indices))
    # The values are broadcast to the indexed shape; only its rank and its sizes before the indices matter here.
    indexed = (*shape_of(call.args["self"])[: places[0]], *([0] * (width + rows - places[-1] - 1)))
    call.meet(call.args["values"], dim, indexed)
    return call.everywhere(dim)


# ---- values that are the same for every row --------------------------------------------------------------------------


def force(op: torch._ops.OpOverload, call: ShardedOp, dim: int) -> OpSplit:
    """Cut the result of an op whose operands are whole: it must be the same for every row of the batch."""
    name = op._schema.name.removeprefix("aten::")
    if makes_anew(op):
        return call.everywhere(dim, size=call.sized(call.args["size"], dim))
    source = call.args.get("self")
    if name == "embedding" and dim < len(shape_of(call.args["indices"])):
        raise Demand(call.args["indices"], dim)
    if not isinstance(source, Node):
        raise Mixes("rows of the batch differ in what it gives")
    shape = shape_of(source)
    own = dim - (len(call.out) - len(shape))
    if name == "expand":
        if own < 0 or shape[own] == 1:
            return call.everywhere(dim, size=call.sized(call.args["size"], dim))
        raise Demand(source, own)
    if name == "repeat" and (own < 0 or shape[own] == 1):
        return call.everywhere(dim, repeats=call.sized(call.args["repeats"], dim))
    if name in VIEWS:
        raise Demand(source, viewed_dim(call.out, dim, shape, call.batch))
    if name == "permute":
        raise Demand(source, dims_of(call, "dims")[dim])
    if name == "unsqueeze":
        raise Demand(source, dim - (call.args["dim"] % len(call.out) < dim))
    if rule_for(op) is pointwise:
        for tensor in call.tensors():
            call.meet(tensor, dim, call.out)
    raise Mixes("rows of the batch differ in what it gives")


def makes_anew(op: torch._ops.OpOverload) -> bool:
    """Whether its numbers depend on no operand; `new_zeros` takes one for its dtype alone."""
    return op._schema.name.removeprefix("aten::") in CREATION


CREATION = frozenset({"full", "zeros", "ones", "empty", "new_zeros", "new_ones", "new_full", "new_empty"})
VIEWS = ("view", "_unsafe_view", "reshape")

_AS_POINTWISE = (
    "clone", "_to_copy", "alias", "detach", "lift_fresh_copy", "contiguous", "copy", "full_like", "zeros_like",
    "ones_like", "empty_like", "fill",
)  # fmt: skip
_REDUCTIONS = (
    "sum", "mean", "amax", "amin", "any", "all", "var", "var_mean", "std", "std_mean", "argmax", "argmin", "max", "min",
    "prod", "logsumexp", "linalg_vector_norm", "norm", "median", "nanmedian", "mode", "count_nonzero", "nansum",
)  # fmt: skip
_ALONG = ("_softmax", "_log_softmax", "softmax", "log_softmax", "cumsum", "cumprod", "cummax", "cummin",
          "logcumsumexp", "sort", "topk", "glu", "_safe_softmax")  # fmt: skip
_SPATIAL = {
    1: ("avg_pool1d", "adaptive_avg_pool1d", "adaptive_max_pool1d", "upsample_nearest1d", "upsample_linear1d",
        "reflection_pad1d", "replication_pad1d"),
    2: ("avg_pool2d", "max_pool2d_with_indices", "_adaptive_avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d",
        "upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d", "_upsample_nearest_exact2d",
        "_upsample_bilinear2d_aa", "reflection_pad2d", "replication_pad2d", "triu", "tril"),
    3: ("avg_pool3d", "max_pool3d_with_indices", "_adaptive_avg_pool3d", "adaptive_max_pool3d", "upsample_nearest3d",
        "upsample_trilinear3d", "reflection_pad3d", "replication_pad3d", "pixel_shuffle", "pixel_unshuffle"),
}  # fmt: skip


@functools.cache
def _rules() -> dict[str, Rule]:
    table: dict[str, Rule] = dict.fromkeys(_AS_POINTWISE, pointwise)
    table |= dict.fromkeys(_REDUCTIONS, reduction)
    table |= dict.fromkeys(_ALONG, along)
    for inner, names in _SPATIAL.items():
        for name in names:
            table[name] = functools.partial(itemwise, inner=inner)
    return table | {
        **dict.fromkeys(VIEWS, view),
        "mm": product,
        "bmm": product,
        "mv": functools.partial(product, right="vec"),
        "addmm": functools.partial(product, left="mat1", right="mat2", added="self"),
        "baddbmm": functools.partial(product, left="batch1", right="batch2", added="self"),
        "linear": linear,
        "convolution": convolution,
        "constant_pad_nd": pad,
        "flip": functools.partial(along, name="dims"),
        "roll": functools.partial(along, name="dims"),
        "unfold": functools.partial(along, name="dimension"),
        "gather": functools.partial(along, together=("index",)),
        "scatter": functools.partial(along, together=("index", "src")),
        "scatter_add": functools.partial(along, together=("index", "src")),
        "native_layer_norm": layer_norm,
        "native_group_norm": group_norm,
        "_native_batch_norm_legit_no_training": batch_norm,
        "_native_batch_norm_legit": batch_norm,
        "_native_batch_norm_legit_functional": batch_norm,
        "native_batch_norm": batch_norm,
        "_scaled_dot_product_flash_attention_for_cpu": attention,
        "embedding": embedding,
        "index_select": index_select,
        "index": index,
        "_unsafe_index": index,
        "index_put": index_put,
        "_unsafe_index_put": index_put,
        "expand": expand,
        "repeat": repeat,
        "permute": permute,
        "transpose": transpose,
        "t": transpose,
        "unsqueeze": unsqueeze,
        "squeeze": squeeze,
        "cat": concatenate,
        "slice": take_slice,
        "select": cut,
        "split": cut,
        "split_with_sizes": cut,
        "unbind": cut,
        "slice_scatter": scatter_slice,
        "select_scatter": scatter_slice,
    }

"""Where the batch is after a change of shape: views, moves of dimensions, cutting and joining along others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from proveout.compiler.parallel.call import Mixes, OpSplit, ShardedOp, dims_of, shape_of


def viewed_dim(shape: Sequence[int], dim: int, out: Sequence[int], batch: int) -> int:
    """Where the batch is after a reshape: blocks stay contiguous if what stands before it is the same."""
    before = math.prod(shape[:dim])
    dims = [d for d, n in enumerate(out) if math.prod(out[:d]) == before and n > 1 and n % batch == 0]
    if len(dims) != 1:
        raise Mixes("it reshapes the batch into another dimension")
    return dims[0]


def view(call: ShardedOp) -> OpSplit:
    node = call.args["self"]
    if "dtype" in call.args:
        raise Mixes("it reads memory as another dtype")
    dim = viewed_dim(shape_of(node), call.split(node), call.out, call.batch)  # type: ignore[arg-type]
    name = "size" if "size" in call.args else "shape"
    return call.everywhere(dim, **{name: call.sized(call.args[name], dim)})


def expand(call: ShardedOp) -> OpSplit:
    node = call.args["self"]
    dim = call.split(node) + len(call.out) - len(shape_of(node))  # type: ignore[operator]
    return call.everywhere(dim, size=call.sized(call.args["size"], dim))


def repeat(call: ShardedOp) -> OpSplit:
    node = call.args["self"]
    dim = call.split(node) + len(call.out) - len(shape_of(node))  # type: ignore[operator]
    if call.args["repeats"][dim] != 1:
        raise Mixes("it repeats the batch")
    return call.everywhere(dim)


def permute(call: ShardedOp) -> OpSplit:
    return call.everywhere(dims_of(call, "dims").index(call.split(call.args["self"])))  # type: ignore[arg-type]


def transpose(call: ShardedOp) -> OpSplit:
    rank, dim = len(call.out), call.split(call.args["self"])
    a, b = (call.args.get(name, i) % rank for i, name in enumerate(("dim0", "dim1")))
    return call.everywhere({a: b, b: a}.get(dim, dim))  # type: ignore[arg-type]


def unsqueeze(call: ShardedOp) -> OpSplit:
    dim, at = call.split(call.args["self"]), call.args["dim"] % len(call.out)
    assert dim is not None
    return call.everywhere(dim + (at <= dim))


def squeeze(call: ShardedOp) -> OpSplit:
    shape, dim = shape_of(call.args["self"]), call.split(call.args["self"])
    assert dim is not None
    if "dim" not in call.args or dim in dims_of(call):
        raise Mixes("which dimensions it drops depends on the batch")
    return call.everywhere(dim - sum(d < dim for d in dims_of(call) if shape[d] == 1))


def concatenate(call: ShardedOp) -> OpSplit:
    at = call.args.get("dim", 0) % len(call.out)
    parts = [t for t in call.tensors() if shape_of(t) != (0,)]
    dim = next(s for t in parts if (s := call.split(t)) is not None)
    if dim == at:
        raise Mixes("it joins along the batch")
    for tensor in parts:
        call.require(tensor, dim)
    return call.everywhere(dim)


def take_slice(call: ShardedOp) -> OpSplit:
    (at,) = dims_of(call)
    dim = call.split(call.args["self"])
    assert dim is not None
    if dim != at:
        return call.everywhere(dim)
    if call.out[dim] != shape_of(call.args["self"])[dim]:
        raise Mixes("it takes some rows of the batch")
    return call.everywhere(dim, end=lambda n: None)


def cut(call: ShardedOp) -> OpSplit:
    """Several parts along another dimension; `unbind` and `select` drop that dimension."""
    at = call.args.get("dim", 0) % len(shape_of(call.args["self"]))
    dim = call.split(call.args["self"])
    assert dim is not None
    if at == dim:
        raise Mixes("it takes the batch apart")
    drops = len(call.out) < len(shape_of(call.args["self"]))
    return call.everywhere(dim - (drops and at < dim))


def scatter_slice(call: ShardedOp) -> OpSplit:
    """A part along another dimension is written; `select_scatter` writes one without that dimension."""
    at = call.args.get("dim", 0) % len(call.out)
    part = call.args["src"]
    drops = len(shape_of(part)) < len(call.out)
    dim = call.split(call.args["self"])
    if dim is None:
        own = call.split(part)
        assert own is not None
        dim = own + (drops and at <= own)
    if dim == at:
        raise Mixes("it writes some rows of the batch")
    call.require(call.args["self"], dim)
    call.require(part, dim - (drops and at < dim))
    return call.everywhere(dim)

"""One ATen op whose operands are cut along a batch: what a rule is told, and what it may say.

A value is either whole on every chip, or cut along one dimension in which the batch is the outermost factor: chip i
holds the i-th of equal, contiguous blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

Split = int | None
"""The dimension that a value is cut along; None: whole on every chip."""
Change = Callable[[int], Any]
"""An argument that holds a size, for another batch."""


class Mixes(Exception):
    """The op needs rows of several chips at once, or nobody has shown that it does not."""


class Demand(Exception):
    """A value that was taken to be whole meets rows of the batch: it must be cut along `dim` too."""

    def __init__(self, node: Node, dim: int) -> None:
        super().__init__(node, dim)
        self.node, self.dim = node, dim


@dataclass(frozen=True)
class OpSplit:
    """How each result is cut (one entry for an op with one result), and the arguments that hold a size of the batch."""

    splits: tuple[Split, ...]
    changes: Mapping[str, Change] = field(default_factory=dict)


@dataclass(frozen=True)
class ShardedOp:
    """One op with its arguments by name, how its operands are cut, and the batch that they are cut along."""

    args: Mapping[str, Any]
    outs: tuple[tuple[int, ...], ...]
    known: Mapping[Node, Split | tuple[Split, ...]]
    batch: int

    @property
    def out(self) -> tuple[int, ...]:
        return self.outs[0]

    def split(self, node: Any) -> Split:
        split = self.known[node] if isinstance(node, Node) else None
        assert not isinstance(split, tuple)
        return split

    def tensors(self) -> list[Node]:
        return list(nodes(tuple(self.args.values())))

    def everywhere(self, dim: int, **changes: Change) -> OpSplit:
        """Every result is cut along `dim`."""
        return OpSplit(tuple(dim for _ in self.outs), changes)

    def sized(self, sizes: Sequence[int], dim: int) -> Change:
        """A list of sizes whose entry `dim` counts the batch; -1 stays."""
        return lambda n: [size // self.batch * n if i == dim and size != -1 else size for i, size in enumerate(sizes)]

    def require(self, node: Any, dim: int) -> None:
        """This operand, of full size along `dim`, is cut there or can be."""
        split = self.split(node)
        if split is None:
            raise Demand(node, dim)
        if split != dim:
            raise Mixes("operands hold the batch in different dimensions")

    def meet(self, node: Any, dim: int, out: Sequence[int]) -> None:
        """This operand, broadcast to the shape `out`, goes with a result that is cut along `dim`."""
        if not isinstance(node, Node):
            return
        shape, split = shape_of(node), self.split(node)
        own = dim - (len(out) - len(shape))
        if own < 0 or shape[own] == 1:
            if split is not None:
                raise Mixes("operands hold the batch in different dimensions")
        else:
            self.require(node, own)

    def whole(self, *names: str) -> None:
        """These operands serve all rows alike."""
        for name in names:
            if self.split(self.args.get(name)) is not None:
                raise Mixes(f"its {name} depends on the batch")


def shape_of(node: Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def nodes(arg: Any) -> Iterator[Node]:
    if isinstance(arg, Node):
        yield arg
    elif isinstance(arg, (list, tuple)):
        for item in arg:
            yield from nodes(item)


def dims_of(call: ShardedOp, name: str = "dim", of: str = "self") -> list[int]:
    """A `dim` argument as a list of positions; all dimensions where none is named."""
    rank = len(shape_of(call.args[of]))
    value = call.args.get(name)
    dims = [value] if isinstance(value, int) else list(value or range(rank))
    return [d % rank if rank else d for d in dims]


def change_arguments(node: Node, changes: Mapping[str, Any]) -> None:
    """Arguments by name, wherever the node holds them."""
    args, kwargs = list(node.args), dict(node.kwargs)
    order = [a.name for a in node.target._schema.arguments]  # type: ignore[union-attr]
    for name, value in changes.items():
        if name in order[: len(args)]:
            args[order.index(name)] = value
        elif name in kwargs:
            kwargs[name] = value
    node.args, node.kwargs = tuple(args), kwargs

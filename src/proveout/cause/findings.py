"""What an explanation says, as values: no torch, so that whoever only shows one needs none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from proveout.types import Origin

Role = Literal["adds", "magnifies", "passes on", "several"]
"""What an op does to the error: most of what leaves it is its own; it makes what comes in larger; neither. `several`
is a run of ops that was not looked into one by one."""
CLASSES = ("largest", "middle", "smallest")
"""Elements of an output by size: the tenth of them with the largest values, the tenth with the smallest, the rest."""

STANDS_OUT = 2.0
"""Times what is expected of it, from which on an op is a suspect."""
SYSTEMATIC = 2.0
"""How much more an error counts that has one sign everywhere: rounding has any, and in sums it goes away."""
COMPILER = "the Program itself"
"""The contribution of what is off in float32 already, before any op is the device's."""
LOFI = "as in LoFi"
AT_ONCE = "Steps run as one kernel"
"""The contribution of what a device's run has other than its Steps one by one."""


def beyond(times: float, lofi: float) -> float:
    """The part of an op's error that makes it a suspect: what it adds beyond STANDS_OUT times what is expected, or what
    it adds as in LoFi, where others like it do not."""
    return max(1 - (STANDS_OUT / times) ** 2 if times >= STANDS_OUT else 0.0, lofi)


@dataclass(frozen=True)
class OutputShare:
    """What one op does to one output. Shares are of the whole's squared relative error; counts are net."""

    output: str
    share: float
    classes: tuple[float, float, float]
    """The share by CLASSES; they sum to it."""
    sign_flips: int
    argmax_changes: int


@dataclass(frozen=True)
class Contribution:
    """One op's part in the final error, or that of a run of ops that was not looked into."""

    op: str
    """The kernel's name; of several ops, how many and which module they are in."""
    value: str
    """What it defines, by its name in the Program; the last op's."""
    origin: Origin
    position: int
    """Of the first of its ops, among all of the graph."""
    ops: int
    share: float
    """Of the squared relative error of the outputs: everything before it by the device, everything after by the
    reference, it by one or the other. Below 0 where it cancels what came before."""
    own: float
    """The part of the share that is there without any other error."""
    role: Role
    adds: float | None = None
    """Relative L2 of its result against the reference's on the same operands."""
    incoming: float | None = None
    """The largest relative L2 among its operands."""
    gain: float | None = None
    """Relative L2 that its operands' error makes of its result, over `incoming`."""
    outputs: tuple[OutputShare, ...] = ()
    expected: float | None = None
    """What it should add: what storing an exact result in its format takes (and, on a chip, reading float32 operands in
    the matrix unit), or what others like it add in this graph to sums as long as its, whichever is more."""
    times: float | None = None
    """What it adds over what is expected; what makes all its results too large or too small alike counts twice."""
    drift: float | None = None
    """How much too large its results are throughout, as a part of them."""
    usual_drift: float | None = None
    """That which others like it would have in its place; None where there is none."""
    side: str = ""
    """Whose op it is, where two that do not run the same Steps are held against each other."""
    lofi: float = 0.0
    """The part of what it adds that is there because it computes as in LoFi, where most others do not."""

    @property
    def is_suspect(self) -> bool:
        return self.lofi > 0 or (self.times is not None and self.times >= STANDS_OUT)

    @property
    def stands_out(self) -> str:
        """Of a suspect: what is not as expected, in words; empty for others."""
        if not self.is_suspect or self.adds is None or self.expected is None or self.times is None:
            return ""
        if self.times < STANDS_OUT:
            return LOFI
        lofi = f", {LOFI}" if self.lofi > 0.5 else ""
        if self.drift is not None and self.adds < self.times * self.expected * (1 - 1e-9):
            return f"{abs(self.drift):.1%} too {'large' if self.drift > 0 else 'small'} throughout{lofi}"
        return f"{self.times:.1f} × what is expected{lofi}"

    @property
    def beyond(self) -> float:
        """Of a suspect: the part of `own` that is there because of what makes it one."""
        return self.own * beyond(self.times or 0.0, self.lofi)

    @property
    def interaction(self) -> float:
        """The part of the share that is there only together with errors of ops before it."""
        return self.share - self.own

    @property
    def arrives(self) -> float:
        """Relative L2 of the outputs that it alone makes."""
        return self.own**0.5


@dataclass(frozen=True)
class Closeness:
    """One output by every measure we have."""

    output: str
    pcc: float | None
    rel_l2: float | None
    max_abs: float | None
    within: float | None
    """Share of elements within the tolerance."""
    ulps: tuple[int, ...]
    """Elements that are off by at most ULP_BINS units in bfloat16's last place; the last count is of those above."""
    sign_flips: int
    top1: float | None
    """Share of rows whose largest element is the same; None where the output has no rows of classes."""
    top5: float | None
    """Share of rows whose right class is among the five largest found."""
    warnings: tuple[str, ...] = ()
    """What these numbers show and PCC hides."""


BY_ITSELF = " by itself"
ULP_BINS = (0, 1, 2, 4, 8, 16, 64)


@dataclass(frozen=True)
class Branch:
    """One module of the error budget, with what is inside it: its shares, and what it computes by itself, sum to
    its own."""

    path: str
    share: float
    ops: int
    children: tuple[Branch, ...] = ()

    @property
    def is_module(self) -> bool:
        """And not what one computes by itself."""
        return not self.path.endswith(BY_ITSELF)


@dataclass(frozen=True)
class Explanation:
    """Where one graph's error comes from."""

    graph: str
    found: str
    """What the error is of: a device and what was set for it."""
    against: str
    """What it is measured from."""
    whole: float
    """Squared relative L2 error, the mean over the outputs: what all shares sum to."""
    contributions: tuple[Contribution, ...]
    """Suspects first, by what they do to the outputs beyond what is expected of them; then the largest share first."""
    exact_ops: int
    """Ops that compute the same either way: their share is 0."""
    passes: float
    """Forward passes that finding it took, in Steps run over Steps of a pass."""
    said: tuple[str, ...] = ()
    """What a person should know, in sentences, most important first."""

    @property
    def rel_l2(self) -> float:
        return self.whole**0.5

    @property
    def suspects(self) -> tuple[Contribution, ...]:
        """Ops that add more than is expected of them."""
        return tuple(part for part in self.contributions if part.is_suspect)

    @property
    def tree(self) -> Branch:
        """The error budget over modules."""
        return tree_of(self.contributions)


@dataclass(frozen=True)
class Explained:
    """All graphs of a model, and its outputs."""

    closeness: tuple[Closeness, ...]
    graphs: tuple[Explanation, ...]
    notes: tuple[str, ...] = ()
    """Graphs that could not be looked into, and why."""


def tree_of(contributions: Sequence[Contribution]) -> Branch:
    """Modules with what is inside them."""
    return _branch("", "", contributions)


def _branch(path: str, prefix: str, inside: Sequence[Contribution]) -> Branch:
    below: dict[str, list[Contribution]] = {}
    for one in inside:
        rest = one.origin.module.removeprefix(prefix) if one.origin.module.startswith(prefix) else ""
        if rest:
            below.setdefault(rest.partition(".")[0], []).append(one)
    children = [_branch(f"{prefix}{name}", f"{prefix}{name}.", some) for name, some in below.items()]
    children = [_shortened(child) for child in children]
    own = [one for one in inside if not one.origin.module.startswith(prefix) or one.origin.module == prefix[:-1]]
    if own and children:
        children.append(Branch(f"{path or 'model'}{BY_ITSELF}", sum(o.share for o in own), sum(o.ops for o in own)))
    share, ops = sum(one.share for one in inside), sum(one.ops for one in inside)
    return Branch(path or "model", share, ops, tuple(sorted(children, key=lambda child: -child.share)))


def _shortened(branch: Branch) -> Branch:
    """A module with one thing inside and nothing of its own is that thing."""
    only = branch.children[0] if len(branch.children) == 1 else None
    return only if only is not None and only.ops == branch.ops else branch


def walk(branch: Branch, depth: int = 0) -> Iterator[tuple[int, Branch]]:
    """A tree from the top, each branch with its depth."""
    yield depth, branch
    for child in branch.children:
        yield from walk(child, depth + 1)

"""Why something stays on the host: a value of one kind with facts. Its sentence is made when it is printed.

A `Kind` is a row: the sentence, and what to do about it. Those that several rooms use are here; one that a single op or
kernel needs stands in that one's file. Whoever groups, counts or answers reasons looks at kind and facts, so that
sentences can be improved freely.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass

Fact = str | int | tuple[str | int, ...]

KINDS: dict[str, Kind] = {}
"""Every kind by name; a duplicate is an error."""


@dataclass(frozen=True)
class Reason:
    """What was found, as a kind of the table and named facts. Plain JSON, and equal where kind and facts are."""

    kind: str
    facts: tuple[tuple[str, Fact], ...] = ()

    def __str__(self) -> str:
        known, facts = KINDS.get(self.kind), {name: _shown(fact) for name, fact in self.facts}
        if known is None:  # of another version
            return ", ".join([self.kind, *(f"{name} {fact}" for name, fact in facts.items())])
        return known.sentence.format(**facts)

    @property
    def fix(self) -> str:
        """What to do about it; empty where that depends on the op and not on the reason."""
        fix = KINDS[self.kind].fix if self.kind in KINDS else ""
        return fix.format(**{name: _shown(fact) for name, fact in self.facts}) if isinstance(fix, str) else fix(self)

    def __getitem__(self, name: str) -> Fact:
        return dict(self.facts)[name]


@dataclass(frozen=True)
class Kind:
    """One row: a sentence with {facts}, and a fix with the same or made from them. Called, it gives the Reason."""

    name: str
    sentence: str
    fix: str | Callable[[Reason], str] = ""

    def __post_init__(self) -> None:
        assert KINDS.setdefault(self.name, self) == self, f"two kinds of reason are called {self.name!r}"

    def __call__(self, **facts: Fact) -> Reason:
        wanted = {name for _, name, _, _ in string.Formatter().parse(self.sentence) if name}
        assert facts.keys() == wanted, f"a reason {self.name!r} takes {sorted(wanted)}, not {sorted(facts)}"
        return Reason(self.name, tuple(facts.items()))


def _shown(fact: Fact) -> str:
    """Several words are a choice; several numbers a shape."""
    words = isinstance(fact, tuple) and all(isinstance(f, str) for f in fact)
    return " or ".join(map(str, fact)) if words and isinstance(fact, tuple) else str(fact)


# ---- dtypes and numbers ------------------------------------------------------------------------------------------


def _another_dtype(reason: Reason) -> str:
    dtype = str(reason["dtype"])
    if dtype.startswith("complex"):
        return TWO_REAL_TENSORS
    return f"cast to float32 or bfloat16 instead of {dtype}" if dtype in ("float64", "float16") else ""


def _cast_operand(reason: Reason) -> str:
    wanted, dtype = reason["wanted"], reason["dtype"]
    if dtype == "float32" and isinstance(wanted, tuple) and "bfloat16" in wanted:
        return PRECISION
    return f"cast the operand from {dtype} to {_shown(wanted)} before it"


TWO_REAL_TENSORS = "carry real and imaginary parts as two real tensors"
PRECISION = "compile with precision bfloat16 (--precision bfloat16), or cast that operand to bfloat16 in the model"
AS_INT32 = "give it to the model as int32 where the {dtype} values fit, or cast with `.to(torch.int32)`: more converts"

NOT_A_DTYPE = Kind("dtype", "{dtype} is not a dtype of this device", _another_dtype)
COMPLEX_NUMBER = Kind("complex-number", "complex numbers have no kernel", TWO_REAL_TENSORS)
UNPROVEN = Kind("integers-unproven", "{dtype} values that are not proven to fit 32 bits", AS_INT32)
TOO_LARGE = Kind(
    "integers-too-large",
    "{dtype} values from {low} to {high} do not fit the device's int32",
    "keep the {dtype} values within 32 bits, or compute this part outside the model",
)
PRODUCTS_OF_INTEGERS = Kind("products-of-integers", "products of integers leave 32 bits soon")
NO_ELEMENTS = Kind(
    "no-elements", "tensors without elements stay on the host", "none needed: there is nothing to compute"
)

# ---- what a kernel takes -----------------------------------------------------------------------------------------


def pad_head(reason: Reason) -> str:
    """The next head size that the kernel takes."""
    size, multiple = reason["size"], reason["multiple"]
    assert isinstance(size, int)
    assert isinstance(multiple, int)
    return f"pad the head size {size} to {-(-size // multiple) * multiple} with zeros and keep the scale of {size}"


KERNEL_DTYPE = Kind("kernel-dtype", "{kernel} takes {wanted}, not {dtype}", _cast_operand)
FROM_DRAM = Kind("from-dram", "{kernel} takes {operand} from DRAM")
RANK = Kind(
    "rank",
    "{kernel} takes {rank} dimensions, not {found}",
    "reshape the operands from {found} to {rank} dimensions around it",
)
HEAD_SIZE = Kind("head-size", "{kernel} takes a head size that is a multiple of {multiple}, not {size}", pad_head)
SCATTER = Kind("scatter-reduction", "ttnn.scatter combines by add and multiply, not {reduce}")

# ---- an op's own nature ------------------------------------------------------------------------------------------

RANDOM_FIX = "it draws random numbers: pass the noise as an input, or call model.eval() where it is dropout"
SHAPE_FIX = "its result's shape depends on data: compute it outside, or mask with torch.where and keep the shape"
PYTHON_FIX = "it reads a value back into Python: move it out of the model"

RANDOM = Kind("random", "draws eager's own random numbers, in eager's order", RANDOM_FIX)
DROPOUT = Kind("dropout", "attention with dropout draws random numbers", RANDOM_FIX)
DYNAMIC_SHAPE = Kind("dynamic-shape", "how large its result is depends on the data", SHAPE_FIX)
TO_PYTHON = Kind("to-python", "hands a number to Python, which decides by it", PYTHON_FIX)
NO_ROW = Kind("no-row", "no row in the op table")
CUSTOM_OP = Kind("custom-op", "an op of {namespace}, not of ATen: only its own code says what it computes")

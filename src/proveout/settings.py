"""What a user may choose about a compilation, checked by name and value."""

from __future__ import annotations

import functools
import types
import typing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, Union

from proveout.coding import hints_of
from proveout.errors import UsageError, unknown
from proveout.tensor_spec import Origin

Precision = Literal["model", "bfloat16", "float16", "tf32"]
"""What a device computes in: the model's own, or this for what is float32 in the model. `tf32` keeps float32 numbers
and lets matrix units round the operands of products and convolutions. The last two are a GPU's."""
Fidelity = Literal["LoFi", "HiFi2", "HiFi3", "HiFi4"]
Weights = Literal["same", "bfloat16", "bfloat8_b", "bfloat4_b", "int8", "float8"]
"""The format of a weight on the device; `same` is what `precision` gives. The last two are a GPU's: `int8` where a few
rows read them, as in decoding, `float8` in the other products, whose rows are then in float8 too."""
CacheFormat = Literal["same", "bfloat16", "bfloat8_b"]
"""The format of a decoder's keys and values on the device; `same` is what `precision` gives."""
Decided = Literal["weights", "result", "fidelity", "accumulate", "memory", "config"]
FORMATS = ("float32", "bfloat16", "bfloat8_b", "bfloat4_b")
PER_OP: dict[Decided, tuple[str, ...]] = {
    "weights": FORMATS,
    "result": FORMATS,
    "fidelity": typing.get_args(Fidelity),
    "accumulate": ("float32", "bfloat16"),
    "memory": ("dram", "height", "block"),
    "config": ("none", "spread"),
}
"""What can be decided of a single op, and how: the format of its weight and of its result, its math fidelity, the
format that sums are kept in, where its result lies (DRAM instead of L1, or left in the shards that a convolution is
computed in), and a product's program config."""


@dataclass(frozen=True)
class Settings:
    """What a user may choose about a compilation; goes in, never comes out changed."""

    precision: Precision = "model"
    weights: Weights = "same"
    """Of matrix products and convolutions."""
    overrides: tuple[tuple[str, Weights], ...] = ()
    """(pattern, format) for the weights of some: a module's path (with all inside it) or an ATen op; the last one that
    matches counts."""
    cache: CacheFormat = "same"
    """Of a decoder's keys and values between its calls: of what calls write to that has four dimensions."""
    per_op: tuple[tuple[str, Decided, str], ...] = ()
    """(pattern, decision, value) for single ops of a Program, by names such as `encoder.0:ttnn.linear` (see `PER_OP`);
    the last one that matches counts. `proveout tune` finds them."""
    math_fidelity: Fidelity | None = None
    fallback: Literal["host", "error"] = "host"
    memory: Literal["auto", "dram"] = "auto"
    sharding: Literal["auto", "norms", "interleaved"] = "auto"
    """Which results are cut over the cores where the plan says that it pays: those of normalisations, of convolutions
    and of what is computed element by element between these, those of normalisations alone, or none."""
    products: Literal["configured", "default"] = "configured"
    """Whether products get a program config, the one that the plan says is quickest, where it beats ttnn's choice;
    `default` is ttnn's own. The weight of a product of one row may be cut over the DRAM banks."""
    parallel: Literal["auto", "data", "tensor", "none"] = "auto"
    """Over a device's several chips: the batch (`data`), the columns of linears (`tensor`), or one chip only."""
    numerics: Literal["fast", "faithful"] = "fast"
    """On `sim`: torch's own kernels, or the chip's rules bit by bit where they are known."""
    trace: bool = False
    queues: Literal[1, 2] = 1
    verify: bool = False
    pcc: float = 0.99
    seed: int = 0

    @staticmethod
    def of(value: Settings | dict[str, Any] | None) -> Settings:
        """Settings from what a user wrote; an unknown name or value is refused by name."""
        if value is None:
            return Settings()
        if isinstance(value, Settings):
            return value
        if not isinstance(value, dict):
            raise UsageError(f"settings must be a dict or proveout.Settings, not {type(value).__name__}.")
        hints = hints_of(Settings)
        for name, setting in value.items():
            if name not in hints:
                raise unknown("setting", name, hints)
            _check(name, setting, hints[name])
        chosen: dict[str, Any] = {k: float(v) if hints[k] is float else v for k, v in value.items()}
        if "overrides" in chosen:
            chosen["overrides"] = _pairs(chosen["overrides"])
        if "per_op" in chosen:
            chosen["per_op"] = _triples(chosen["per_op"])
        return Settings(**chosen)

    @property
    def packs_weights(self) -> bool:
        """Whether some weight is to be stored in a format of its own."""
        return any(dtype != "same" for dtype in (self.weights, *(d for _, d in self.overrides)))

    def weights_of(self, origin: Origin) -> Weights:
        """The format for the weight of an op that comes from there."""
        return _format_of(self.overrides, self.weights, origin.aten, origin.module)


@functools.lru_cache(1 << 14)
def _format_of(overrides: tuple[tuple[str, Weights], ...], otherwise: Weights, aten: str, module: str) -> Weights:
    """The last override that names an op or a module that it is in."""
    parts = module.split(".") if module else []
    names = [aten, *(".".join(parts[: i + 1]) for i in range(len(parts)))]
    matching = (dtype for pattern, dtype in reversed(overrides) if any(fnmatchcase(n, pattern) for n in names))
    return next(matching, otherwise)


OF_A_CHIP = Settings(precision="bfloat16")
"""What a proof on a chip starts with; `devices.registry.settings_for` gives those of any target."""


def _pairs(overrides: Any) -> tuple[tuple[str, Weights], ...]:
    """Overrides as a user wrote them: a dict, or a list of pairs."""
    items = overrides.items() if isinstance(overrides, dict) else overrides
    shape = "setting 'overrides' takes {pattern: format} or a list of such pairs"
    try:
        pairs = [(pattern, dtype) for pattern, dtype in items]
    except (TypeError, ValueError):
        raise UsageError(f"{shape}, not {overrides!r}.") from None
    for pattern, dtype in pairs:
        if not isinstance(pattern, str) or not pattern:
            raise UsageError(f"{shape}; {pattern!r} is not a module's path or an ATen op.")
        if dtype not in typing.get_args(Weights):
            raise unknown(f"format for {pattern!r} in setting 'overrides':", dtype, typing.get_args(Weights))
    return tuple(pairs)


def _triples(per_op: Any) -> tuple[tuple[str, Decided, str], ...]:
    """Decisions on single ops as a user wrote them: a list of triples."""
    shape = "setting 'per_op' takes a list of [op, decision, value]"
    try:
        triples = [(pattern, decided, value) for pattern, decided, value in per_op]
    except (TypeError, ValueError):
        raise UsageError(f"{shape}, not {per_op!r}.") from None
    for pattern, decided, value in triples:
        if not isinstance(pattern, str) or ":" not in pattern:
            raise UsageError(f"{shape}; {pattern!r} does not name an op as 'module:kernel'.")
        if not isinstance(decided, str) or decided not in PER_OP:
            raise unknown(f"decision for {pattern!r} in setting 'per_op':", decided, PER_OP)
        if value not in PER_OP[decided]:
            raise unknown(f"{decided} for {pattern!r} in setting 'per_op':", value, PER_OP[decided])
    return tuple(triples)


def _check(name: str, value: object, hint: Any) -> None:
    choices = _choices(hint)
    if choices:
        if value not in choices or isinstance(value, bool):
            raise unknown(f"value for setting {name!r}:", value, map(str, choices))
    elif hint is bool and not isinstance(value, bool):
        raise UsageError(f"setting {name!r} takes True or False, not {value!r}.")
    elif hint is int and (not isinstance(value, int) or isinstance(value, bool)):
        raise UsageError(f"setting {name!r} takes a whole number, not {value!r}.")
    elif hint is float and not (isinstance(value, (int, float)) and -1 <= value <= 1):
        raise UsageError(f"setting {name!r} takes a number from -1 to 1, not {value!r}.")


def _choices(hint: Any) -> tuple[Any, ...]:
    """The values a Literal admits, also inside `Literal[…] | None`."""
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) in (Union, types.UnionType):
        parts = typing.get_args(hint)
        return tuple(c for p in parts for c in ((None,) if p is type(None) else _choices(p)))
    return ()

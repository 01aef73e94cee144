"""The standard parameters of a model script, read from its command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proveout import vision
from proveout.compat.mlagility.smaller import smaller
from proveout.errors import unknown

vision.serve()  # here, not in `parse`: a script imports its models before it asks for its parameters


@dataclass(frozen=True)
class Parameter:
    """One standard parameter; its default's type is its type, and `small` its default under `--small`."""

    default: int | float
    help: str
    small: int | float | None = None


PARAMETERS: dict[str, Parameter] = {
    "batch_size": Parameter(1, "batch size of the inputs"),
    "max_seq_length": Parameter(128, "length of the input sequence, in tokens", small=32),
    "max_audio_seq_length": Parameter(25600, "length of the audio input, in samples", small=6400),
    "height": Parameter(224, "height of the input image"),
    "width": Parameter(224, "width of the input image"),
    "num_channels": Parameter(3, "channels of the input image"),
    "k": Parameter(8, "graph networks: order of the filter, or number of neighbours"),
    "alpha": Parameter(2.2, "graph networks: share of the initial features, or slope of the attention"),
    "out_channels": Parameter(16, "graph networks: features of each node in the output"),
    "num_layers": Parameter(8, "graph networks: number of layers"),
    "in_channels": Parameter(1433, "graph networks: features of each node in the input"),
}


WEIGHTS = "PROVEOUT_WEIGHTS"
"""The variable in which whatever runs a script says which weights are wanted."""


class Arguments(list[Any]):
    """The values in the order asked for, as MLAgility's `parse` gives them, and by name: `arguments.batch_size`.

    `small` says whether `--small` was given: the script is to build its model at a size that fits a laptop.
    `weights` is what `--weights` says, or whatever runs the script: `random` (the default), `pretrained`, or a folder.
    """

    def __init__(self, names: Sequence[str], values: argparse.Namespace) -> None:
        self._by_name = {name: _value(name, getattr(values, name), values.small) for name in names}
        super().__init__(self._by_name[name] for name in names)
        self.small: bool = values.small
        self.weights: str = values.weights

    def __getattr__(self, name: str) -> Any:
        by_name = self.__dict__.get("_by_name", {})
        if name not in by_name:
            raise AttributeError(f"this script did not ask for {name!r}; add it: parse([{name!r}, …])")
        return by_name[name]


def parse(names: Sequence[str] = ()) -> Arguments:
    """`batch_size, width = parse(["batch_size", "width"])`, or `arguments = parse([…])`, `arguments.batch_size`.

    Every script also takes `--small` and `--weights`. A name that is not standard is a UsageError; a flag that the
    script does not take ends it, exit code 2.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in PARAMETERS:
            raise unknown("parameter", name, PARAMETERS)
    parser = argparse.ArgumentParser()
    for name in dict.fromkeys(wanted):
        parameter = PARAMETERS[name]
        defaults = f"default {parameter.default}" + (f"; small: {parameter.small}" if parameter.small else "")
        parser.add_argument(f"--{name}", type=type(parameter.default), help=f"{parameter.help} ({defaults})")
    parser.add_argument("--small", action="store_true", help="a model that fits a laptop, where the script has one")
    parser.add_argument(
        "--weights",
        default=os.environ.get(WEIGHTS) or "random",
        metavar="random|pretrained|DIR",
        help="seeded weights, the published ones, or a checkpoint's folder, where the script has them (default random)",
    )
    values, strange = parser.parse_known_args()
    if strange:
        taken = ", ".join(f"--{name}" for name in dict.fromkeys([*wanted, "small", "weights"]))
        parser.error(f"unrecognized argument {strange[0]}; this script takes {taken}")
    return Arguments(wanted, values)


def _value(name: str, value: int | float | None, small: bool) -> int | float:
    parameter = PARAMETERS[name]
    if value is not None:
        return value
    return parameter.small if small and parameter.small is not None else parameter.default


__all__ = ["PARAMETERS", "WEIGHTS", "Arguments", "Parameter", "parse", "smaller"]

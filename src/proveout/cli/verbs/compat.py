"""`proveout compat`: other systems' import names in plain `python script.py`, on or off for this environment."""

from __future__ import annotations

import sysconfig
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from proveout import compat
from proveout.cli.output import emit
from proveout.errors import EnvironmentFault

FILE = "proveout-compat.pth"
"""In the environment's packages: Python reads it when it starts, and adds the folder that it names to its path."""
TORCH_NEURON = "proveout_torch_neuron"
"""The module in that folder which serves `torch.neuron`; it imports nothing until that is asked for."""
NAMES = tuple(sorted({name.partition(".")[0] for name in compat.STAND_INS}))


class Switch(StrEnum):
    on = "on"
    off = "off"
    status = "status"


def verb(
    switch: Annotated[Switch, typer.Argument(help="on, off, or status (default).", show_default=False)] = Switch.status,
) -> int:
    """Let scripts for other tools run as they are.

    With `on`, `import neuronperf`, `import torch_neuronx`, `import torch_ttnn`, `import ttnn` and `from
    mlagility.parser import parse` mean Proveout's own modules in every `python script.py` of this environment.
    Real packages of these names are never hidden: beside one, `on` is refused.

    \b
    Examples:
      proveout compat on
      proveout compat off
    """
    path = Path(sysconfig.get_path("purelib"), FILE)
    try:
        if switch is Switch.on:
            _refuse_beside_real()
            path.write_text(text(compat.PACKAGES), encoding="utf-8")
        elif switch is Switch.off:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"cannot change {path}: {error.strerror}. Use an environment of your own.") from error
    names = ", ".join(NAMES)
    emit(f"{names}: served by Proveout ({path})" if path.exists() else f"{names}: not served; proveout compat on")
    return 0


def text(packages: Path) -> str:
    """What Python is to do when it starts; nothing once Proveout is gone."""
    there = f"os.path.isdir({str(packages)!r})"
    return f"{packages}\nimport os; {there} and __import__({TORCH_NEURON!r})\n"


def _refuse_beside_real() -> None:
    real = [name for name in NAMES if compat.is_installed(name)]
    if real:
        raise EnvironmentFault(
            f"{' and '.join(real)} {'is' if len(real) == 1 else 'are'} installed here, and stays what it is. "
            "Uninstall it, or use another environment."
        )

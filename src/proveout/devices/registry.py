"""Finds devices by name. Listing and checking names imports no torch; only opening a device does."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from proveout.chip.specs import CHIPS
from proveout.errors import EnvironmentFault, unknown
from proveout.program import Device
from proveout.types import DeviceSpec

GROUP = "proveout.devices"


@dataclass(frozen=True)
class DeviceInfo:
    """One line of `proveout devices`."""

    name: str
    description: str
    times: str
    """`modelled` or `measured`: what kind its device times are."""
    target: str
    """The profile that Programs are compiled for: `ttnn` or `torch`."""
    spec: DeviceSpec | None
    opener: Callable[[], Device] | None
    reason: str = ""
    """Why it cannot be used here; empty when it can."""

    @property
    def available(self) -> bool:
        return self.opener is not None


def _builtin(module: str, attribute: str, *args: Any) -> Callable[[], Device]:
    def make() -> Device:
        device: Device = getattr(importlib.import_module(module), attribute)(*args)
        return device

    return make


def devices() -> dict[str, DeviceInfo]:
    """Every device by its full name, built-ins first."""
    found = {
        f"sim:{chip}": DeviceInfo(
            f"sim:{chip}",
            f"embedded software model of a Tenstorrent {chip} ({spec.arch})",
            "modelled",
            "ttnn",
            spec,
            _builtin("proveout.devices.sim", "Sim", chip),
        )
        for chip, spec in CHIPS.items()
    }
    for mode, meaning in (("eager", "torch kernel by kernel"), ("inductor", "compiled by Inductor")):
        name = "cpu" if mode == "eager" else f"cpu:{mode}"
        opener = _builtin("proveout.devices.host", "Cpu", mode)
        found[name] = DeviceInfo(name, f"this machine's CPU, {meaning}", "measured", "torch", None, opener)
    for mock in (None, *MOCKED):
        found[f"ttnn:mock-{mock}" if mock else "ttnn"] = _real(mock)
    for entry in metadata.entry_points(group=GROUP):
        found[entry.name] = _plugin(entry)
    return found


MOCKED = ("n150", "p150")
MOCK = "TT_METAL_MOCK_CLUSTER_DESC_PATH"
"""Where ttnn reads which chip to mock."""


def _real(mock: str | None) -> DeviceInfo:
    """Tenstorrent's own runtime."""
    name = f"ttnn:mock-{mock}" if mock else "ttnn"
    what = f"ttnn's mock {mock}: calls are checked, nothing is computed" if mock else "a Tenstorrent card, through ttnn"
    reason = _missing_ttnn(mock)
    opener = None if reason else _builtin("proveout.devices.ttnn", "Ttnn", mock)
    return DeviceInfo(name, what, "measured", "ttnn", CHIPS[mock or "n150"], opener, reason)


def _missing_ttnn(mock: str | None) -> str:
    """Why ttnn, or its mock of a chip, cannot be used here; empty when it can."""
    if importlib.util.find_spec("ttnn") is None:
        return "the package ttnn is not installed (0.81.1 needs Python 3.12 on x86-64 Linux)"
    described = os.environ.get(MOCK, "")
    if mock is not None:
        return "" if mock in Path(described).name else f"{MOCK} does not name a description of a mock {mock}"
    if described:
        return f"{MOCK} is set, so ttnn opens its mock chip: use 'ttnn:mock-n150' or 'ttnn:mock-p150'"
    return "" if Path("/dev/tenstorrent").exists() else "there is no Tenstorrent card in this machine"


def _plugin(entry: metadata.EntryPoint) -> DeviceInfo:
    """A device from another package: its entry point is a function that returns a DeviceInfo."""
    try:
        info: DeviceInfo = entry.load()()
    except (ImportError, AttributeError) as error:
        return DeviceInfo(entry.name, f"from {entry.value}", "measured", "torch", None, None, str(error))
    return info


ALIASES = {"sim": "sim:n150"}


def find(name: str) -> DeviceInfo:
    """The device a user named; raises UsageError or EnvironmentFault with the way out."""
    known = devices()
    info = known.get(ALIASES.get(name, name))
    if info is None:
        raise unknown("device", name, [*ALIASES, *known])
    if not info.available:
        raise EnvironmentFault(f"device {name!r} cannot be used here: {info.reason}.")
    return info


def info_of(device: Device) -> DeviceInfo:
    """The line for an open device, also for a modelled chip that its user described as data."""
    known = devices().get(device.name)
    if device.spec is None or (known is not None and known.spec == device.spec):
        return find(device.name)
    what = f"embedded software model of a chip given as data ({device.spec.arch})"
    return DeviceInfo(device.name, what, "modelled", "ttnn", device.spec, lambda: device)


def open_device(name: str = "sim") -> Device:
    """Open a device by the name users type: `sim`, `sim:p150`, `cpu` …"""
    info = find(name)
    assert info.opener is not None
    return info.opener()

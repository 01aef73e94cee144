"""Finds devices by name. Listing and checking names imports no torch; only opening a device does."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from proveout import compat
from proveout.chip.specs import CHIPS
from proveout.errors import EnvironmentFault, unknown
from proveout.program import Device
from proveout.types import OF_A_CHIP, DeviceSpec, Settings

GROUP = "proveout.devices"
Times = Literal["measured", "modelled", "none"]


@dataclass(frozen=True)
class DeviceInfo:
    """One line of `proveout devices`, and all that the rest of the house asks about a device."""

    name: str
    description: str
    times: Times
    """What kind its device times are; `none` where nothing is computed, so that there are none."""
    target: str
    """The profile that Programs are compiled for: `ttnn` or `torch`."""
    spec: DeviceSpec | None
    opener: Callable[[], Device] | None
    reason: str = ""
    """Why it cannot be used here; empty when it can."""
    alias: str = ""
    """A shorter name for it."""
    shared: bool = False
    """Whether several Jobs can use it at once, each on cores of its own."""
    numerics: bool = False
    """Whether `settings.numerics` says how it computes."""
    bare: bool = False
    """Whether `proveout.benchmark` runs a model on it as it is; everywhere else it is compiled first."""
    precisions: tuple[str, ...] = ("model", "bfloat16")
    """The values of `settings.precision` that it takes."""
    formats: tuple[str, ...] = ("same", "bfloat16", "bfloat8_b", "bfloat4_b")
    """The values of `settings.weights` that it takes."""
    claims: str = ""
    """What a Job takes for itself on a node of a cluster, besides a core: `GPU`, or a custom resource such
    as `chip`, which a node with Tenstorrent chips offers: ray start --resources '{"chip": 4}'."""

    @property
    def available(self) -> bool:
        return self.opener is not None

    @property
    def times_words(self) -> str:
        """What its times are, as a sentence."""
        return "It has no times" if self.times == "none" else f"Times are {self.times}"

    @property
    def is_gpu(self) -> bool:
        return self.claims == "GPU"

    @property
    def family(self) -> str:
        """What its name has in common with its variants': `sim` of `sim:n150`."""
        return self.name.partition(":")[0]


DEFAULT, DEFAULT_CHIP = "sim", "n150"
"""The device where none is named, and the chip that it models."""
HOST = "cpu"
"""The device that other runtimes and references run on."""


def builtin() -> Iterator[DeviceInfo]:
    """The devices that come with Proveout. One more is one more entry here, and nothing else."""
    for chip, spec in CHIPS.items():
        yield DeviceInfo(
            f"sim:{chip}",
            f"embedded software model of a Tenstorrent {chip} ({spec.arch})",
            times="modelled",
            target="ttnn",
            spec=spec,
            opener=_builtin("proveout.devices.sim", "Sim", chip),
            alias=DEFAULT if chip == DEFAULT_CHIP else "",
            shared=True,
            numerics=True,
        )
    for mode, meaning in (("eager", "torch kernel by kernel"), ("inductor", "compiled by Inductor")):
        yield DeviceInfo(
            HOST if mode == "eager" else f"{HOST}:{mode}",
            f"this machine's CPU, {meaning}",
            times="measured",
            target="torch",
            spec=None,
            opener=_builtin("proveout.devices.host", "Cpu", mode),
            shared=True,
            bare=mode == "eager",
            formats=("same",),
        )
    yield _gpu("cuda", "our kernels, Inductor for the rest")
    yield _gpu("cuda:eager", "our kernels, torch kernel by kernel for the rest")
    for mock in (None, *MOCKED):
        yield _real(mock)


def _builtin(module: str, attribute: str, *args: Any) -> Callable[[], Device]:
    def make() -> Device:
        device: Device = getattr(importlib.import_module(module), attribute)(*args)
        return device

    return make


def devices() -> dict[str, DeviceInfo]:
    """Every device by its full name, built-ins first."""
    known = {info.name: info for info in builtin()}
    return known | {info.name: info for info in map(_plugin, _entries(tuple(sys.path)))}


@functools.lru_cache(maxsize=8)
def _entries(path: tuple[str, ...]) -> tuple[metadata.EntryPoint, ...]:
    """Other packages' devices; reading every installed package's file for them takes longer than a small compile."""
    return tuple(metadata.entry_points(group=GROUP))


def _gpu(name: str, meaning: str) -> DeviceInfo:
    """An NVIDIA GPU. Whether there is one is told by its driver's files, without importing torch."""
    mode = name.partition(":")[2]
    reason = "" if any(map(os.path.exists, GPU_FILES)) else "there is no NVIDIA GPU in this machine"
    if not reason and importlib.util.find_spec("triton") is None:
        reason = "the package triton is not installed (it comes with PyTorch's CUDA builds)"
    return DeviceInfo(
        name,
        f"an NVIDIA GPU, {meaning}",
        times="measured",
        target="torch",
        spec=None,
        opener=None if reason else _builtin("proveout.devices.cuda", "Cuda", *((mode,) if mode else ())),
        reason=reason,
        alias="" if mode else "gpu",
        bare=not mode,
        precisions=("model", "bfloat16", "float16", "tf32"),
        formats=("same", "int8", "float8"),
        claims="GPU",
    )


GPU_FILES = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")
"""Any of these is there where the driver is; the last one on Windows' Linux."""
MOCKED = ("n150", "p150")
MOCK = "TT_METAL_MOCK_CLUSTER_DESC_PATH"
"""Where ttnn reads which chip to mock."""


def _real(mock: str | None) -> DeviceInfo:
    """Tenstorrent's own runtime."""
    name = f"ttnn:mock-{mock}" if mock else "ttnn"
    what = f"ttnn's mock {mock}: calls are checked, nothing is computed" if mock else "a Tenstorrent card, through ttnn"
    reason = _missing_ttnn(mock)
    opener = None if reason else _builtin("proveout.devices.ttnn", "Ttnn", mock)
    return DeviceInfo(
        name,
        what,
        times="none" if mock else "measured",
        target="ttnn",
        spec=CHIPS[mock or "n150"],
        opener=opener,
        reason=reason,
        shared=mock is not None,
        claims="" if mock else "chip",
    )


def _missing_ttnn(mock: str | None) -> str:
    """Why ttnn, or its mock of a chip, cannot be used here; empty when it can."""
    if not compat.is_installed("ttnn"):
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
        info = entry.load()()
        if isinstance(info, DeviceInfo):
            return info
        reason = f"it gives a {type(info).__name__}, not a DeviceInfo"
    except Exception as error:  # a stranger's code: whatever it raises, the other devices are there
        reason = f"{type(error).__name__}: {error}"
    return DeviceInfo(entry.name, f"from {entry.value}", "measured", "torch", None, None, reason)


def find(name: str) -> DeviceInfo:
    """The device a user named; raises UsageError or EnvironmentFault with the way out."""
    info = _named(name, known := devices())
    if info is None:
        raise unknown("device", name, device_names(known))
    if not info.available:
        raise EnvironmentFault(f"device {name!r} cannot be used here: {info.reason}.")
    return info


def settings_for(device: str, chosen: Settings | Mapping[str, Any] | None = None, *, live: bool = False) -> Settings:
    """The settings that a target starts with, with what its user chose; whole Settings are taken as they are.

    A proof on a chip is in bfloat16, which chips compute in; on anything else it is in the model's own precision. So is
    a `live` model, whose outputs its user's program goes on with: what `proveout.compile`, `torch.compile` and workers
    of a benchmark under load call.
    """
    if isinstance(chosen, Settings):
        return chosen
    if live:
        return Settings.of(None if chosen is None else dict(chosen) if isinstance(chosen, Mapping) else chosen)
    info = describe(device) or find(device)  # it need not be here
    first = {"ttnn": OF_A_CHIP, "torch": Settings()}[info.target]
    return Settings.of({"precision": first.precision, **(chosen or {})})


@functools.cache
def describe(name: str) -> DeviceInfo | None:
    """What is known of a device that need not be here, such as one that a Record names: itself, or its family."""
    known = devices()
    info = _named(name, known)
    if info is not None:
        return info
    family = name.partition(":")[0]
    kin = next((info for info in known.values() if family in (info.family, info.alias)), None)
    return replace(kin, name=name, spec=None, opener=None, reason="it is not known here") if kin else None


def device_names(known: Mapping[str, DeviceInfo]) -> list[str]:
    """All that a user may type, short names first."""
    return [*(info.alias for info in known.values() if info.alias), *known]


def _named(name: str, known: Mapping[str, DeviceInfo]) -> DeviceInfo | None:
    return known.get(name) or next((info for info in known.values() if info.alias == name), None)


def info_of(device: Device) -> DeviceInfo:
    """The line for an open device, also for a modelled chip that its user described as data."""
    known = devices().get(device.name)
    if device.spec is None or (known is not None and known.spec == device.spec):
        return find(device.name)
    what = f"embedded software model of a chip given as data ({device.spec.arch})"
    return DeviceInfo(device.name, what, "modelled", "ttnn", device.spec, lambda: device, shared=True, numerics=True)


def open_device(name: str = DEFAULT) -> Device:
    """Open a device by the name users type: `sim`, `sim:p150`, `cpu` … Whoever opens it closes it."""
    info = find(name)
    assert info.opener is not None
    return info.opener()


def kept_device(name: str) -> Device:
    """The device of this process: opened when it is first needed, the same for all graphs, closed when it ends."""
    with _LOCK:
        full = find(name).name
        held = _OPEN.get(full)
        if held is None or held[0] != os.getpid():  # a forked child opens its own
            held = _OPEN[full] = (os.getpid(), open_device(name))
        return held[1]


def close_devices() -> None:
    """Close every device that this process keeps; the next use opens it again."""
    with _LOCK:
        while _OPEN:
            pid, device = _OPEN.popitem()[1]
            if pid == os.getpid():
                device.close()


_OPEN: dict[str, tuple[int, Device]] = {}
"""By full name: who opened it, and the device."""
_LOCK = threading.RLock()
atexit.register(close_devices)

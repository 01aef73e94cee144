"""MLAgility's devices and runtimes, and what each is here."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from proveout.cli.output import note
from proveout.devices.registry import HOST, devices, find
from proveout.errors import EnvironmentFault, UsageError, unknown
from proveout.runtimes import RUNTIMES
from proveout.types import Runtime

RUNTIMES_OF = {"x86": ("ort", "torch-eager", "torch-compiled"), "nvidia": ("trt",), "groq": ("groq",)}
"""MLAgility's devices and the runtimes that each has; the first is its default."""
OURS: dict[str, Runtime] = {"ort": "ort", "torch-eager": "eager", "torch-compiled": "inductor"}
"""Its runtimes by our names."""
DEVICES = {"x86": HOST, "nvidia": "cuda"}


@dataclass(frozen=True)
class Target:
    """A device and what runs the model there, by our names."""

    device: str
    runtime: Runtime


def targets(device: str, runtimes: Sequence[str]) -> list[Target]:
    """What `--device` and `--runtime` mean, refused where this machine cannot do it."""
    names = [name.strip() for name in device.split(",")]
    chosen = [runtime for text in runtimes for runtime in text.split(",")]
    return [target for name in names for target in _of_device(name, chosen)]


def _of_device(name: str, runtimes: Sequence[str]) -> list[Target]:
    if name == "groq" or "groq" in runtimes:
        raise EnvironmentFault(
            "a GroqChip needs GroqFlow and Groq's own SDK, which Proveout does not drive. For a modelled accelerator:"
            " --device sim"
        )
    for runtime in runtimes:
        known = (*RUNTIMES_OF.get("x86" if name == HOST else name, ()), "proveout")
        ours = RUNTIMES if name in ("x86", HOST) else ()
        if runtime not in known and runtime not in ours:
            if runtime not in {one for listed in RUNTIMES_OF.values() for one in listed} | set(RUNTIMES):
                raise unknown("runtime", runtime, known)
            raise UsageError(f"runtime {runtime!r} is not for device {name!r}, which has {', '.join(known)}.")
    if "trt" in runtimes:
        raise EnvironmentFault(
            "--runtime trt needs NVIDIA's TensorRT, which Proveout does not drive. Leave it out: --device nvidia"
            " compiles the model for the GPU with kernels of our own."
        )
    place = _place(name)
    if not runtimes:
        return [Target(place, _default(name))]
    return [Target(place, OURS.get(runtime) or _own(runtime)) for runtime in dict.fromkeys(runtimes)]


def _own(name: str) -> Runtime:
    return next(known for known in RUNTIMES if known == name)


def _place(name: str) -> str:
    if name != "nvidia":
        return DEVICES.get(name, name)
    info = devices()["cuda"]
    if not info.available:
        raise EnvironmentFault(f"nvidia is device `cuda` here, and {info.reason}. For this machine's CPU: --device x86")
    return find("cuda").name


def _default(name: str) -> Runtime:
    """ONNX Runtime on the CPU, as MLAgility has it, where it is installed."""
    if name != "x86":
        return "proveout"
    missing = [package for package in RUNTIMES["ort"].needs if importlib.util.find_spec(package) is None]
    if missing:
        note(
            f"{' and '.join(missing)} not installed: our own compiler runs the models instead of ONNX Runtime."
            " For it: pip install 'proveout[onnx]'"
        )
    return "proveout" if missing else "ort"

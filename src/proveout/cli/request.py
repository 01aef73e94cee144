"""What the verbs that run models can be asked: their options as one dataclass, checked before any work."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from proveout.capture import How, resolve, with_labels
from proveout.capture.weights import CHOICES, check_weights
from proveout.cli.options import (
    All,
    CacheDir,
    Json,
    Labels,
    MaxDepth,
    MemoryLimit,
    NoNetwork,
    Sandbox,
    ScriptArgs,
    Scripts,
    SearchDir,
    Small,
    WeightsOption,
    device_names,
)
from proveout.devices.registry import DEFAULT, find, settings_for
from proveout.errors import UsageError
from proveout.limits import machine_memory, sandbox_reaches
from proveout.store import Store
from proveout.sweep import SweepPlan
from proveout.types import META, Do, Job, Limits, Runtime, Workload


class Rebuild(StrEnum):
    if_needed = "if_needed"
    always = "always"
    never = "never"


class Precision(StrEnum):
    model = "model"
    bfloat16 = "bfloat16"
    float16 = "float16"
    tf32 = "tf32"


PROCESSES = 256
"""At most, while a script is searched for models."""


@dataclass(frozen=True)
class SharedOptions:
    """The options that benchmark, check and compile share; each field is an option of all three."""

    scripts: Scripts = None
    all_scripts: All = False
    search_dir: SearchDir = None
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="D[,D]",
            help="Where to run; see `proveout devices`.",
            autocompletion=device_names,
        ),
    ] = DEFAULT
    precision: Annotated[
        Precision | None,
        typer.Option("--precision", help="[default: bfloat16 on sim, model on cpu]", show_default=False),
    ] = None
    pcc: Annotated[
        float | None,
        typer.Option("--pcc", metavar="MIN", help="Lowest PCC that passes [default: 0.99].", show_default=False),
    ] = None
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other compiler setting; may be repeated.",
            show_default=False,
        ),
    ] = None
    labels: Labels = None
    small: Small = False
    weights: WeightsOption = ""
    script_args: ScriptArgs = ""
    max_depth: MaxDepth = 0
    no_network: NoNetwork = False
    sandbox: Sandbox = False
    memory: MemoryLimit = None
    cache_dir: CacheDir = None
    rebuild: Annotated[Rebuild, typer.Option("--rebuild", help="Whether to make a Record that is there already.")] = (
        Rebuild.if_needed
    )
    timeout: Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for each model.")] = 600.0
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", min=1, metavar="N", help="Timed calls of each kind.", show_default=False),
    ] = None
    duration: Annotated[
        float | None,
        typer.Option(
            "--duration",
            min=0.1,
            metavar="S",
            help="Seconds of timed calls for each model, instead of --iterations [default: 5].",
            show_default=False,
        ),
    ] = None
    warmup: Annotated[int, typer.Option("--warmup", min=0, metavar="N", help="Calls before the timed ones.")] = 3
    jobs: Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="Models at once, each on own cores.")] = 1
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="On a Ray cluster: its address, or `auto`.", show_default=False),
    ] = None
    as_json: Json = False


DURATION_S = 5.0


def check(
    request: SharedOptions, do: tuple[Do, ...] = (), runtime: Runtime = "proveout", lean: bool = False
) -> SweepPlan:
    """What a request asks of each model; refuses what cannot be right before any process starts."""
    if request.ray is not None and request.jobs != 1:
        raise UsageError("--jobs is for this machine and --ray for a cluster; choose one.")
    if request.iterations and request.duration:
        raise UsageError("--iterations and --duration both say how long to time; keep one.")
    if request.weights == META and do != ("compile",):
        raise UsageError("--weights meta gives shapes without values, which nothing can run. Use: compile --dry-run")
    names = [name.strip() for name in request.device.split(",")]
    devices = list(dict.fromkeys(find(name).name for name in names))
    store = Store(request.cache_dir)
    store.check_writable()
    timed_s = 0.0 if request.iterations or "benchmark" not in do else request.duration or DURATION_S
    limits = limits_of(request)
    job = Job(
        Workload("", "", ""),
        do=do,
        iterations=request.iterations or 0,
        warmup=request.warmup,
        timeout_s=request.timeout,
        duration_s=timed_s,
        runtime=runtime,
        lean=lean,
    )
    how = How(request.script_args, request.small, request.max_depth, checked_weights(request.weights), limits)
    targets = tuple((device, settings_for(device, _chosen(request))) for device in devices)
    return SweepPlan(store, targets, job, how, request.rebuild.value)


def checked_weights(weights: str) -> str:
    """The choice, as a whole path where it is a folder: workers may stand elsewhere."""
    check_weights(weights)
    return weights if weights in CHOICES else os.path.abspath(os.path.expanduser(weights))


def limits_of(request: SharedOptions) -> Limits:
    if request.sandbox:
        cache = Store(request.cache_dir).folder
        if sandbox_reaches(cache, here := Path.cwd()):
            raise UsageError(
                f"--sandbox: its scripts may write below {here}, where the cache {cache} lies. Choose another with "
                "--cache-dir DIR, or another working folder."
            )
    most = round(request.memory * 2**30) if request.memory else round(0.9 * machine_memory())
    return Limits(most, PROCESSES, network=not request.no_network, sandbox=request.sandbox)


def chosen_scripts(
    scripts: Sequence[str] | None,
    search_dir: Sequence[str] | None,
    all_scripts: bool,
    labels: Sequence[str] | None,
) -> list[tuple[Path, tuple[str, ...]]]:
    """The scripts that a command line means; labels without any script are asked of all."""
    matches = resolve(scripts or [], search_dir or [], all_scripts or bool(labels and not scripts))
    return with_labels(matches, labels or [])


def takes_request(verb: Callable[..., int]) -> Callable[..., int]:
    """Give a verb `verb(request, **own options)` the options of a Request before its own."""
    hints = typing.get_type_hints(SharedOptions, include_extras=True)
    shared = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in dataclasses.fields(SharedOptions)
    ]
    own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

    def wrapper(**options: Any) -> int:
        request = SharedOptions(**{f.name: options.pop(f.name) for f in dataclasses.fields(SharedOptions)})
        return verb(request, **options)

    parameters = [*shared, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own)]
    wrapper.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapper.__doc__ = verb.__doc__
    return wrapper


def _chosen(request: SharedOptions) -> dict[str, Any]:
    """The settings that a user named."""
    chosen = dict(map(setting_of, request.overrides or ()))
    for name, value in (("precision", request.precision and request.precision.value), ("pcc", request.pcc)):
        if value is not None and name in chosen:
            raise UsageError(f"--{name} and --set {name}=… say the same thing twice; keep one.")
        if value is not None:
            chosen[name] = value
    return chosen


def setting_of(text: str) -> tuple[str, Any]:
    """`trace=true` as ("trace", True): a JSON value, `none`, or else the word itself; Settings judges it."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set takes KEY=VALUE, not {text!r}. For example: --set math_fidelity=HiFi2")
    value = value.strip()
    plain = {"none": "null", "true": "true", "false": "false"}.get(value.lower(), value)
    try:
        return name.strip(), json.loads(plain)
    except RecursionError:
        raise UsageError(f"--set {name.strip()}=… is nested too deeply to be a setting.") from None
    except ValueError:
        return name.strip(), value

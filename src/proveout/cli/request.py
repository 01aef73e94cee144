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

from proveout.errors import UsageError

if typing.TYPE_CHECKING:
    from proveout.capture import How
    from proveout.store import Store
    from proveout.types import Limits, Settings


class Rebuild(StrEnum):
    if_needed = "if_needed"
    always = "always"
    never = "never"


class Precision(StrEnum):
    model = "model"
    bfloat16 = "bfloat16"


DEFAULT_PRECISION = {"ttnn": Precision.bfloat16, "torch": Precision.model}
"""By the target profile of the device."""


def device_names(incomplete: str) -> list[str]:
    """What the shell offers after `--device`; the last of several is completed."""
    from proveout.devices.registry import ALIASES, devices

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in (*ALIASES, *devices()) if name.startswith(last)]


def corpus_names(incomplete: str) -> list[str]:
    """What the shell offers after `--search-dir`, besides folders."""
    from proveout.capture.scripts import corpus_names

    return [name for name in corpus_names() if name.startswith(incomplete)]


Scripts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT[::HASH]",
        help="Scripts, folders, globs; ::HASH picks single models.",
        show_default=False,
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every script of the search dirs, or of all corpora.")]
SearchDir = Annotated[
    list[str] | None,
    typer.Option(
        "--search-dir",
        metavar="DIR",
        help="Folder or corpus to find scripts in; may be repeated.",
        autocompletion=corpus_names,
        show_default=False,
    ),
]
ScriptArgs = Annotated[
    str,
    typer.Option("--script-args", metavar="ARGS", help="Arguments for the scripts, as one string.", show_default=False),
]
CacheDir = Annotated[
    str | None,
    typer.Option(
        "--cache-dir",
        metavar="DIR",
        help="Folder of the Records [default: ~/.cache/proveout].",
        show_default=False,
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--labels",
        metavar="KEY::VALUE",
        help="Only scripts with these labels; several keys must all fit.",
        show_default=False,
    ),
]
Small = Annotated[bool, typer.Option("--small", help="Models at laptop size, where a script has one.")]
WeightsOption = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="random|pretrained|DIR",
        help="What from_pretrained gives: seeded random weights, the real ones, or those in a folder.",
        show_default=False,
    ),
]
MaxDepth = Annotated[
    int, typer.Option("--max-depth", min=0, metavar="N", help="Take submodules so many calls deep as models too.")
]
NoNetwork = Annotated[bool, typer.Option("--no-network", help="Run scripts without a network.")]
Sandbox = Annotated[bool, typer.Option("--sandbox", help="Scripts write below the working folder only.")]
MemoryLimit = Annotated[
    float | None,
    typer.Option(
        "--memory",
        min=0.5,
        metavar="GIB",
        help="Memory for each process [default: nine tenths of the machine].",
        show_default=False,
    ),
]
PROCESSES = 256
"""At most, while a script is searched for models."""
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]


@dataclass(frozen=True)
class Request:
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
    ] = "sim"
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


@dataclass(frozen=True)
class Checked:
    """A Request that can be served: every name in it is known and the store can be written."""

    request: Request
    store: Store
    targets: tuple[tuple[str, Settings], ...]
    """(device, its settings)."""
    how: How
    duration_s: float
    """0 where a number of calls is asked for."""


def check(request: Request) -> Checked:
    """Refuse what cannot be right before any process starts."""
    from proveout.capture import How
    from proveout.devices.registry import ALIASES, find
    from proveout.store import Store

    if request.ray is not None and request.jobs != 1:
        raise UsageError("--jobs is for this machine and --ray for a cluster; choose one.")
    if request.iterations and request.duration:
        raise UsageError("--iterations and --duration both say how long to time; keep one.")
    names = [name.strip() for name in request.device.split(",")]
    devices = {ALIASES.get(name, name): find(name) for name in names}
    targets = tuple((name, _settings(request, info.target)) for name, info in devices.items())
    store = Store(request.cache_dir)
    store.check_writable()
    duration_s = 0.0 if request.iterations else request.duration or DURATION_S
    limits = limits_of(request.memory, request.no_network, request.sandbox)
    how = How(request.script_args, request.small, request.max_depth, checked_weights(request.weights), limits)
    return Checked(request, store, targets, how, duration_s)


def checked_weights(weights: str) -> str:
    """The choice, as a whole path where it is a folder: workers may stand elsewhere."""
    from proveout.capture.weights import check_weights

    check_weights(weights)
    return weights if weights in ("", "random", "pretrained") else os.path.abspath(os.path.expanduser(weights))


def limits_of(memory_gib: float | None, no_network: bool, sandbox: bool) -> Limits:
    from proveout.limits import machine_memory
    from proveout.types import Limits

    most = round(memory_gib * 2**30) if memory_gib else round(0.9 * machine_memory())
    return Limits(most, PROCESSES, network=not no_network, sandbox=sandbox)


def chosen_scripts(
    scripts: Sequence[str] | None,
    search_dir: Sequence[str] | None,
    all_scripts: bool,
    labels: Sequence[str] | None,
) -> list[tuple[Path, tuple[str, ...]]]:
    """The scripts that a command line means; labels without any script are asked of all."""
    from proveout.capture import resolve, with_labels

    found = resolve(scripts or [], search_dir or [], all_scripts or bool(labels and not scripts))
    return with_labels(found, labels or [])


def takes_request(verb: Callable[..., int]) -> Callable[..., int]:
    """Give a verb `verb(request, **own options)` the options of a Request before its own."""
    hints = typing.get_type_hints(Request, include_extras=True)
    shared = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in dataclasses.fields(Request)
    ]
    own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

    def wrapper(**given: Any) -> int:
        request = Request(**{f.name: given.pop(f.name) for f in dataclasses.fields(Request)})
        return verb(request, **given)

    parameters = [*shared, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own)]
    wrapper.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapper.__doc__ = verb.__doc__
    return wrapper


def _settings(request: Request, target: str) -> Settings:
    from proveout.types import Settings

    chosen = dict(map(_override, request.overrides or ()))
    for name, value in (("precision", request.precision and request.precision.value), ("pcc", request.pcc)):
        if value is not None and name in chosen:
            raise UsageError(f"--{name} and --set {name}=… say the same thing twice; keep one.")
        if value is not None:
            chosen[name] = value
    return Settings.of({"precision": DEFAULT_PRECISION[target].value} | chosen)


def _override(text: str) -> tuple[str, Any]:
    """`trace=true` as ("trace", True): a JSON value, `none`, or else the word itself; Settings judges it."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set takes KEY=VALUE, not {text!r}. For example: --set math_fidelity=HiFi2")
    value = value.strip()
    plain = {"none": "null", "true": "true", "false": "false"}.get(value.lower(), value)
    try:
        return name.strip(), json.loads(plain)
    except ValueError:
        return name.strip(), value

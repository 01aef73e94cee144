"""NeuronPerf's `compile`: a model for each of its inputs, pipeline sizes and casts, and an index of what came of it."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proveout.clock.loops import Arguments, as_arguments
from proveout.compat.neuronperf import logs, model_index
from proveout.devices.registry import DEFAULT, devices, find
from proveout.errors import ProveoutError, UsageError, unknown
from proveout.measure import files
from proveout.measure.grid import counts
from proveout.measure.inputs import DatasetOptions, Inputs, input_sets
from proveout.measure.models import model_of

log = logging.getLogger("neuronperf.benchmarking")

CASTS: dict[str, dict[str, Any]] = {
    "none": {"math_fidelity": "HiFi4"},
    "matmult": {"weights": "bfloat16"},
    "all": {"precision": "bfloat16"},
}
"""Neuron's casts as settings of our compiler: nothing, the weights of products and convolutions, or every float."""
SPELLINGS = {
    "fp32-cast-matmult": "matmult",
    "fp32-cast-matmult-bf16": "matmult",
    "fp32-cast-all": "all",
    "fp32-cast-all-bf16": "all",
    "bfloat16": "all",
    "model": "none",
}
LEVELS: tuple[dict[str, Any], ...] = (
    {"math_fidelity": "HiFi4"},
    {"precision": "bfloat16", "math_fidelity": "HiFi4"},
    {"precision": "bfloat16", "math_fidelity": "HiFi2"},
    {"precision": "bfloat16", "math_fidelity": "LoFi", "weights": "bfloat8_b"},
)
"""Performance levels from 0, the most accurate, to 3, the quickest."""
TARGETS = ("inf1", "inf2", "trn1", "trn1n", "trn2", "trn3")
"""Amazon's chips, which are not modelled here."""
PIPELINE_CORES, FAST_MATH, AUTO_CAST = "--neuroncore-pipeline-cores", "--fast-math", "--auto-cast"


@dataclass(frozen=True)
class Variant:
    """One model of an index to be."""

    input_idx: int
    inputs: Inputs
    pipeline_size: int
    cast_mode: str | None
    performance_level: int | None

    @property
    def words(self) -> str:
        cast = f", cast mode {self.cast_mode}" if self.cast_mode is not None else ""
        level = f", performance level {self.performance_level}" if self.performance_level is not None else ""
        chips = f"{self.pipeline_size} chip{'' if self.pipeline_size == 1 else 's'}"
        return f"batch size {self.inputs.batch_size} for {chips}{cast}{level}"

    @property
    def settings(self) -> dict[str, Any]:
        cast = {} if self.cast_mode is None else CASTS[_cast(self.cast_mode)]
        return ({} if self.performance_level is None else LEVELS[self.performance_level]) | cast

    @property
    def fields(self) -> dict[str, Any]:
        fields = {"cast_mode": self.cast_mode, "performance_level": self.performance_level}
        return {
            "input_idx": self.input_idx,
            "batch_size": self.inputs.batch_size,
            "pipeline_size": self.pipeline_size,
            **{name: value for name, value in fields.items() if value is not None},
        }


def compile_index(
    model: Any,
    inputs: Any,
    batch_sizes: int | Sequence[int] | None = None,
    pipeline_sizes: int | Sequence[int] | None = None,
    performance_levels: int | Sequence[int] | None = None,
    models_dir: str | Path = "models",
    filename: str | None = None,
    compiler_args: Mapping[str, Any] | None = None,
    verbosity: int = 1,
    *,
    cast_modes: str | Sequence[str] | None = None,
    compiler_target: str | None = None,
    device_type: str | None = None,
    settings: Mapping[str, Any] | None = None,
    model_name: str | None = None,
) -> str:
    """Compile a model for each of its inputs, pipeline sizes and casts; gives the file name of a model index, which
    `benchmark` takes. What cannot be compiled is told and left out; if that is everything, the error is raised."""
    logs.set_verbosity(verbosity)
    target_device = _device(compiler_target, device_type)
    settings, sizes, casts = _flags(compiler_args or {}, settings or {}, pipeline_sizes, cast_modes)
    chosen = model_of(model, model_name or "")
    module = chosen.made()
    if hasattr(module, "eval"):
        module.eval()
    said: Mapping[str, Any] = settings

    def build(variant: Variant, folder: Path, name: str) -> tuple[Any, dict[str, Any]]:
        device = target_device or _default_device(variant.pipeline_size)
        call = as_arguments(variant.inputs.value)
        path = _compiled(module, call, device, variant.pipeline_size, variant.settings | dict(said), folder / name)
        return path, {"device": device}

    variants = _variants(inputs, batch_sizes, sizes, casts, performance_levels)
    return _index(build, variants, chosen.name, models_dir, filename)


def compile(
    compile_fn: Any,
    model: Any = None,
    inputs: Any = None,
    batch_sizes: int | Sequence[int] | None = None,
    pipeline_sizes: int | Sequence[int] | None = None,
    performance_levels: int | Sequence[int] | None = None,
    models_dir: str | Path = "models",
    filename: str | None = None,
    compiler_args: Mapping[str, Any] | None = None,
    verbosity: int = 1,
    *,
    cast_modes: str | Sequence[str] | None = None,
    model_name: str | None = None,
    **more: Any,
) -> str:
    """NeuronPerf's generic `compile`: `compile_fn(model, inputs, models_dir, model_name, compiler_args=…, **more)`
    compiles each variant and gives the file that it left."""
    logs.set_verbosity(verbosity)
    if not callable(compile_fn) or inputs is None:
        raise UsageError(
            "compile takes a compile_fn, a model and inputs; a framework's own is neuronperf.torch.compile."
        )
    name = model_name or (model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__))

    def build(variant: Variant, folder: Path, called: str) -> tuple[Any, dict[str, Any]]:
        arguments = dict(compiler_args or {})
        if variant.pipeline_size > 1:
            arguments[PIPELINE_CORES] = str(variant.pipeline_size)
        if variant.performance_level is not None or variant.cast_mode is not None:
            arguments[FAST_MATH] = variant.cast_mode or variant.performance_level
        folder.mkdir(parents=True, exist_ok=True)
        return compile_fn(model, variant.inputs.value, str(folder), called, compiler_args=arguments, **more), {}

    variants = _variants(inputs, batch_sizes, pipeline_sizes, cast_modes, performance_levels)
    return _index(build, variants, Path(str(name)).name, models_dir, filename)


Build = Callable[[Variant, Path, str], tuple[Any, dict[str, Any]]]


def _index(
    build: Build,
    variants: Iterator[Variant],
    model_name: str,
    models_dir: str | Path,
    filename: str | None,
) -> str:
    entries: list[model_index.Index] = []
    failures: list[Exception] = []
    every = list(variants)
    for number, variant in enumerate(every, 1):
        log.info("Compiling %s. [%d/%d]", variant.words, number, len(every))
        began = time.monotonic()
        name = f"{model_name}_b{variant.inputs.batch_size}_p{variant.pipeline_size}_{secrets.token_hex(4)}"
        try:
            path, more = build(variant, Path(models_dir), name)
        except Exception as error:  # a user's compile_fn raises what it likes; the other variants are still wanted
            failures.append(error)
            log.error("Not compiled: %s: %s", variant.words, error)
            if not isinstance(error, ProveoutError):
                log.debug("Its traceback:", exc_info=error)
            continue
        seconds = round(time.monotonic() - began, 3)
        entries.append(model_index.create(path, model_name=model_name, compile_s=seconds, **variant.fields, **more))
    if not entries:
        raise failures[0]
    return model_index.save(model_index.append(*entries), filename)


def _variants(
    inputs: Any,
    batch_sizes: int | Sequence[int] | None,
    pipeline_sizes: int | Sequence[int] | None,
    cast_modes: str | Sequence[str] | None,
    performance_levels: int | Sequence[int] | None,
) -> Iterator[Variant]:
    sets = input_sets(inputs, batch_sizes, preprocessed=False, options=DatasetOptions(), batch_first=False)
    sizes = counts("pipeline_sizes", pipeline_sizes, (1,))
    levels = _listed(performance_levels)
    for level in levels:
        if level not in (None, *range(len(LEVELS))):
            raise UsageError(f"performance level {level!r}: give 0 (most accurate) to {len(LEVELS) - 1} (quickest).")
    casts = _listed(cast_modes)
    for cast in casts:
        if cast is not None:
            _cast(cast)
    for (number, example), size in itertools.product(enumerate(sets), sizes):
        for level, cast in itertools.product(levels, casts):
            yield Variant(number, example, size, cast, level)


def _listed(value: Any) -> list[Any]:
    """A list parameter, which also takes one value; [None] where nothing is asked for."""
    if isinstance(value, list | tuple):
        return list(value) or [None]
    return [value]


def _cast(name: str) -> str:
    mode = SPELLINGS.get(str(name).lower(), str(name).lower())
    if mode not in CASTS:
        raise unknown("cast mode", name, [*CASTS, *SPELLINGS])
    return mode


def _compiled(source: Any, call: Arguments, device: str, chips: int, settings: dict[str, Any], path: Path) -> Path:
    # Not at the top: they import torch.
    from proveout.engine.compiled import compile as compiled
    from proveout.measure.pipeline import pipelined, save_pipeline

    module = files.compilable(source, call)
    if chips > 1:
        _check_chips(device, chips)
        return save_pipeline(pipelined(module, call, device, chips, settings), path)
    return compiled(module, device=device, settings=settings or None, call=call).save(path)


def _check_chips(device: str, chips: int) -> None:
    spec = find(device).spec
    if spec is None or spec.chips < chips:
        most = max((d.spec.chips for d in devices().values() if d.spec is not None), default=1)
        raise UsageError(
            f"a pipeline of {chips} chips on {device!r}, which has {spec.chips if spec else 'none'}: the largest card "
            f"that is modelled has {most}, sim:n300."
        )


def _device(target: str | None, device_type: str | None) -> str | None:
    """What is compiled for: a card by any of its names; one of Amazon's is told and stays the default."""
    if target is None or target.lower() in TARGETS:
        if target is not None:
            log.warning(
                "There is no %s here: compiled for %s. Name another card with compiler_target, such as n300.",
                target,
                device_type or DEFAULT,
            )
        return None if device_type is None else find(device_type).name
    names = {name.partition(":")[2]: name for name, info in devices().items() if info.times == "modelled"}
    return find(names.get(target, target)).name


def _default_device(chips: int) -> str:
    """The default card, or the smallest that has enough chips."""
    fitting = [i for i in devices().values() if i.times == "modelled" and i.spec is not None and i.spec.chips >= chips]
    if chips == 1 or not fitting:
        return find(DEFAULT).name
    return min(fitting, key=lambda info: info.spec.chips if info.spec else 0).name


def _flags(
    compiler_args: Mapping[str, Any],
    settings: Mapping[str, Any],
    pipeline_sizes: int | Sequence[int] | None,
    cast_modes: str | Sequence[str] | None,
) -> tuple[dict[str, Any], int | Sequence[int] | None, str | Sequence[str] | None]:
    """Neuron's compiler flags that mean something here, and settings of ours by name; others are told and left out."""
    from proveout.types import Settings

    own: dict[str, Any] = dict(settings)
    for flag, value in compiler_args.items():
        if flag == PIPELINE_CORES and pipeline_sizes is None:
            pipeline_sizes = int(value)
        elif flag in (FAST_MATH, AUTO_CAST) and cast_modes is None and _known_cast(value):
            cast_modes = str(value)
        elif flag in Settings.__dataclass_fields__:
            own[flag] = value
        else:
            log.warning("The compiler has no %s: left out.", flag)
    return own, pipeline_sizes, cast_modes


def _known_cast(value: Any) -> bool:
    return SPELLINGS.get(str(value).lower(), str(value).lower()) in CASTS

"""`benchit benchmark`: MLAgility's main command."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from proveout.cache import entries
from proveout.cli.benchit import script_arguments, slurm
from proveout.cli.benchit.builds import leave
from proveout.cli.benchit.listing import Entry, documents, listing, of_results
from proveout.cli.benchit.targets import Target, targets
from proveout.cli.jobs import run
from proveout.cli.output import emit, emit_json, note
from proveout.cli.request import SharedOptions, chosen_scripts, takes_request
from proveout.cli.verbs import discover
from proveout.cli.verbs.benchmark import AnalyzeOnly, BuildOnly, LeanCache
from proveout.errors import UsageError
from proveout.folders import file_name
from proveout.store import Store
from proveout.sweep import Result
from proveout.types import Do

OPSET_VARIABLE = "MLAGILITY_ONNX_OPSET"
OPSETS = range(9, 24)
"""Versions of ONNX that PyTorch's two exporters write."""
GROQ = "--groq-compiler-flags, --groq-assembler-flags, --groq-num-chips and --groqview"

RuntimesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--runtimes",
        "--runtime",
        metavar="ort|torch-eager|torch-compiled",
        help="What runs the models; several may follow [default: ort on x86].",
        show_default=False,
    ),
]
Backend = Annotated[str, typer.Option("--backend", metavar="local", help="Where the device is: this machine.")]
Slurm = Annotated[bool, typer.Option("--use-slurm", help="Each script as a Slurm job.")]
Isolation = Annotated[
    bool, typer.Option("--process-isolation", help="Each model in a process of its own, as it always is.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Leave out scripts that were tried before, however it went.")]
ExportOnly = Annotated[bool, typer.Option("--export-only", help="Write the models as ONNX files; run nothing.")]
Opset = Annotated[
    int | None,
    typer.Option("--onnx-opset", metavar="N", help="Version of ONNX to export to.", show_default=False),
]
SequenceFile = Annotated[
    Path | None,
    typer.Option(
        "--sequence-file",
        "--sequence",
        metavar="FILE",
        help="A Python file whose get_sequence() gives the build's stages.",
        show_default=False,
    ),
]
Flags = Annotated[list[str] | None, typer.Option(metavar="FLAG", help="For GroqFlow; ignored.", show_default=False)]
Chips = Annotated[int | None, typer.Option(metavar="N", help="For GroqFlow; ignored.", show_default=False)]
View = Annotated[bool, typer.Option("--groqview", help="For GroqFlow; ignored.")]
Plugins = Annotated[list[str] | None, typer.Option("--plugins", metavar="NAME", help="None needed.", hidden=True)]


@takes_request
def verb(
    request: SharedOptions,
    runtimes: RuntimesOption = None,
    backend: Backend = "local",
    use_slurm: Slurm = False,
    process_isolation: Isolation = False,
    resume: Resume = False,
    analyze_only: AnalyzeOnly = False,
    build_only: BuildOnly = False,
    export_only: ExportOnly = False,
    onnx_opset: Opset = None,
    sequence_file: SequenceFile = None,
    lean_cache: LeanCache = False,
    groq_compiler_flags: Flags = None,
    groq_assembler_flags: Flags = None,
    groq_num_chips: Chips = None,
    groqview: View = False,
    plugins: Plugins = None,
) -> int:
    """Benchmark the models of scripts and ONNX files.

    Finds the models that each script calls and times them: on this machine's CPU with ONNX Runtime unless
    --device and --runtime say otherwise. `x86` is the CPU, `nvidia` a GPU; `proveout`'s own devices are
    taken too.

    \b
    Examples:
      benchit hello_world.py
      benchit models/selftest/*.py --runtimes ort torch-eager torch-compiled -d selftest_results
      benchit hello_world.py --export-only --onnx-opset 16
      benchit bert.py --search-dir transformers --script-args="--batch_size=8,--max_seq_length=128"
    """
    if plugins:
        raise UsageError(
            "--plugins is not needed: a device or runtime of another package is found by itself. See: proveout devices"
        )
    if groq_compiler_flags or groq_assembler_flags or groq_num_chips is not None or groqview:
        note(f"ignored: {GROQ} are for GroqFlow. A compiler's settings here: --set KEY=VALUE")
    request = dataclasses.replace(request, script_args=script_arguments(request.script_args))
    if analyze_only:
        return analyze(request)
    if backend != "local":
        raise UsageError(
            f"--backend {backend}: MLAgility's remote machines are reached through Groq's own log-in. For other"
            " machines: --ray ADDRESS, or --use-slurm"
        )
    wanted = targets(request.device, runtimes or [])
    opset = _opset(onnx_opset)
    if export_only or sequence_file:
        wanted = [Target(target.device, "ort") for target in wanted[:1]]
    if opset is not None and all(target.runtime != "ort" for target in wanted):
        note("--onnx-opset is for what is exported to ONNX: --runtime ort, or --export-only")
    if use_slurm and process_isolation:
        raise UsageError("--use-slurm and --process-isolation both say where each script runs; keep one.")
    if resume:
        request = _resumed(request)
        if not request.scripts:
            note("--resume: every script was tried before. Run it without --resume, or with another --cache-dir.")
            return 0
    if use_slurm:
        return slurm.run(request, sequence_file, runtimes or [], build_only, export_only, lean_cache, opset)
    do: tuple[Do, ...] = ("compile",) if build_only or export_only else ("check", "benchmark")
    built: Literal["export", "convert"] = "export" if export_only else "convert"
    results = []
    for target in wanted:
        results += run(
            dataclasses.replace(request, device=target.device),
            do,
            None if lean_cache or target.runtime != "ort" else Store(request.cache_dir).folder,
            runtime=target.runtime,
            lean=lean_cache,
            onnx_opset=opset if target.runtime == "ort" else None,
            onnx_build=None if lean_cache or sequence_file or target.runtime != "ort" else built,
            sequence=sequence_file,
        )
    if lean_cache:
        _make_lean(request, results)
    for result in results:
        if (record := result.record).job.workload.selector:
            leave(Store(request.cache_dir).folder, record)
    return show(request, results)


def show(request: SharedOptions, results: Sequence[Result]) -> int:
    """The models and what became of them; the exit code."""
    store = Store(request.cache_dir)
    failed = sum(result.failed for result in results)
    if request.as_json:
        emit_json({"verb": "benchmark", "cache": str(store.folder), "failed": failed, "records": documents(results)})
        return 1 if failed else 0
    models = of_results(results)
    for workload, record in models:
        if record is not None and not workload.selector:
            _emit_log(record.log)
    emit(listing(_beside_others(request, models, store.folder), store.folder))
    old = sum(result.from_cache for result in results)
    again = " (run again with --rebuild always)" if old else ""
    note(f"cache {store.folder}: {len(results) - old} new, {old} read{again}")
    if not failed:
        emit("The 'benchmark' command is complete.")
    return 1 if failed else 0


def _beside_others(request: SharedOptions, entries: list[Entry], cache: Path) -> list[Entry]:
    """With the models that a script has beside those that are named, as MLAgility lists them."""
    named = {(workload.script, workload.selector) for workload, _ in entries}
    models = discover.remembered(request, cache)
    return entries + [(model, None) for model in models if (model.script, model.selector) not in named]


def analyze(request: SharedOptions) -> int:
    """The models alone."""
    if request.as_json:
        return discover.show(request)
    discoveries = discover.look(request)
    for discovery in discoveries:
        _emit_log(discovery.log)
    emit(listing([(workload, None) for discovery in discoveries for workload in discovery.workloads]))
    for discovery in discoveries:
        if discovery.error:
            note(f"{discovery.script}: {discovery.error}")
    return 1 if any(map(discover.gave_nothing, discoveries)) else 0


def _emit_log(log: str) -> None:
    """What a script printed. A terminal is for the models; what is read by another program gets all."""
    if log and (os.environ.get("MLAGILITY_DEBUG") == "True" or not sys.stdout.isatty()):
        emit(log)


def _opset(opset: int | None) -> int | None:
    text = os.environ.get(OPSET_VARIABLE)
    if opset is None and text:
        if not text.isdecimal():
            raise UsageError(f"the variable {OPSET_VARIABLE} takes a version of ONNX, not {text!r}.")
        opset = int(text)
    if opset is not None and opset not in OPSETS:
        raise UsageError(f"--onnx-opset {opset}: PyTorch exports to the versions {OPSETS[0]} to {OPSETS[-1]}.")
    return opset


def _resumed(request: SharedOptions) -> SharedOptions:
    """The scripts that no Record in the cache is of."""
    tried = {entry.row.script for entry in entries(Store(request.cache_dir))}
    chosen = chosen_scripts(request.scripts, request.search_dir, request.all_scripts, request.labels)
    left = [
        f"{script}{'::' + ','.join(hashes) if hashes else ''}" for script, hashes in chosen if str(script) not in tried
    ]
    note(f"--resume: {len(chosen) - len(left)} of {len(chosen)} scripts were tried before")
    return dataclasses.replace(request, scripts=left, search_dir=None, all_scripts=False, labels=None)


def _make_lean(request: SharedOptions, results: Sequence[Result]) -> None:
    """Delete what earlier builds of these models left."""
    folder = Store(request.cache_dir).folder
    for result in results:
        clean_build(folder, result.record.job.workload.build_name)


def clean_build(cache: Path, name: str) -> list[Path]:
    """Delete a build's ONNX files; its folder too once it is empty."""
    folder = cache / file_name(name)
    gone = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".txt", ".yaml")]
    for path in gone:
        path.unlink(missing_ok=True)
    for path in sorted((p for p in folder.rglob("*") if p.is_dir()), reverse=True):
        if not any(path.iterdir()):
            path.rmdir()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return gone

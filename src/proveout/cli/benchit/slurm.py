"""`--use-slurm`: each script as a job of its own, submitted by `sbatch`; its Records are read from the cache."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from proveout.cache import entries
from proveout.cli.benchit.listing import listing
from proveout.cli.output import emit, emit_json, note
from proveout.cli.request import SharedOptions, chosen_scripts
from proveout.errors import EnvironmentFault
from proveout.store import Store, read_record

MEMORY = "--mem=128000"
"""What MLAgility asks for each job, unless the variable says that the cluster's default is to be taken."""
MEMORY_VARIABLE = "MLAGILITY_SLURM_USE_DEFAULT_MEMORY"
DOWNLOADS_VARIABLE = "SLURM_ML_CACHE"
DOWNLOADS = {"HF_HOME": "huggingface", "XDG_CACHE_HOME": "huggingface", "TORCH_HOME": "torch-hub"}
"""Where libraries keep what they download, below the folder that the variable names."""
MOST = 50
"""Jobs in the queue at once."""


def run(
    request: SharedOptions,
    sequence: Path | None,
    runtimes: Sequence[str],
    build_only: bool,
    export_only: bool,
    lean: bool,
    opset: int | None,
) -> int:
    """Submit, wait until all have ended, show what they left."""
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise EnvironmentFault(
            "--use-slurm submits jobs with `sbatch`, and there is none on the PATH. Run it on a machine of the"
            " cluster, or without Slurm: --jobs N here, --ray ADDRESS on other machines."
        )
    store = Store(request.cache_dir)
    if request.cache_dir is None:
        note(f"the jobs write to {store.folder}; name a folder that all nodes see: --cache-dir DIR")
    store.check_writable()
    scripts = chosen_scripts(request.scripts, request.search_dir, request.all_scripts, request.labels)
    folder = store.folder.absolute() / "slurm"
    folder.mkdir(parents=True, exist_ok=True)
    started = time.time()
    waiting: list[tuple[str, subprocess.Popen[str]]] = []
    for script, hashes in scripts:
        name = f"{script}{'::' + ','.join(hashes) if hashes else ''}"
        words = _words(request, name, store.folder.absolute(), sequence, runtimes, opset)
        words += [f"--{what}" for what, wanted in (("build-only", build_only), ("export-only", export_only)) if wanted]
        words += ["--lean-cache"] if lean else []
        job = folder / f"{script.stem}.sh"
        job.write_text(_job(words), encoding="utf-8")
        if len(waiting) >= MOST:
            waiting.pop(0)[1].wait()
        note(f"submitting {script.stem} to Slurm")
        waiting.append((script.stem, _submit(sbatch, job, script.stem, request.timeout, folder)))
    refused = []
    for stem, process in waiting:
        _, said = process.communicate()
        if process.returncode:
            refused.append(stem)
            note(f"{stem}: sbatch ended with {process.returncode}. {' '.join(said.split())[:300]}")
    return _show(request, store, [str(script) for script, _ in scripts], started, refused)


def _words(
    request: SharedOptions, script: str, cache: Path, sequence: Path | None, runtimes: Sequence[str], opset: int | None
) -> list[str]:
    """The same command for one script."""
    words = ["benchmark", script, "--cache-dir", str(cache), "--device", request.device]
    words += ["--timeout", f"{request.timeout:g}", "--rebuild", request.rebuild.value, "--warmup", str(request.warmup)]
    words += [word for runtime in runtimes for word in ("--runtimes", runtime)]
    words += [f"--script-args={request.script_args}"] if request.script_args else []
    words += ["--max-depth", str(request.max_depth)] if request.max_depth else []
    words += ["--onnx-opset", str(opset)] if opset is not None else []
    words += ["--sequence-file", str(sequence.absolute())] if sequence else []
    words += ["--small"] if request.small else []
    words += ["--weights", request.weights] if request.weights else []
    words += ["--iterations", str(request.iterations)] if request.iterations else []
    words += ["--duration", f"{request.duration:g}"] if request.duration else []
    return words


def _job(words: Sequence[str]) -> str:
    """The script that Slurm runs: in this folder, by this Python."""
    lines = ["#!/usr/bin/env bash", f"cd {shlex.quote(os.getcwd())} || exit"]
    paths = [entry for entry in sys.path if entry and "site-packages" not in entry and Path(entry, "proveout").is_dir()]
    lines += [f"export PYTHONPATH={shlex.quote(os.pathsep.join(paths))}"] if paths else []
    downloads = os.environ.get(DOWNLOADS_VARIABLE)
    if downloads:
        lines += [f"export {name}={shlex.quote(str(Path(downloads, part)))}" for name, part in DOWNLOADS.items()]
    if os.environ.get("HUGGINGFACE_API_KEY"):
        lines.append('export HF_TOKEN="$HUGGINGFACE_API_KEY"')  # sbatch hands its own environment on
    lines.append(shlex.join([sys.executable, "-m", "proveout.cli.benchit", *words]))
    return "\n".join(lines) + "\n"


def _submit(sbatch: str, job: Path, name: str, timeout_s: float, folder: Path) -> subprocess.Popen[str]:
    minutes, seconds = divmod(int(timeout_s), 60)
    hours, minutes = divmod(minutes, 60)
    memory = [] if os.environ.get(MEMORY_VARIABLE) == "True" else [MEMORY]
    command = [sbatch, "--wait", "-c", "1", *memory, f"--time={hours:02}:{minutes:02}:{seconds:02}"]
    command += [f"--job-name={name}", f"--output={folder / name}-%j.out", str(job)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _show(request: SharedOptions, store: Store, scripts: Sequence[str], started: float, refused: Sequence[str]) -> int:
    """The Records of these scripts: those made since then, or else those that were there."""
    listed = [entry for entry in entries(store) if entry.row.script in scripts]
    fresh = [entry for entry in listed if entry.path.stat().st_mtime >= started - 1]
    shown = fresh or listed
    failed = len(refused) + sum(entry.row.status in ("failed", "partial") for entry in shown)
    if request.as_json:
        rows = [{**vars(entry.row), "file": str(entry.path)} for entry in shown]
        emit_json({"verb": "benchmark", "cache": str(store.folder), "failed": failed, "records": rows})
    else:
        records = [read_record(entry.path) for entry in shown]
        emit(listing([(record.job.workload, record) for record in records], store.folder))
    missing = sorted({Path(s).name for s in scripts} - {Path(entry.row.script).name for entry in listed})
    if missing:
        note(
            f"no Record yet of {', '.join(missing)} in {store.folder}: its jobs' output is in {store.folder / 'slurm'};"
            " later: benchit cache list"
        )
    return 1 if failed else 0

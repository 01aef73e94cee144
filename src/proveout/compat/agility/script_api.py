"""`benchmark_script`: what `benchit benchmark` does, with arguments for options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proveout.cli import invoke
from proveout.compat.onnxflow.filesystem import DEFAULT_CACHE_DIR
from proveout.errors import UsageError


def benchmark_script(
    input_scripts: str | Sequence[str],
    use_slurm: bool = False,
    process_isolation: bool = False,
    lean_cache: bool = False,
    cache_dir: str = DEFAULT_CACHE_DIR,
    labels: Sequence[str] | None = None,
    rebuild: str | None = None,
    device: str | None = None,
    backend: str = "local",
    runtimes: Sequence[str] | None = None,
    analyze_only: bool = False,
    build_only: bool = False,
    export_only: bool = False,
    resume: bool = False,
    script_args: str | None = None,
    max_depth: int = 0,
    onnx_opset: int | None = None,
    sequence: Any = None,
    groq_compiler_flags: Sequence[str] | None = None,
    groq_assembler_flags: Sequence[str] | None = None,
    groq_num_chips: int | None = None,
    groqview: bool = False,
    iterations: int | None = None,
) -> None:
    """Find, build and time the models of scripts; the outcome is printed and kept in the cache."""
    if sequence is not None and not isinstance(sequence, str):
        raise UsageError(
            "benchmark_script takes a sequence as a file's path: each model is built in a process of its own."
        )
    files = [input_scripts] if isinstance(input_scripts, str) else list(input_scripts)
    words = ["benchmark", *files, "--cache-dir", str(cache_dir), "--backend", backend, "--max-depth", str(max_depth)]
    switches = {
        "use-slurm": use_slurm, "process-isolation": process_isolation, "lean-cache": lean_cache, "resume": resume,
        "analyze-only": analyze_only, "build-only": build_only, "export-only": export_only, "groqview": groqview,
    }  # fmt: skip
    words += [f"--{name}" for name, wanted in switches.items() if wanted]
    values = {
        "rebuild": rebuild, "device": device, "script-args": script_args, "onnx-opset": onnx_opset,
        "sequence-file": sequence, "groq-num-chips": groq_num_chips, "iterations": iterations,
    }  # fmt: skip
    words += [f"--{name}={value}" for name, value in values.items() if value is not None]
    several = {
        "labels": labels, "runtimes": runtimes, "groq-compiler-flags": groq_compiler_flags,
        "groq-assembler-flags": groq_assembler_flags,
    }  # fmt: skip
    words += [f"--{name}={value}" for name, listed in several.items() for value in listed or ()]
    invoke(words, "benchit")


benchmark_files = benchmark_script

__all__ = ["benchmark_files", "benchmark_script"]

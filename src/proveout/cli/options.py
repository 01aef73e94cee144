"""Options that several verbs take, each said once. Nothing here needs more than typer, so that any verb may."""

from __future__ import annotations

from typing import Annotated

import typer


def device_names(incomplete: str) -> list[str]:
    """What the shell offers after `--device`; the last of several is completed."""
    from proveout.devices import registry

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in registry.device_names(registry.devices()) if name.startswith(last)]


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
        help="Only scripts with these labels; all must match.",
        show_default=False,
    ),
]
Small = Annotated[bool, typer.Option("--small", help="Models at laptop size, where a script has one.")]
WeightsOption = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="random|pretrained|meta|DIR",
        help="What from_pretrained loads: seeded random weights, the real ones, shapes alone, or those in a folder.",
        show_default=False,
    ),
]
MaxDepth = Annotated[
    int, typer.Option("--max-depth", min=0, metavar="N", help="Also treat submodules as models, down to this depth.")
]
NoNetwork = Annotated[bool, typer.Option("--no-network", help="Run scripts without a network.")]
Sandbox = Annotated[bool, typer.Option("--sandbox", help="Scripts may write only below the working folder.")]
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
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]

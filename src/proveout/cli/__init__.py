"""The command line, one file a verb. Here verbs are found; errors become one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from proveout.cli import (
    benchmark,
    check,
    compile,
    devices,
    discover,
    export,
    ops,
    perf,
    query,
    report,
    run,
    trace,
    version,
)
from proveout.cli.output import emit_json, note
from proveout.errors import ProveoutError

VERBS: dict[str, Callable[..., int]] = {
    "benchmark": benchmark.verb,
    "report": report.verb,
    "compile": compile.verb,
    "check": check.verb,
    "export": export.verb,
    "perf": perf.verb,
    "discover": discover.verb,
    "query": query.verb,
    "ops": ops.verb,
    "run": run.verb,
    "trace": trace.verb,
    "devices": devices.verb,
    "version": version.verb,
}
"""In the order that `--help` lists them."""

NAMES = ("proveout", "benchit")
INTERRUPTED = 130
# typer brings its own copy of click or uses the installed one, depending on its version; this is the
# class either raises for a command line that cannot be parsed.
NotParsed: Any = typer.BadParameter.__base__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0 all passed, 1 some failed, 2 usage, 3 environment."""
    words = list(sys.argv[1:] if argv is None else argv)
    program = Path(sys.argv[0]).stem
    program = program if program in NAMES else NAMES[0]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ✓ shows ?, not a traceback

    def fail(message: str, code: int) -> int:
        if "--json" in words:
            emit_json({"error": message, "exit_code": code})
        else:
            note(f"{program}: error: {message}")
        return code

    try:
        code = _command()(args=_expand(words), prog_name=program, standalone_mode=False) or 0
    except ProveoutError as error:
        return fail(str(error), error.exit_code)
    except NotParsed as error:
        where = error.ctx.command_path if error.ctx else program
        return fail(f"{error.format_message().rstrip('.')}. See: {where} --help", 2)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        return fail("interrupted; what was already written is kept.", INTERRUPTED)
    return int(code)


def _expand(words: list[str]) -> list[str]:
    """`proveout linear.py …` means `proveout benchmark linear.py …`; no words at all ask for help."""
    if not words:
        return ["--help"]
    return ["benchmark", *words] if words[0].partition("::")[0].endswith(".py") else words


def _command() -> Callable[..., Any]:
    # Without rich in typer itself, `--help` and start-up stay quick.
    app = typer.Typer(
        rich_markup_mode=None, pretty_exceptions_enable=False, context_settings={"max_content_width": 100}
    )
    app.callback()(_root)
    for name, verb in VERBS.items():
        app.command(name)(verb)
    return typer.main.get_command(app)


def _root() -> None:
    """Take a PyTorch model from eager mode to proven on an accelerator.

    \b
    proveout linear.py                    find, compile, check and time its models
    proveout compile --dry-run linear.py  which ops convert, and why others do not
    proveout report                       all results: table, HTML, Markdown, CSV

    Results are kept in a cache folder (`--cache-dir`, or the variable PROVEOUT_CACHE) and are not made
    twice. Exit codes: 0 all passed, 1 some failed, 2 usage, 3 environment.
    """

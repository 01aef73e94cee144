"""The command line, one file a verb. Here verbs are found; errors become one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
import typer.core

from proveout.cli import (
    app,
    benchmark,
    bringup,
    cache,
    check,
    compare,
    compile,
    devices,
    discover,
    export,
    models,
    ops,
    perf,
    query,
    recover,
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
    "compare": compare.verb,
    "export": export.verb,
    "perf": perf.verb,
    "app": app.verb,
    "bringup": bringup.verb,
    "discover": discover.verb,
    "models": models.verb,
    "query": query.verb,
    "cache": cache.verb,
    "recover": recover.verb,
    "ops": ops.verb,
    "run": run.verb,
    "trace": trace.verb,
    "devices": devices.verb,
    "version": version.verb,
}
"""In the order that `--help` lists them."""

FIRST = ("benchmark", "report", "compile", "bringup", "perf", "app")
"""What `--help` shows first; the rest is under *More*."""

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
    """`proveout linear.py …` means `proveout benchmark linear.py …`; no words at all ask for help.

    `--labels a::b c::d` means `--labels a::b --labels c::d`.
    """
    if not words:
        return ["--help"]
    spelled: list[str] = ["benchmark"] if words[0].partition("::")[0].endswith(SCRIPTS) else []
    labels = False
    for word in words:
        key, mark, _ = word.partition("::")
        labelled = bool(mark) and not word.startswith("-") and not key.endswith(SCRIPTS)
        if labels and labelled and spelled[-1] != "--labels":
            spelled.append("--labels")
        labels = word == "--labels" or (labels and labelled)
        spelled.append(word)
    return spelled


SCRIPTS = (".py", ".onnx")


class _TwoParts(typer.core.TyperGroup):
    """The verbs most people need first, the others under *More*."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = self.list_commands(ctx)
        parts = {
            "Commands": [name for name in FIRST if name in names],
            "More": [name for name in names if name not in FIRST],
        }
        for title, members in parts.items():
            commands = [(name, self.get_command(ctx, name)) for name in members]
            rows = [(name, command.get_short_help_str(formatter.width - 20)) for name, command in commands if command]
            with formatter.section(title):
                formatter.write_dl(rows)


def _command() -> Callable[..., Any]:
    # Without rich in typer itself, `--help` and start-up stay quick.
    app = typer.Typer(
        cls=_TwoParts,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"max_content_width": 100},
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

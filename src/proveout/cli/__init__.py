"""The command line, one file a verb. Here verbs are found; errors become one sentence and an exit code."""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from proveout.cli import benchit, verbs
from proveout.cli.output import emit, emit_json, note
from proveout.errors import EnvironmentFault, ProveoutError, of_a_disk

NAMES = ("proveout", BENCHIT := "benchit")
INTERRUPTED = 130
OWN_FAULT = 70
NEAR = 0.75
"""How alike an option is that is named for one that does not exist."""
# typer brings its own copy of click or uses the installed one, depending on its version; this is the
# class either raises for a command line that cannot be parsed.
NotParsed: Any = typer.BadParameter.__base__


def main(argv: Sequence[str] | None = None, program: str = "") -> int:
    """Run one command line and return its exit code: 0 all passed, 1 some failed, 2 usage, 3 environment.

    `program` is the name that it was called by, unless the process has it: `benchit` reads MLAgility's words.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    program = program or Path(sys.argv[0]).stem
    program = program if program in NAMES else NAMES[0]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ✓ shows ?, not a traceback

    def fail(message: str, code: int) -> int:
        message = _in_the_name_of(program, message)
        if "--json" in words:
            emit_json({"error": message, "exit_code": code})
        else:
            note(f"{program}: error: {message}")
        return code

    try:
        code = invoke(words, program)
    except ProveoutError as error:
        return fail(str(error), error.exit_code)
    except NotParsed as error:
        where = error.ctx.command_path if error.ctx else program
        near: list[str] = []
        if getattr(error, "possibilities", None):  # of its own it names --help for --html
            near = difflib.get_close_matches(error.option_name, error.possibilities, n=1, cutoff=NEAR)
            error.possibilities = None
        message = " ".join(error.format_message().split()).rstrip(".").replace(": Value error, ", ": ")
        message += f". Did you mean '{near[0]}'?" if near else ""
        return fail(f"{message}{'' if message.endswith('?') else '.'} See: {where} --help", 2)
    except OSError as error:
        disk = of_a_disk(error)
        said, code = (disk, EnvironmentFault.exit_code) if disk else (_own_fault(error), OWN_FAULT)
        return fail(f"{said} What was already written is kept.", code)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:  # a fault of ours, wherever it is: a sentence, and all of it in a file
        return fail(f"{_own_fault(error)} What was already written is kept.", OWN_FAULT)
    if code == INTERRUPTED:
        return fail("interrupted; what was already written is kept.", INTERRUPTED)
    return int(code)


def _own_fault(error: Exception) -> str:
    """A fault of Proveout itself in a sentence; the traceback goes to a file."""
    first = (str(error).strip().splitlines() or ["no message"])[0][:300]
    try:
        with tempfile.NamedTemporaryFile("w", prefix="proveout-fault-", suffix=".txt", delete=False) as file:
            file.write("".join(traceback.format_exception(error)))
        where = f"The details are in {file.name}"
    except OSError:
        where = f"It was raised at {traceback.extract_tb(error.__traceback__)[-1]}"
    return f"Proveout itself failed ({type(error).__name__}: {first}). {where}: please report them."


def invoke(words: Sequence[str], program: str = NAMES[0]) -> int:
    """Run one command line; what is wrong with it, or with this machine, is raised."""
    spelled = benchit.spelled(words) if program == BENCHIT else _expand(list(words))
    return _command(program)(args=spelled, prog_name=program, standalone_mode=False) or 0


def _in_the_name_of(program: str, text: str) -> str:
    """What we tell people to type, under the name that they typed."""
    for verb in verbs.names() if program != NAMES[0] else ():
        text = text.replace(f"{NAMES[0]} {verb}", f"{program} {verb}")
    return text


def _expand(words: list[str]) -> list[str]:
    """`proveout linear.py …` means `proveout benchmark linear.py …`, as do a folder and a list of scripts; no words
    at all ask for help.

    `--labels a::b c::d` means `--labels a::b --labels c::d`.
    """
    if not words:
        return ["--help"]
    first = words[0]
    scripts = first.partition("::")[0].endswith(SCRIPTS) or (os.path.isdir(first) and first not in verbs.names())
    spelled: list[str] = ["benchmark"] if scripts else []
    labels = False
    for word in words:
        key, mark, _ = word.partition("::")
        labelled = bool(mark) and not word.startswith("-") and not key.endswith(SCRIPTS)
        if labels and labelled and spelled[-1] != "--labels":
            spelled.append("--labels")
        labels = word == "--labels" or (labels and labelled)
        spelled.append(word)
    return spelled


SCRIPTS = (".py", ".onnx", ".txt")


class _Verbs(typer.core.TyperGroup):
    """The verbs most people need first, the others under *More*; a verb is imported when it is typed."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(verbs.names())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in verbs.names():
            return None
        app = typer.Typer(**PLAIN)
        theirs = ctx.info_name == BENCHIT and cmd_name in benchit.VERBS
        function = benchit.load(cmd_name) if theirs else verbs.function(cmd_name)
        app.command(cmd_name, help=_in_the_name_of(str(ctx.info_name), function.__doc__ or ""))(function)
        return typer.main.get_command(app)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in verbs.names():  # typer looks here for names like a misspelt one
            self.commands = {name: _described(name) for name in verbs.names()}
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = self.list_commands(ctx)
        parts = {
            "Commands": [name for name in names if name in verbs.FIRST],
            "More": [name for name in names if name not in verbs.FIRST],
        }
        for title, members in parts.items():
            rows = [(name, _described(name).get_short_help_str(formatter.width - 20)) for name in members]
            with formatter.section(title):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self.commands = {name: _described(name) for name in verbs.names() if name.startswith(incomplete)}
        return super().shell_complete(ctx, incomplete)


def _described(name: str) -> Any:
    """A command that has its help and nothing else."""
    return typer.core.TyperCommand(name, help=verbs.describe(name))


PLAIN: dict[str, Any] = {
    "rich_markup_mode": None,  # without rich in typer itself, `--help` and start-up stay quick
    "pretty_exceptions_enable": False,
    "add_completion": False,
    "context_settings": {"max_content_width": 100, "help_option_names": ["--help", "-h"]},
}


def _command(program: str) -> Callable[..., Any]:
    app = typer.Typer(cls=_Verbs, **{**PLAIN, "add_completion": True})
    app.callback(help=benchit.HELP if program == BENCHIT else _root.__doc__)(_root)
    return typer.main.get_command(app)


def _print_version(version: bool) -> None:
    if version:
        emit(f"proveout {metadata.version('proveout')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
]


def _root(version: Version = False) -> None:
    """Take a PyTorch model from eager mode to proven on an accelerator.

    \b
    proveout linear.py                    find, compile, check and time its models
    proveout compile --dry-run linear.py  which ops convert, and why others do not
    proveout report                       all results: table, HTML, Markdown, CSV

    Results are kept in a cache folder (`--cache-dir`, or the variable PROVEOUT_CACHE) and are not made
    twice. Exit codes: 0 all passed, 1 some failed, 2 usage, 3 environment.
    """

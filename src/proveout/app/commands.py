"""The command line, run for a page: `proveout …` in a process of its own, with limits, progress and its answer.

A page that starts Jobs types what a person would type, so that both get the same. Run as a program, this file is the
child's side: it takes the limits upon itself and becomes the command.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proveout.app.children import Child
from proveout.coding import from_json, to_json
from proveout.errors import ProveoutError
from proveout.limits import impose
from proveout.types import Limits

ANSWER = "answer.json"


@dataclass(frozen=True)
class CommandLine:
    """What to type, where, and how long it may take."""

    words: tuple[str, ...]
    """After `proveout`."""
    folder: str
    """The working folder."""
    timeout_s: float
    limits: Limits | None = None
    """On the whole command, for a verb without options for them."""
    outputs: tuple[str, ...] = ()
    """Folders that a command with limits may write to, beside the working folder."""

    def __str__(self) -> str:
        """As one types it in a terminal, in any folder."""
        return shlex.join(("proveout", *(word for word in self.words if word != "--json")))


class Command(Child):
    """A command under way. Its `--json` answer is read when it has ended; what it says meanwhile is its log."""

    def __init__(self, line: CommandLine) -> None:
        super().__init__("proveout.app.commands", stdin=json.dumps(to_json(line)), timeout_s=line.timeout_s)
        self.line = line
        self.start()

    def answer(self) -> dict[str, Any]:
        """What it printed as JSON; empty while it runs, and where it printed nothing that can be read."""
        if self.running:
            return {}
        try:
            answer = json.loads((self.folder / ANSWER).read_text())
        except (OSError, ValueError):
            return {}
        return answer if isinstance(answer, dict) else {}

    def now(self) -> str:
        """The last thing that it said."""
        return (self.log().strip().splitlines() or ["running"])[-1]

    def error(self) -> str:
        """Why there is no answer, in a sentence; empty where there is one or it still runs."""
        if self.running or self.outcome is None or self.stopped:
            return ""
        answer = self.answer()
        if "error" in answer:
            return str(answer["error"])
        return "" if answer else f"The command {self.outcome.story}."


def main(folder: Path) -> None:
    """Become the command whose line is on stdin; stdout goes to a file."""
    line = from_json(CommandLine, json.loads(sys.stdin.read()))
    answer = os.open(folder / ANSWER, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.chdir(line.folder)
    # The script of this command decides nothing about where our own modules come from.
    sources = str(Path(__file__).parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (sources, os.environ.get("PYTHONPATH"))))
    if line.limits is not None:
        scratch = str(folder)
        if line.limits.sandbox:
            os.environ["PROVEOUT_CACHE"] = scratch
        try:
            impose(line.limits, scratch=scratch, stopping=print, outputs=line.outputs)
        except ProveoutError as error:
            os.write(answer, json.dumps({"error": str(error)}).encode())
            return
    os.dup2(answer, 1)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "proveout", *line.words])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

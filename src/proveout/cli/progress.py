"""Progress on stderr: a live bar in a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from proveout.cli.output import note, shown
from proveout.columns.words import status_words
from proveout.sweep import Result
from proveout.words import counted

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """Says what is being done now and what has been done, out of how much; the whole may grow on the way."""

    def __init__(self, total: int = 0) -> None:
        self.total, self.done_so_far = total, 0
        self.scripts_left = 0
        self._now: list[str] = []
        self._bar = _bar() if sys.stderr.isatty() else None

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total or None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def start(self, what: str) -> None:
        self._now.append(what)
        self._describe()

    def step(self, what: str, line: str) -> None:
        """One of the whole is done."""
        self.done_so_far += 1
        if self._bar:
            self._bar.advance(self._task)
        more = "+" if self.scripts_left else ""
        self._end(what, f"[{self.done_so_far}/{self.total}{more}] {line}")

    # What a sweep tells:

    def expect(self, jobs: int, scripts_left: int) -> None:
        """The models known so far, and the scripts not looked at yet: about one each."""
        self.total, self.scripts_left = jobs, scripts_left
        if self._bar:
            self._bar.update(self._task, total=jobs + scripts_left)

    def found(self, what: str, script: Path, models: int, error: str) -> None:
        """A script without models is told when it is done, as a failure of its own."""
        line = f"{script.name}: {counted(models, 'model')}"
        self._end(what, f"{line}; {error}" if error and models else line)

    def done(self, what: str, result: Result, seconds: float) -> None:
        how = "from the cache" if result.from_cache else f"{seconds:.1f} s"
        line = f"{result.row.model} on {result.row.device}: {status_words(result.row).words} ({how})"
        alone = sys.stdout.isatty() and self.total + self.scripts_left == 1  # its reason is seen a line below
        self.step(what, f"{line}: {result.row.reason}" if result.row.reason and not alone else line)

    def _end(self, what: str, text: str) -> None:
        line = text.replace("\n", "\\n")  # a name with a line break tells of no other model
        if what in self._now:
            self._now.remove(what)
        if self._bar:
            self._bar.console.print(shown(line), markup=False, highlight=False)
            self._describe()
        else:
            note(line)

    def _describe(self) -> None:
        if self._bar and self._now:
            more = f" and {len(self._now) - 1} more" if len(self._now) > 1 else ""
            self._bar.update(self._task, description=shown(self._now[0]) + more)


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    # Drawn seldom: the model may be being timed on the same cores.
    return Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=2)

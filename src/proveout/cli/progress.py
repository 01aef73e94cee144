"""Progress on stderr: a live bar in a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from proveout.cli.output import note

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """Says what is being done now and what has been done, out of how much."""

    def __init__(self, total: int) -> None:
        self.total, self.done_so_far = total, 0
        self._bar = _bar() if sys.stderr.isatty() else None

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def start(self, what: str) -> None:
        if self._bar:
            self._bar.update(self._task, description=what)

    def done(self, what: str) -> None:
        self.done_so_far += 1
        line = f"[{self.done_so_far}/{self.total}] {what}"
        if self._bar:
            self._bar.advance(self._task)
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            note(line)


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

"""NeuronPerf's log: lines on stderr from the loggers below `neuronperf`, as many as `verbosity` asks for."""

from __future__ import annotations

import logging
import sys
from typing import Any

from proveout.errors import UsageError

FORMAT = "%(levelname)s:%(name)s - %(message)s"
LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG}

log = logging.getLogger("neuronperf")


class _Stderr(logging.StreamHandler[Any]):
    """Writes to what stderr is when a line is written, unless the script's own logging writes it to the terminal."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter(FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        shown = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
        if not any(getattr(handler, "stream", None) in shown for handler in logging.getLogger().handlers):
            super().emit(record)

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, value: Any) -> None: ...


def set_verbosity(verbosity: int) -> None:
    """0: errors, 1: progress too, 2: all."""
    if verbosity not in LEVELS:
        raise UsageError(f"verbosity is {verbosity!r}: give 0 (errors), 1 (progress) or 2 (all).")
    if not any(isinstance(handler, _Stderr) for handler in log.handlers):
        log.addHandler(_Stderr())
    log.setLevel(LEVELS[verbosity])

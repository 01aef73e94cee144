"""Ctrl-C and SIGTERM while benchmarking: the first asks for an orderly end, the second for one at once."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Counts signals while it is open; `fd` becomes readable with each. Only a main thread can take signals."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[int, Any] = {}
        self.fd, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._came) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.fd)
        os.close(self._wake)

    def drain(self) -> None:
        """Not readable again until the next signal."""
        with suppress(BlockingIOError):
            os.read(self.fd, 16)

    def _came(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        with suppress(BlockingIOError):
            os.write(self._wake, b"!")

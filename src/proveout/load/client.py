"""The open-loop client: sends every request when it is due, and stamps each piece of each answer as it comes.

One thread and one selector. A request waits for nobody: where the server stalls, the next ones are sent all the same,
and where a connection cannot be had in time, the wait is theirs, since latency counts from the intended start.
"""

from __future__ import annotations

import errno
import os
import select
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence

from proveout.clock.pacing import clock
from proveout.clock.stamps import Stamps
from proveout.clock.timing import without_garbage
from proveout.load.answer import Answer, Malformed
from proveout.load.endpoint import Endpoint
from proveout.load.exchange import Exchange, Run
from proveout.measure.interrupts import Interrupts

TIMEOUT_S = 60.0
MOST_OPEN = 1000
"""Connections at once: more than most processes may have files open."""
GIVE_UP = 20
"""So many connections refused one after the other, with nothing in flight, and the server is gone."""
RECEIVE = 1 << 18
LEAD_NS = 20_000_000
"""Between the start of the run's clock and the first request."""
EARLY_S = 0.0003
"""How long before a request is due the client stops sleeping: waking up may take as long."""
LOOK_S = 0.25
"""How often progress is told."""

Progress = Callable[[int, int, int], None]
"""Requests answered, in flight and failed."""


class _Connection:
    __slots__ = ("answer", "index", "out", "reused", "socket")

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.answer: Answer | None = None
        self.out: memoryview | None = None
        self.index, self.reused = -1, False


class Client:
    """One run against one endpoint."""

    def __init__(self, target: Endpoint, *, timeout_s: float = TIMEOUT_S, most_open: int = MOST_OPEN) -> None:
        self._target = target
        self._timeout_ns = round(timeout_s * 1e9)
        self._most_open = most_open
        self._selector = selectors.DefaultSelector()
        self._idle: list[_Connection] = []
        self._busy: dict[int, _Connection] = {}
        """By the number of their request."""
        self._exchanges: list[Exchange] = []
        self._requests: Sequence[bytes] = ()
        self._due = 0
        """How many requests were due so far."""
        self._timeouts: deque[int] = deque()
        """Requests that were sent, the earliest first."""
        self._refused, self._answered, self._failed = 0, 0, 0
        self._stop = ""

    def run(
        self, intended_ns: Stamps, requests: Sequence[bytes], progress: Progress = lambda answered, busy, failed: None
    ) -> Run:
        """Send each request at its time after the start and wait for all answers; Ctrl-C ends it with what there is."""
        self._requests = requests
        with without_garbage(), Interrupts() as interrupts:
            self._selector.register(interrupts.fd, selectors.EVENT_READ)
            begun, cpu = clock() + LEAD_NS, time.process_time_ns()
            self._exchanges = [Exchange(begun + offset) for offset in intended_ns.tolist()]
            sent = self._loop(progress)
            ended, cpu = clock(), time.process_time_ns() - cpu
            self._close()
        for connection in list(self._busy.values()):
            self._exchanges[connection.index].error = self._stop or "interrupted"
        exchanges = self._exchanges[:sent]
        partial = sent < len(requests) or bool(self._stop)
        return Run(
            tuple(exchanges),
            begun,
            max((e.ended_ns for e in exchanges), default=ended) if not partial else ended,
            status="failed" if not any(not e.error for e in exchanges) else "partial" if partial else "passed",
            reason=self._stop or _reason(exchanges),
            cpu_share=cpu / max(ended - begun, 1),
        )

    def _loop(self, progress: Progress) -> int:
        """Until all is sent and answered; gives how many requests were due."""
        timeouts, shown = self._timeouts, clock()
        while (self._due < len(self._exchanges) or self._busy) and not self._stop:
            now = clock()
            self._send_due(now)
            while timeouts and (timeouts[0] not in self._busy or self._expired(timeouts[0], now)):
                timeouts.popleft()
            if self._refused >= GIVE_UP and not self._busy:
                self._stop = f"the server is gone: {GIVE_UP} connections in a row were refused"
            if now - shown > LOOK_S * 1e9:
                progress(self._answered, len(self._busy), self._failed)
                shown = now
            self._receive(self._wait_s())
        return self._due

    def _send_due(self, now_ns: int) -> None:
        exchanges = self._exchanges
        while (
            self._due < len(exchanges)
            and exchanges[self._due].intended_ns <= now_ns
            and len(self._busy) < self._most_open
        ):
            self._send(self._due)
            self._timeouts.append(self._due)
            self._due += 1

    def _wait_s(self) -> float:
        """How long there is nothing to do but to receive."""
        now, nearest = clock(), LOOK_S
        if self._due < len(self._exchanges) and len(self._busy) < self._most_open:
            nearest = min(nearest, (self._exchanges[self._due].intended_ns - now) / 1e9 - EARLY_S)
        if self._timeouts:
            nearest = min(nearest, (self._deadline_ns(self._timeouts[0]) - now) / 1e9)
        return max(nearest, 0.0)

    def _deadline_ns(self, index: int) -> int:
        return self._exchanges[index].intended_ns + self._timeout_ns

    def _expired(self, index: int, now_ns: int) -> bool:
        if now_ns < self._deadline_ns(index):
            return False
        self._fail(self._busy[index], f"no whole answer within {self._timeout_ns / 1e9:g} s")
        return True

    # --------------------------------------------------------------------------------------------- sockets

    def _send(self, index: int) -> None:
        connection = self._idle.pop() if self._idle else self._open(index)
        if connection is None:
            return
        connection.index, connection.answer = index, Answer(self._exchanges[index])
        connection.out = memoryview(self._requests[index])
        self._busy[index] = connection
        self._write(connection)

    def _open(self, index: int) -> _Connection | None:
        """A connection that is being made; the loop hears when it is."""
        try:
            new = socket.socket(self._target.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            self._lost(index, f"no connection could be opened ({_words(error)})")
            return None
        new.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = new.connect_ex(self._target.address)
        if code not in (0, errno.EINPROGRESS):
            new.close()
            self._refused += code == errno.ECONNREFUSED
            self._lost(index, f"the connection failed ({os.strerror(code).lower()})")
            return None
        connection = _Connection(new)
        self._selector.register(new, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
        return connection

    def _write(self, connection: _Connection) -> None:
        assert connection.out is not None
        try:
            sent = connection.socket.send(connection.out)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._broken(connection, error)
            return
        if sent == len(connection.out):
            self._exchanges[connection.index].sent_ns = clock()
            connection.out, self._refused = None, 0
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
            return
        connection.out = connection.out[sent:]
        self._selector.modify(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)

    def _receive(self, wait_s: float) -> None:
        """All that came within the wait. A selector's own timeout is in ms; `select` on it waits for microseconds.
        Where much came at once, requests that become due are sent in between: they do not wait until all is read."""
        if wait_s > 0 and not select.select([self._selector.fileno()], [], [], wait_s)[0]:  # type: ignore[attr-defined]
            return
        for key, events in self._selector.select(0):
            connection: _Connection | None = key.data
            if connection is None:
                self._stop = "interrupted"
            elif connection.socket.fileno() < 0:  # dropped meanwhile
                continue
            elif events & selectors.EVENT_WRITE and connection.out is not None:
                self._write(connection)
            elif events & selectors.EVENT_READ:
                self._read(connection)
            self._send_due(clock())

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(RECEIVE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broken(connection, error)
            return
        now = clock()
        answer = connection.answer
        if answer is None:  # an idle one: the server closes it, or says what nobody asked
            self._idle.remove(connection)
            self._drop(connection)
            return
        if not data:
            self._ended(connection, answer, now)
            return
        try:
            answer.feed(data, now)
        except Malformed as error:
            self._fail(connection, str(error))
            return
        if answer.done:
            self._finish(connection, answer.reusable)

    def _ended(self, connection: _Connection, answer: Answer, now_ns: int) -> None:
        why = answer.closed(now_ns)
        if why and connection.reused and not answer.started:
            self._again(connection)
        elif why:
            self._fail(connection, why)
        else:
            self._finish(connection, False)

    def _broken(self, connection: _Connection, error: OSError) -> None:
        answer = connection.answer
        if answer is None:
            self._idle.remove(connection)
            self._drop(connection)
        elif connection.reused and not answer.started:
            self._again(connection)
        else:
            self._refused += isinstance(error, ConnectionRefusedError)
            pieces = len(answer.exchange.pieces_ns)
            after = f" after {pieces} tokens" if answer.started else ""
            self._fail(connection, f"the connection failed{after} ({_words(error)})")

    def _again(self, connection: _Connection) -> None:
        """A server may close a connection that it kept, just when it is used: the request goes out on a new one."""
        index = connection.index
        del self._busy[index]
        self._drop(connection)
        while self._idle:
            self._drop(self._idle.pop())
        self._send(index)

    def _finish(self, connection: _Connection, reusable: bool) -> None:
        del self._busy[connection.index]
        self._answered += 1
        connection.answer, connection.reused = None, True
        if reusable:
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _fail(self, connection: _Connection, why: str) -> None:
        del self._busy[connection.index]
        self._drop(connection)
        self._lost(connection.index, why)

    def _lost(self, index: int, why: str) -> None:
        self._failed += 1
        self._exchanges[index].error = why
        self._exchanges[index].ended_ns = clock()

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def _close(self) -> None:
        for connection in (*self._idle, *self._busy.values()):
            connection.socket.close()
        self._selector.close()


def _reason(exchanges: Sequence[Exchange]) -> str:
    """The commonest error, and how many there are in all."""
    errors = [e.error for e in exchanges if e.error]
    if not errors:
        return ""
    return f"{len(errors)} of {len(exchanges)} requests failed, most of them so: {max(set(errors), key=errors.count)}"


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()

"""A streamed answer as its bytes come: HTTP/1.1, then server-sent events, then the tokens in them.

The bytes are a stranger's: every length is bounded, and what is malformed becomes one sentence.
"""

from __future__ import annotations

import json
from typing import Any

from proveout.load.exchange import Exchange

HEAD_BYTES = 64 << 10
EVENT_BYTES = 1 << 20
ANSWER_BYTES = 64 << 20
LONG_EVENT = f"an event of the stream is longer than {EVENT_BYTES >> 20} MiB"
SHOWN = 200
"""Characters of a stranger's text that a sentence quotes."""


class Malformed(ValueError):
    """What came is not an answer that this client reads; the sentence says why."""


class Answer:
    """Reads one answer into an Exchange. `done` when it is whole; `reusable` when the connection may serve another."""

    __slots__ = ("_body", "_chunked", "_data", "_events", "_finished", "_left", "_read", "_stage", "done", "exchange",
                 "reusable", "started", "status")  # fmt: skip

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.done = self.reusable = self.started = False
        self.status = 0
        self._stage = self._head
        self._data = bytearray()
        """Bytes that are not read yet."""
        self._events = bytearray()
        """The body, from the start of the line that has not ended."""
        self._body = bytearray()
        """The `data` lines of the event that has not ended."""
        self._chunked, self._left, self._read = False, -1, 0
        self._finished = False

    def feed(self, data: bytes, now_ns: int) -> None:
        """The next bytes, and when they came; Malformed where they cannot be part of an answer."""
        self.started = True
        self._read += len(data)
        if self._read > ANSWER_BYTES:
            raise Malformed(f"the answer is longer than {ANSWER_BYTES >> 20} MiB")
        self._data += data
        while not self.done and self._stage(now_ns):
            pass

    def closed(self, now_ns: int) -> str:
        """The other side has closed: why the answer is not whole, or nothing where the close is its end."""
        if self.done:
            return ""
        if self._stage == self._until_close and self.status:
            try:
                self._end(now_ns)
            except Malformed as error:
                return str(error)
            return ""
        pieces = len(self.exchange.pieces_ns)
        return f"the connection was closed after {pieces} tokens" if self.started else "the connection was closed"

    # ------------------------------------------------------------------------------------------------ HTTP

    def _head(self, now_ns: int) -> bool:
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            if len(self._data) > HEAD_BYTES:
                raise Malformed(f"the answer's headers are longer than {HEAD_BYTES >> 10} KiB")
            if len(self._data) >= 5 and not self._data.startswith(b"HTTP/"):
                raise Malformed(f"the answer is not HTTP: it starts with {quoted(bytes(self._data[:40]))}")
            return False
        lines = bytes(self._data[:end]).decode("latin-1").split("\r\n")
        del self._data[: end + 4]
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
            raise Malformed(f"the answer is not HTTP/1.1: it starts with {quoted(lines[0])}")
        if words[1] == "100":
            return True
        self.status = int(words[1])
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        self.reusable = words[0] == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length", "")
        if self._chunked:
            self._stage = self._chunk
        elif length:
            if not length.isdecimal() or len(length) > 12:
                raise Malformed(f"the answer's Content-Length is {quoted(length)}")
            self._left, self._stage = int(length), self._counted
        else:
            self.reusable, self._stage = False, self._until_close
        kind = headers.get("content-type", "")
        if self.status == 200 and not kind.lower().startswith("text/event-stream"):
            raise Malformed(f"the answer is {quoted(kind) if kind else 'of no type'}, not a stream of events")
        return True

    def _chunk(self, now_ns: int) -> bool:
        """One chunk, whole or as far as it has come."""
        if self._left < 0:
            end = self._data.find(b"\r\n")
            if end < 0:
                if len(self._data) > 1024:
                    raise Malformed("a chunk of the answer has no length")
                return False
            size = bytes(self._data[:end]).split(b";")[0].strip()
            try:
                self._left = int(size, 16)
            except ValueError:
                self._left = -1
            if not 0 <= self._left <= ANSWER_BYTES or not size.isalnum():
                raise Malformed(f"a chunk of the answer has the length {quoted(size)}")
            del self._data[: end + 2]
            if self._left == 0:
                self._stage = self._trailer
                return True
        take = min(self._left, len(self._data))
        if take:
            self._take(take, now_ns)
        if self._left or len(self._data) < 2:
            return False
        if self._data[:2] != b"\r\n":
            raise Malformed("a chunk of the answer is longer than it says")
        del self._data[:2]
        self._left = -1
        return True

    def _trailer(self, now_ns: int) -> bool:
        end = self._data.find(b"\r\n")
        if end < 0 and len(self._data) > HEAD_BYTES:
            raise Malformed(f"the answer's trailer is longer than {HEAD_BYTES >> 10} KiB")
        if end < 0:
            return False
        blank = end == 0
        del self._data[: end + 2]
        if blank:
            self._end(now_ns)
        return not blank

    def _counted(self, now_ns: int) -> bool:
        self._take(min(self._left, len(self._data)), now_ns)
        if self._left == 0:
            self._end(now_ns)
        return False

    def _until_close(self, now_ns: int) -> bool:
        self._left = len(self._data)
        self._take(self._left, now_ns)
        return False

    def _take(self, size: int, now_ns: int) -> None:
        self._left -= size
        if self.status == 200:
            self._events += self._data[:size]
            del self._data[:size]
            self._lines(now_ns)
        elif len(self._events) < HEAD_BYTES:
            self._events += self._data[:size]
            del self._data[:size]
        else:
            del self._data[:size]

    def _end(self, now_ns: int) -> None:
        if self.status != 200:
            raise Malformed(f"HTTP {self.status}{_message(bytes(self._events))}")
        if not self._finished:
            raise Malformed(f"the stream ended after {len(self.exchange.pieces_ns)} tokens without [DONE]")
        if not self.exchange.pieces_ns:
            raise Malformed("the answer holds no token")
        self.exchange.ended_ns = self.exchange.ended_ns or now_ns
        self.done = True

    # ---------------------------------------------------------------------------------------------- events

    def _lines(self, now_ns: int) -> None:
        """Each line that has ended; a blank one ends an event."""
        if len(self._events) > EVENT_BYTES and b"\n" not in self._events:
            raise Malformed(LONG_EVENT)
        *lines, rest = bytes(self._events).split(b"\n")
        self._events = bytearray(rest)
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._body += line[5:] + b"\n"
                if len(self._body) > EVENT_BYTES:
                    raise Malformed(LONG_EVENT)
            elif not line and self._body:
                text, self._body = bytes(self._body).strip(), bytearray()
                self._event(text, now_ns)
            elif line and not line.startswith((b":", b"event", b"id", b"retry")):
                raise Malformed(f"a line of the stream is no field of an event: {quoted(line)}")

    def _event(self, text: bytes, now_ns: int) -> None:
        exchange = self.exchange
        if text == b"[DONE]":
            self._finished = True
            exchange.ended_ns = now_ns
            return
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            raise Malformed(f"an event of the stream is not JSON: {quoted(text)}") from None
        if not isinstance(event, dict):
            raise Malformed(f"an event of the stream is not an object: {quoted(text)}")
        if event.get("error"):
            raise Malformed("the endpoint ended the stream with an error" + _message(text))
        choices = event.get("choices")
        if isinstance(choices, list):
            for choice in choices:
                if not isinstance(choice, dict):
                    raise Malformed(f"a choice in the stream is not an object: {quoted(text)}")
                if _holds_text(choice):
                    exchange.pieces_ns.append(now_ns)
                if choice.get("finish_reason"):
                    self._finished = True
        usage = event.get("usage")
        if isinstance(usage, dict):
            exchange.tokens = _count(usage.get("completion_tokens"))
            exchange.prompt_tokens = _count(usage.get("prompt_tokens"))


def _holds_text(choice: dict[str, Any]) -> bool:
    """`text` of a completion; of a chat `content`, or what else a model says: its reasoning, a call of a tool."""
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return any(delta.get(name) for name in ("content", "reasoning_content", "reasoning", "tool_calls", "refusal"))
    return bool(choice.get("text"))


def _count(number: Any) -> int | None:
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 31 else None


def _message(body: bytes) -> str:
    """What an error's body says, as OpenAI's errors do; its first words otherwise."""
    try:
        error = json.loads(body)
    except (ValueError, RecursionError):
        error = None
    for name in ("error", "message", "detail"):
        if isinstance(error, dict) and name in error:
            error = error[name]
    if isinstance(error, str):
        return f": {quoted(error)}"
    return f": {quoted(body)}" if body.strip() else ""


def quoted(text: bytes | str) -> str:
    """A stranger's text in one line, without what a terminal would obey."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    plain = "".join(c if c.isprintable() else " " for c in text).strip()
    return f"“{plain[:SHOWN]}{'…' if len(plain) > SHOWN else ''}”"

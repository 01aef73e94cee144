"""An OpenAI-compatible endpoint that answers by a script: known delays, and every way to misbehave.

Run as a program it serves in a process of its own and prints its port: `python scripted_endpoint.py 0.2 0.01 16`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(document: object) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def token(text: str = " a", chat: bool = False) -> bytes:
    choice = {"index": 0, "delta": {"content": text}} if chat else {"index": 0, "text": text}
    return event({"id": "x", "object": "text_completion", "choices": [choice]})


DONE = b"data: [DONE]\n\n"
END = chunk(DONE) + b"0\r\n\r\n"


@dataclass
class Script:
    """What each request gets: so many tokens, the first after `first_s`, each other `gap_s` later."""

    first_s: float = 0.02
    gap_s: float = 0.005
    tokens: int = 4
    stall: tuple[float, float] | None = None
    """From the first request on: nothing at all is answered between these two times."""
    slots: int = 0
    """Requests that are answered at once; the others queue. 0 for any number."""
    instead: Callable[[asyncio.StreamWriter, int], Awaitable[bool]] | None = None
    """Answers in place of the script where it gives True; is told the number of the request."""
    usage: bool = True
    bodies: list[dict] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    first_ns: list[int] = field(default_factory=list)
    """When each first token was written."""
    received_ns: list[int] = field(default_factory=list)
    connections: int = 0
    begun: float = 0.0


class Endpoint:
    """Serves in a thread of its own while it is open."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Endpoint:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *exception: object) -> None:
        self.die()
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def die(self) -> None:
        """As if it were killed: nothing listens, and every connection is cut."""
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(self._stopped.set)

    def _serve(self) -> None:
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._stopped, self._writers = asyncio.Event(), set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped.wait()
        server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        rest = asyncio.all_tasks(self._loop) - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await serve(self.script, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


SLOTS: dict[int, asyncio.Semaphore] = {}


async def serve(script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    script.connections += 1
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next((int(x.split(":")[1]) for x in head.split("\r\n") if x.lower().startswith("content-length")), 0)
        body = json.loads(await reader.readexactly(length) or b"{}")
        script.heads.append(head)
        if head.startswith("GET"):
            listed = json.dumps({"data": [{"id": "scripted"}]}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                         + f"Content-Length: {len(listed)}\r\n\r\n".encode() + listed)  # fmt: skip
            continue
        script.received_ns.append(time.perf_counter_ns())
        number = len(script.bodies)
        script.bodies.append(body)
        script.begun = script.begun or time.monotonic()
        if script.instead and await script.instead(writer, number):
            continue
        if script.slots:
            slots = SLOTS.setdefault(id(script), asyncio.Semaphore(script.slots))
            async with slots:
                await answer(script, body, writer)
        else:
            await answer(script, body, writer)


async def answer(script: Script, body: dict, writer: asyncio.StreamWriter) -> None:
    chat = "messages" in body
    due = time.monotonic()
    writer.write(HEAD)
    for index in range(script.tokens):
        due += script.gap_s if index else script.first_s
        if script.stall and script.begun + script.stall[0] <= due < script.begun + script.stall[1]:
            due = script.begun + script.stall[1]
        await asyncio.sleep(max(due - time.monotonic(), 0))
        if not index:
            script.first_ns.append(time.perf_counter_ns())
        writer.write(chunk(token(chat=chat)))
    used = {"prompt_tokens": 7, "completion_tokens": script.tokens}
    writer.write((chunk(event({"choices": [], "usage": used})) if script.usage else b"") + END)
    await writer.drain()


def main() -> None:
    first_s, gap_s, tokens = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    stall = (float(sys.argv[4]), float(sys.argv[5])) if len(sys.argv) > 5 else None
    with Endpoint(Script(first_s, gap_s, tokens, stall)) as endpoint:
        print(endpoint.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

"""What happens when a script asks for the network: a quick answer, and one sentence where there is none."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 4.0
"""For a name to be looked up, and again for a connection: a script that needs a hub says so within ten seconds."""

_SIGNS = {
    "ConnectError", "ConnectTimeout", "ConnectionError", "LocalEntryNotFoundError", "MaxRetryError",
    "NameResolutionError", "NewConnectionError", "OfflineModeIsEnabled", "ProxyError", "URLError", "gaierror",
}  # fmt: skip
"""Names of the exceptions that libraries raise where a hub cannot be reached, without importing any of them."""


@contextmanager
def quick_answers() -> Iterator[None]:
    """While a script runs, a host that does not answer is given up after seconds, and the next one at once."""
    look_up, connect = socket.getaddrinfo, socket.socket.connect
    down = threading.Event()

    def quick_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_local(host):
            return look_up(host, *args, **kwargs)
        if down.is_set():
            raise socket.gaierror(socket.EAI_AGAIN, f"the network cannot be reached, so {host} was not asked for")
        answer: list[Any] = []

        def ask() -> None:
            try:
                answer.append(look_up(host, *args, **kwargs))
            except OSError as error:
                answer.append(error)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(PATIENCE_S)
        addresses = answer[0] if answer else socket.gaierror(socket.EAI_AGAIN, f"no answer about {host}")
        if isinstance(addresses, OSError):
            down.set()
            _go_offline()
            raise addresses
        return addresses

    def quick_connect(self: socket.socket, address: Any) -> None:
        before = self.gettimeout()
        slow = before is None or before > PATIENCE_S
        if not isinstance(address, tuple) or _is_local(address[0]) or not slow:
            connect(self, address)
            return
        self.settimeout(PATIENCE_S)
        try:
            connect(self, address)
        except OSError:
            down.set()
            _go_offline()
            raise
        finally:
            self.settimeout(before)

    socket.getaddrinfo = quick_look_up
    socket.socket.connect = quick_connect  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        socket.getaddrinfo = look_up
        socket.socket.connect = connect  # type: ignore[method-assign]


def needs_network(raised: BaseException | None) -> bool:
    """Whether an exception, or one behind it, says that a host could not be reached."""
    seen: set[int] = set()
    while raised is not None and id(raised) not in seen:
        if type(raised).__name__ in _SIGNS:
            return True
        seen.add(id(raised))
        raised = raised.__cause__ or raised.__context__
    return False


def _is_local(host: Any) -> bool:
    name = host.decode(errors="replace") if isinstance(host, bytes) else host
    return name in (None, "", "localhost", "::1", "::", "0.0.0.0") or str(name).startswith("127.")


def _go_offline() -> None:
    """Hugging Face's hub tries again for half a minute unless it is told that there is no network."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    constants: Any = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        constants.HF_HUB_OFFLINE = True

"""An OpenAI-compatible endpoint: its address, what it serves, and a request to it as bytes."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from proveout.errors import EnvironmentFault, UsageError
from proveout.load.answer import quoted

Api = Literal["completions", "chat"]
PATHS: dict[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
REACH_S = 5.0
GIVE_ADDRESS = "Give an address such as http://127.0.0.1:8000."
MODELS_BYTES = 1 << 20
WORDS = """
time year people way day man thing woman life child world school state family student group country problem hand part
place case week company system program question work number night point home water room mother area money story fact
month lot right study book eye job word business issue side kind head house service friend father power hour game line
"""
"""Of prompts that are made up: about one token each, and drawn at random, so that no cache of prefixes helps."""


@dataclass(frozen=True)
class Endpoint:
    """Where requests go. `address` is the one that accepted a connection."""

    url: str
    host: str
    path: str
    api: Api
    family: int
    address: tuple[Any, ...]
    headers: tuple[tuple[str, str], ...] = ()

    def request(self, body: Mapping[str, Any]) -> bytes:
        """The whole request."""
        data = json.dumps(body).encode()
        lines = [
            f"POST {self.path} HTTP/1.1",
            f"Host: {self.host}",
            "Content-Type: application/json",
            "Accept: text/event-stream",
            *(f"{name}: {value}" for name, value in self.headers),
            f"Content-Length: {len(data)}",
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + data

    def body(self, model: str, prompt: str, max_tokens: int, more: Mapping[str, Any]) -> dict[str, Any]:
        """What is asked for: a stream of at most so many tokens, and the endpoint's own count at its end."""
        text = {"prompt": prompt} if self.api == "completions" else {"messages": [{"role": "user", "content": prompt}]}
        options = {"max_tokens": max_tokens, "stream": True, "stream_options": {"include_usage": True}}
        return {"model": model, **text, **options, **more}


def endpoint(url: str, api: Api | None = None, headers: Mapping[str, str] | None = None) -> Endpoint:
    """The endpoint at an address: of a server, its `/v1`, or one of the two paths. Asks whether anyone listens."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        scheme, host, port = parts.scheme, parts.hostname, parts.port or 80
    except ValueError:
        raise UsageError(f"{quoted(url)} names no host and port. {GIVE_ADDRESS}") from None
    if scheme != "http":
        raise UsageError(f"{quoted(url)}: this client speaks plain HTTP. {GIVE_ADDRESS}")
    if not host:
        raise UsageError(f"{quoted(url)} names no host and port. {GIVE_ADDRESS}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"{quoted(url)} has more than a host, a port and a path. Give a password as --header, and the address"
            " without what follows ? and #."
        )
    base = parts.path.rstrip("/")
    if not (base.isascii() and base.isprintable()) or " " in base:
        raise UsageError(f"the path of {quoted(url)} cannot be sent. Write spaces and letters outside ASCII as %20.")
    named: Api | None = next((name for name in ("chat", "completions") if base.endswith(PATHS[name])), None)
    if named and api and named != api:
        raise UsageError(f"{quoted(url)} is the path of {named}, and --api says {api}. Leave out one of them.")
    chosen: Api = named or api or "completions"
    base = base.removesuffix(PATHS[named]) if named else base if base.endswith("/v1") else f"{base}/v1"
    for name, value in (headers or {}).items():
        if not name or not (name + value).isprintable() or not (name + value).isascii() or ":" in name:
            raise UsageError(f"the header {quoted(name)} cannot be sent. Give NAME: VALUE in ASCII.")
    family, address = _reached(host, port, url)
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Endpoint(
        f"http://{where}{base}{PATHS[chosen]}", where, base + PATHS[chosen], chosen, family, address,
        tuple((headers or {}).items()),
    )  # fmt: skip


def _reached(host: str, port: int, url: str) -> tuple[int, tuple[Any, ...]]:
    """The first of the host's addresses that accepts a connection."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise EnvironmentFault(f"the host {quoted(host)} is not known ({error}). Give another address.") from None
    why = ""
    for family, _, _, _, address in addresses:
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.settimeout(REACH_S)
            try:
                tried.connect(address)
            except OSError as error:
                why = error.strerror or str(error)
                continue
            return family, address
    raise EnvironmentFault(f"nothing answers at {url} ({why.lower()}). Start the server, or give its address.")


def served_model(target: Endpoint) -> str:
    """The first model that the endpoint lists; one that does not within `REACH_S` lists none."""
    path = target.path.removesuffix(PATHS[target.api]) + "/models"
    host, port = target.address[:2]
    connection = http.client.HTTPConnection(host, port, timeout=REACH_S)
    given_up: threading.Timer | None = None
    try:
        connection.connect()
        given_up = threading.Timer(REACH_S, _shut, (connection.sock,))  # the timeout begins anew with every byte
        given_up.start()
        connection.request("GET", path, headers={"Host": target.host, **dict(target.headers)})
        listed = json.loads(connection.getresponse().read(MODELS_BYTES))["data"][0]["id"]
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, RecursionError):
        listed = None
    finally:
        if given_up is not None:
            given_up.cancel()
        connection.close()
    if not isinstance(listed, str) or not listed or len(listed) > 200 or not listed.isprintable():
        raise UsageError(
            f"{target.host} does not list its models at {path} within {REACH_S:g} s."
            " Name the one to ask for with --model."
        )
    return listed


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it was closed meanwhile
        connected.shutdown(socket.SHUT_RDWR)


def made_up_prompt(num_words: int, rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS.split(), k=num_words))

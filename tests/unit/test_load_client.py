"""Claims about the client of served models, against an endpoint with known delays and scripted faults."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import socket
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from scripted_endpoint import DONE, END, HEAD, Endpoint, Script, chunk, token

from proveout.errors import EnvironmentFault, UsageError
from proveout.load import client
from proveout.load.answer import ANSWER_BYTES, EVENT_BYTES, Answer, Malformed
from proveout.load.client import Client
from proveout.load.endpoint import endpoint, served_model
from proveout.load.exchange import Exchange, Run


def run(server: Endpoint, offsets_s: list[float], api="completions", **options) -> Run:
    target = endpoint(server.url, api)
    body = target.request(target.body("m", "hello", 4, {}))
    intended = np.array([round(s * 1e9) for s in offsets_s], dtype=np.int64)
    return Client(target, **options).run(intended, [body] * len(intended))


def read(*parts: bytes) -> Exchange:
    exchange = Exchange(0)
    answer = Answer(exchange)
    for index, part in enumerate(parts):
        answer.feed(part, index + 1)
    assert answer.done
    return exchange


# ------------------------------------------------------------------------------------------ times


@pytest.mark.slow
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_times_agree_with_the_servers_own_stamps(api):
    script = Script(first_s=0.08, gap_s=0.02, tokens=4)
    with Endpoint(script) as server:
        result = run(server, [0.03 * i for i in range(12)], api)
    assert (result.status, len(result.answered)) == ("passed", 12)
    firsts = np.array([e.first_ns for e in result.exchanges])
    assert firsts.min() >= 80e6, "no token can come before its time"
    behind = np.array([e.pieces_ns[0] for e in result.exchanges]) - np.sort(script.first_ns)
    assert behind.min() > 0
    assert np.median(behind) < 20e6
    assert np.median([e.per_token_ns for e in result.exchanges]) == pytest.approx(20e6, rel=0.2)
    assert {e.num_tokens for e in result.exchanges} == {4}
    assert {e.prompt_tokens for e in result.exchanges} == {7}


@pytest.mark.slow
def test_requests_are_sent_while_earlier_ones_wait():
    """Closed loops wait for an answer; this one has all five in flight before the first is answered."""
    script = Script(first_s=0.5, tokens=1)
    with Endpoint(script) as server:
        result = run(server, [0.02 * i for i in range(5)])
    assert max(script.received_ns) < min(e.pieces_ns[0] for e in result.exchanges)


def test_the_client_is_awake_before_a_request_is_due():
    this = Client(SimpleNamespace())
    this._exchanges = [Exchange(client.clock() + 100_000_000)]
    assert this._wait_s() <= 0.1 - client.EARLY_S


def test_a_request_that_is_due_does_not_wait_for_all_that_came_to_be_read(monkeypatch):
    """Fifty answers arrive at once, and to read one takes 1 ms."""
    now, said = [0], []
    monkeypatch.setattr(client, "clock", lambda: now[0])
    busy = Client(SimpleNamespace())
    busy._exchanges = [Exchange(5_000_000), Exchange(20_000_000)]
    connection = SimpleNamespace(socket=SimpleNamespace(fileno=lambda: 1), out=None)
    arrived = [(SimpleNamespace(data=connection), selectors.EVENT_READ)] * 50
    busy._selector.close()
    busy._selector = SimpleNamespace(select=lambda wait: arrived)

    def read(_):
        now[0] += 1_000_000
        said.append("read")

    monkeypatch.setattr(busy, "_read", read)
    monkeypatch.setattr(busy, "_send", lambda index: said.append(f"send {index}"))
    busy._receive(0)
    assert (said.index("send 0"), said.index("send 1")) == (5, 21)


@pytest.mark.slow
def test_a_stall_is_charged_to_every_request_that_waited():
    script = Script(first_s=0.005, gap_s=0.001, tokens=2, stall=(0.1, 0.7))
    with Endpoint(script) as server:
        result = run(server, [0.05 * i for i in range(16)])
    due = (np.array([e.intended_ns for e in result.exchanges]) - result.exchanges[0].intended_ns) / 1e9
    felt = np.array([e.first_ns for e in result.exchanges]) / 1e9
    waited = (due > 0.1) & (due < 0.65)
    assert waited.sum() >= 10
    assert (felt[waited] > 0.69 - due[waited]).all(), "each waits from its own start to the end of the stall"


@pytest.mark.slow
def test_a_client_that_may_open_few_connections_charges_the_wait_to_the_requests():
    with Endpoint(Script(first_s=0.1, tokens=1)) as server:
        result = run(server, [0.0] * 4, most_open=1)
    firsts = sorted(e.first_ns for e in result.exchanges)
    assert firsts[3] >= 400e6
    assert min(e.pieces_ns[0] - e.sent_ns for e in result.exchanges) < 200e6


@pytest.mark.slow
def test_connections_are_used_again():
    script = Script(first_s=0.001, gap_s=0.0, tokens=1)
    with Endpoint(script) as server:
        result = run(server, [0.05 * i for i in range(8)])
    assert len(result.answered) == 8
    assert script.connections <= 4  # one to see whether anyone listens


# ----------------------------------------------------------------------------------------- faults


def test_nobody_listening_is_told_at_once():
    with Endpoint(Script()) as server:
        url = server.url
    with pytest.raises(EnvironmentFault, match=r"nothing answers at .*connection refused.*Start the server"):
        endpoint(url)


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle_loses_nothing_measured():
    async def die_at_the_thirtieth(writer, number):
        if number == 30:
            server.die()
        return False

    script = Script(first_s=0.01, gap_s=0.03, tokens=8, instead=die_at_the_thirtieth)
    with Endpoint(script) as server:
        result = run(server, [0.02 * i for i in range(80)])
    assert result.status == "partial"
    assert "the server is gone" in result.reason
    answered = result.answered
    assert answered
    assert all(len(e.pieces_ns) == 8 for e in answered)
    broken = [e for e in result.exchanges if e.error and e.pieces_ns]
    assert broken, "those in flight keep the tokens that came"
    assert all("after" in e.error for e in broken)
    refused = [e for e in result.exchanges if "refused" in e.error]
    assert len(refused) >= 20


@pytest.mark.slow
def test_an_answer_that_never_ends_is_given_up():
    async def silent(writer, number):
        writer.write(HEAD + chunk(token()))
        return True

    with Endpoint(Script(instead=silent)) as server:
        result = run(server, [0.0], timeout_s=0.4)
    [exchange] = result.exchanges
    assert (exchange.error, len(exchange.pieces_ns)) == ("no whole answer within 0.4 s", 1)


@pytest.mark.slow
def test_a_kept_connection_that_the_server_closed_costs_no_request():
    async def close_after(writer, number):
        writer.write(HEAD + chunk(token()) + END)
        await writer.drain()
        writer.close()
        return True

    with Endpoint(Script(instead=close_after)) as server:
        result = run(server, [0.03 * i for i in range(6)])
    assert [e.error for e in result.exchanges] == [""] * 6


@pytest.mark.slow
def test_ctrl_c_ends_a_run_with_what_there_is():
    async def interrupt_at_the_tenth(writer, number):
        if number == 10:
            os.kill(os.getpid(), signal.SIGINT)
        return False

    with Endpoint(Script(first_s=0.01, tokens=2, instead=interrupt_at_the_tenth)) as server:
        result = run(server, [0.05 * i for i in range(200)])
    assert (result.status, result.reason) == ("partial", "interrupted")
    assert 2 <= len(result.answered) <= 10 + 5


async def _refuse(writer: asyncio.StreamWriter, number: int) -> bool:
    body = b'{"error": {"message": "model \\u001b[31mnope"}}'
    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return True


@pytest.mark.slow
def test_an_error_of_the_server_is_quoted_without_control_characters():
    with Endpoint(Script(instead=_refuse)) as server:
        result = run(server, [0.0, 0.01])
    assert result.status == "failed"
    assert result.exchanges[0].error == "HTTP 404: “model  [31mnope”"


# ----------------------------------------------------------------------------------------- parsing


def test_an_answer_may_come_byte_by_byte():
    whole = HEAD + chunk(token()) + chunk(token() + token()) + END
    exchange = read(*(bytes([b]) for b in whole))
    assert len(exchange.pieces_ns) == 3
    assert exchange.pieces_ns == sorted(exchange.pieces_ns)


def test_an_answer_may_come_at_once():
    exchange = read(HEAD + chunk(token() * 5) + END)
    assert exchange.pieces_ns == [1] * 5
    assert exchange.tokens is None
    assert exchange.num_tokens == 5


def test_comments_carriage_returns_and_empty_deltas_are_no_tokens():
    role = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\r\n\r\n'
    said = b'event: x\r\ndata: {"choices": [{"delta":\r\ndata: {"content": "a"}, "finish_reason": "stop"}]}\r\n\r\n'
    exchange = read(HEAD + chunk(b": ping\r\n\r\n" + role) + chunk(said) + b"0\r\n\r\n")
    assert len(exchange.pieces_ns) == 1


def test_a_body_without_a_length_ends_with_the_connection():
    exchange = Exchange(0)
    answer = Answer(exchange)
    answer.feed(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + token() + DONE, 5)
    assert not answer.done
    assert answer.closed(9) == ""
    assert (answer.done, answer.reusable, exchange.ended_ns) == (True, False, 5)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "headers are longer than 64 KiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n", "“text/html”, not a stream"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", "not a stream of events"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "Content-Length is “-5”"),
        (STREAM + b"zz\r\n", "a chunk of the answer has the length “zz”"),
        (STREAM + b"ffffffffffff\r\n", "a chunk of the answer has the length"),
        (STREAM + b"2\r\nabcdef", "longer than it says"),
        (STREAM + chunk(b"data: {nonsense\n\n"), "not JSON: “{nonsense”"),
        (STREAM + chunk(b"data: [1]\n\n"), "not an object"),
        (STREAM + chunk(b'data: {"choices": [3]}\n\n'), "a choice in the stream is not an object"),
        (STREAM + chunk(b"data: " + b"[" * 100_000 + b"\n\n"), "not JSON"),
        (STREAM + chunk(b"<html>\n"), "no field of an event: “<html>”"),
        (STREAM + chunk(b'data: {"error": {"message": "out of memory"}}\n\n'), "with an error: “out of memory”"),
        (STREAM + chunk(token()) + b"0\r\n\r\n", "the stream ended after 1 tokens without"),
        (STREAM + END, "holds no token"),
        (STREAM + chunk(b"x" * (EVENT_BYTES + 1)), "longer than 1 MiB"),
        (STREAM + chunk(b"data: x\n" * (EVENT_BYTES // 2)), "longer than 1 MiB"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_told_in_a_sentence(data, sentence):
    with pytest.raises(Malformed, match=sentence.replace("[", r"\[")):
        Answer(Exchange(0)).feed(data, 1)


def test_an_answer_without_an_end_is_bounded():
    answer = Answer(Exchange(0))
    answer.feed(STREAM, 1)
    line = chunk(b": " + b"x" * 1_000_000 + b"\n")
    for _ in range(ANSWER_BYTES // len(line)):
        answer.feed(line, 1)
    with pytest.raises(Malformed, match="longer than 64 MiB"):
        answer.feed(line, 1)


# ---------------------------------------------------------------------------------------- addresses


def test_an_address_may_be_the_server_its_v1_or_a_path():
    with Endpoint(Script()) as server:
        base = server.url
        assert endpoint(base).path == "/v1/completions"
        assert endpoint(base.removeprefix("http://"), "chat").path == "/v1/chat/completions"
        assert endpoint(f"{base}/v1/").path == "/v1/completions"
        assert endpoint(f"{base}/v1/chat/completions").api == "chat"
        assert endpoint(f"{base}/proxy/v1").path == "/proxy/v1/completions"
        assert served_model(endpoint(base)) == "scripted"
        with pytest.raises(UsageError, match="--api says completions"):
            endpoint(f"{base}/v1/chat/completions", "completions")
        with pytest.raises(UsageError, match="header"):
            endpoint(base, headers={"X": "a\r\nHost: b"})


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:1", "ftp://x", "http://:80", "http://127.0.0.1:99999", "", "http://[::1"]
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:8000"):
        endpoint(url)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("127.0.0.1:1/a b", "cannot be sent"),
        ("127.0.0.1:1/中", "cannot be sent"),
        ("127.0.0.1:1/v1?key=secret", "without what follows"),
        ("http://me:secret@127.0.0.1:1", "password as --header"),
    ],
)
def test_what_would_be_lost_of_an_address_is_refused(url, sentence):
    with pytest.raises(UsageError, match=sentence):
        endpoint(url)


def test_a_prompt_that_is_no_text_is_sent_all_the_same():
    target = client.Endpoint("", "h", "/v1/completions", "completions", socket.AF_INET, ())
    assert target.request({"prompt": "caf\udce9"}).endswith(rb'{"prompt": "caf\udce9"}')


def test_a_list_of_models_that_comes_a_byte_at_a_time_is_given_up(monkeypatch):
    monkeypatch.setattr("proveout.load.endpoint.REACH_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = endpoint(f"127.0.0.1:{server.getsockname()[1]}")
        server.accept()[0].close()  # whether anyone listens
        stopped = threading.Event()

        def drip() -> None:
            with server.accept()[0] as connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not stopped.wait(0.05):
                    connection.sendall(b"y")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(UsageError, match="does not list its models"):
                served_model(target)
        finally:
            stopped.set()
            thread.join()

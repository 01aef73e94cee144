"""`proveout load`: a served model under load, at an OpenAI-compatible endpoint or by a scheduler of ours."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import typer

from proveout.batching.scheduler import Scheduler
from proveout.batching.simulated import ServeAsk, Served, padded_lengths, simulated, step_times
from proveout.capture.named import named
from proveout.cli.options import CacheDir, Json, ScriptArgs, Small, device_names
from proveout.cli.output import emit, emit_json, note
from proveout.cli.request import setting_of
from proveout.cli.verbs.tokens import speeds
from proveout.devices.registry import find, settings_for
from proveout.errors import CompileError, Crash, OutOfMemory, UsageError
from proveout.generation.speed import SpeedAsk, SpeedTold
from proveout.generation.worker import answered
from proveout.load.capacity import ATTAIN, GoodputCapacity, capacity
from proveout.load.capacity import check as check_capacity
from proveout.load.client import MOST_OPEN, TIMEOUT_S, Client
from proveout.load.endpoint import Api, Endpoint, endpoint, made_up_prompt, served_model
from proveout.load.exchange import Run
from proveout.load.plan import MOST_TOKENS, Ask, Schedule, replay_plan, steady_plan
from proveout.load.records import ENDPOINT, record
from proveout.load.slo import slo_of
from proveout.load.text import capacity_text, text
from proveout.measure.records import keep
from proveout.serving import Configuration, Load
from proveout.types import Record

PROMPT_TOKENS, MAX_TOKENS = 128, 16
MOST_PROMPT_BYTES = 1 << 30


def verb(
    target: Annotated[
        str,
        typer.Argument(metavar="URL|MODEL", help="A server (http://127.0.0.1:8000), or a decoder.", show_default=False),
    ],
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", help="Requests per second; where a search begins.")
    ] = 1.0,
    arrivals: Annotated[
        str, typer.Option("--arrivals", metavar="poisson|constant", help="How they arrive.")
    ] = "poisson",
    trace: Annotated[
        Path | None,
        typer.Option("--replay", metavar="FILE", help="Replay a trace: CSV or JSON lines.", show_default=False),
    ] = None,
    speed: Annotated[float, typer.Option("--speed", metavar="X", help="Replay so many times as fast.")] = 1.0,
    duration: Annotated[
        float, typer.Option("--duration", metavar="S", help="Seconds in which requests arrive.")
    ] = 30.0,
    prompt: Annotated[
        str, typer.Option("--prompt", metavar="TEXT", help="Always this prompt.", show_default=False)
    ] = "",
    prompt_tokens: Annotated[
        int,
        typer.Option("--prompt-tokens", min=1, metavar="N", help="Length of the prompts that are made up, in words."),
    ] = PROMPT_TOKENS,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, metavar="N", help="Tokens to ask for.")
    ] = MAX_TOKENS,
    slo: Annotated[
        str,
        typer.Option("--slo", metavar="LIMITS", help="ttft=200ms,tpot=50ms; also itl and e2e.", show_default=False),
    ] = "",
    search: Annotated[bool, typer.Option("--capacity", help="Find the highest rate that keeps the limits.")] = False,
    attain: Annotated[
        float, typer.Option("--attain", metavar="SHARE", help="Share of the requests that must keep them.")
    ] = ATTAIN,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="[default: the first that it lists]", show_default=False)
    ] = "",
    api: Annotated[
        str, typer.Option("--api", metavar="completions|chat", help="[default: completions]", show_default=False)
    ] = "",
    body: Annotated[
        str,
        typer.Option(
            "--body", metavar="JSON", help="More fields of each request: '{\"ignore_eos\": true}'.", show_default=False
        ),
    ] = "",
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME: VALUE", help="Sent with each request; not kept.", show_default=False),
    ] = None,
    warmup: Annotated[int, typer.Option("--warmup", min=0, metavar="N", help="Requests before, not counted.")] = 1,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Seconds for each whole answer.")
    ] = TIMEOUT_S,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of arrivals and prompts.")] = 0,
    device: Annotated[
        str, typer.Option("--device", metavar="D", help="What a MODEL runs on.", autocompletion=device_names)
    ] = "sim",
    slots: Annotated[int, typer.Option("--slots", min=1, metavar="N", help="Users that a MODEL decodes at once.")] = 32,
    page_size: Annotated[int, typer.Option("--page-size", min=1, metavar="N", help="Tokens of a page of cache.")] = 32,
    pages: Annotated[
        int, typer.Option("--pages", min=0, metavar="N", help="[default: enough for all slots]", show_default=False)
    ] = 0,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of a MODEL's compiler.", show_default=False),
    ] = None,
    small: Small = False,
    script_args: ScriptArgs = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the Record.", show_default=False)] = "",
    cache_dir: CacheDir = None,
    as_json: Json = False,
) -> int:
    """Measure a served model under load.

    Takes any OpenAI-compatible endpoint, or serves a decoder with Proveout's own scheduler.

    Requests are sent when they are due, whether or not earlier ones are answered, and each latency counts from the time
    at which the request was due: a stall is charged to all that waited. Reports time to first token (TTFT), time per
    output token (TPOT), gaps between tokens (ITL), throughput and goodput, with intervals and a verdict. The result is
    a Record. Nothing but the named address is contacted. A MODEL is served by continuous batching on a paged cache: on
    a modelled chip in modelled time, from its predicted steps, elsewhere by the clock.

    \b
    Examples:
      proveout load http://127.0.0.1:8000 --rate 5 --slo ttft=200ms,tpot=50ms
      proveout load 127.0.0.1:8000 --api chat --arrivals constant --rate 20
      proveout load 127.0.0.1:8000 --replay trace.csv --speed 2
      proveout load 127.0.0.1:8000 --capacity --slo ttft=200ms --attain 0.95
      proveout load popular_on_huggingface/qwen3_0_6b --slots 32 --rate 2

    \b
    Exit codes: 0 every request was answered; 1 some were not; 2 usage;
    3 nothing answers there.
    """
    if arrivals not in ("poisson", "constant"):
        raise UsageError(f"--arrivals {arrivals}: choose poisson or constant.")
    if api not in ("", "completions", "chat"):
        raise UsageError(f"--api {api}: choose completions or chat.")
    for option, value in (("--timeout", timeout), ("--duration", duration), ("--rate", rate), ("--speed", speed)):
        if not 0 < value < float("inf"):
            raise UsageError(f"{option} {value:g}: give a number above 0.")
    if search and trace:
        raise UsageError("--capacity searches for a rate, and --replay has its own: leave out one of them.")
    if max(prompt_tokens, max_tokens) > MOST_TOKENS:
        raise UsageError(f"more than {MOST_TOKENS:,} tokens: ask for fewer.")
    limits = slo_of(slo)
    if search:
        check_capacity(limits, attain)
    _fields(body), _headers(headers or [])
    ask = Ask(prompt_tokens, max_tokens, prompt)
    mode: Literal["poisson", "constant"] = "poisson" if arrivals == "poisson" else "constant"
    load = Load(mode, rate, seed=seed)
    plan = replay_plan(trace, ask, speed) if trace else steady_plan(load, duration, ask)
    if _is_address(target):
        chosen: Api | None = "chat" if api == "chat" else "completions" if api else None
        server: _Server = _endpoint(target, chosen, _headers(headers or []), model, _fields(body), seed, timeout)
        what = server.facts | {"prompt": prompt or f"{prompt_tokens} words"}
    else:
        server = _Scheduled(target, device, overrides or [], slots, page_size, pages, script_args, small, plan, timeout)
        what = server.facts | {"prompt": f"{prompt_tokens} tokens"}
    what |= {"max_tokens": str(max_tokens)} | ({"trace": plan.digest} if trace else {})
    results: list[Record] = []

    def measure(planned: Schedule) -> Run:
        run = server.run(planned)
        serving = Configuration(
            name or server.name, server.device, slots if server.device != ENDPOINT else 1,
            duration_s=duration if not trace else plan.duration_s, warmup=warmup, load=planned.load, multiprocess=False,
        )  # fmt: skip
        results.append(record(run, serving, limits, what, timeout, server.ends(planned)))
        if reason := keep(results[-1:], cache_dir):
            note(f"not kept: {reason}")
        return run

    if warmup:
        server.warm(dataclasses.replace(plan, intended_ns=np.zeros(warmup, dtype=np.int64), asks=(ask,) * warmup))
    if not search:
        measure(plan)
        document: dict[str, Any] = {"report": results[0].report, "key": results[0].job.key}
        head = f"{server.words}  {plan.load.mode} {plan.load.rate:g}/s"
        _say(as_json, document, f"{head}\n\n{text(results[0].report or {})}")
        return 0 if results[0].status == "passed" else 1

    def at(tried: float) -> Run:
        note(f"{tried:.5g} requests/s for {duration:g} s …")
        return measure(steady_plan(Load(mode, tried, seed=seed), duration, ask))

    answer: GoodputCapacity = capacity(at, limits, start_rate=rate, attain=attain)
    keys = [r.job.key for r in results]
    _say(as_json, {"capacity": answer, "keys": keys}, f"{server.words}\n\n{capacity_text(answer)}")
    return 0 if answer.rate is not None else 1


def _is_address(target: str) -> bool:
    """A server's address, and no model: it has a scheme, a port, or only numbers."""
    host = target.split("/")[0]
    return "://" in target or host.rpartition(":")[2].replace(".", "").isdecimal() or host == "localhost"


class _Server(Protocol):
    """What is put under load."""

    name: str
    device: str
    words: str
    facts: dict[str, str]

    def warm(self, plan: Schedule) -> None: ...

    def run(self, plan: Schedule) -> Run: ...

    def ends(self, plan: Schedule) -> tuple[Run, Run] | None:
        """The same run at both ends of a prediction; None where a clock took the times."""


class _Scheduled:
    """A decoder in a scheduler of ours."""

    def __init__(
        self, model: str, device: str, overrides: list[str], slots: int, page_size: int, pages: int, script_args: str,
        small: bool, plan: Schedule, timeout_s: float,
    ) -> None:  # fmt: skip
        [self._model] = named([model], [], f"{script_args} --small".lstrip() if small else script_args)
        self.device = find(device).name
        self._settings = settings_for(self.device, dict(map(setting_of, overrides)))
        self._slots, self._page_size, self._timeout_s = slots, page_size, timeout_s
        longest = max(a.prompt_tokens + a.max_tokens for a in plan.asks)
        self._max_length = max(-(-longest // 32) * 32, max(padded_lengths(plan)))
        self._pages = pages or slots * -(-self._max_length // page_size)
        self._modelled = find(self.device).times == "modelled"
        self.name = self._model.name
        self._told = self._planned(plan) if self._modelled else None
        self.words = f"{self.name} on {self.device}, {slots} slots, {self._pages} pages of {page_size} tokens"
        self.facts = {"slots": str(slots), "pages": str(self._pages), "page_size": str(page_size)}

    def _planned(self, plan: Schedule) -> SpeedTold:
        note(f"planning {self.name} for {self._slots} users …")
        one = self._model
        ask = SpeedAsk(
            str(one.script), one.script_args, self.device, self._settings, (self._slots,), padded_lengths(plan),
            max_length=self._max_length,
        )  # fmt: skip
        answer = speeds(one, ask, max(self._timeout_s, 3600.0))
        if answer.error:
            raise CompileError(answer.error)
        if row := next((row for row in answer.rows if not row.fits), None):
            raise OutOfMemory(f"{self.name} with {self._slots} users does not fit: {row.short}. Use fewer --slots.")
        return answer

    def warm(self, plan: Schedule) -> None:
        """A worker warms up by itself."""

    def run(self, plan: Schedule) -> Run:
        if self._told is not None:
            return simulated(plan, step_times(self._told), self._scheduler())
        one = self._model
        ask = ServeAsk(
            str(one.script), one.script_args, self.device, self._settings, self._slots, self._max_length, self._pages,
            self._page_size, tuple(plan.intended_ns.tolist()), tuple(a.prompt_tokens for a in plan.asks),
            tuple(a.max_tokens for a in plan.asks),
        )  # fmt: skip
        return served_here(ask, self._timeout_s + 3600.0 + plan.duration_s)

    def ends(self, plan: Schedule) -> tuple[Run, Run] | None:
        if self._told is None:
            return None
        low, high = (simulated(plan, step_times(self._told, end), self._scheduler()) for end in ENDS)
        return low, high

    def _scheduler(self) -> Scheduler:
        return Scheduler(self._pages, self._page_size, self._slots, self._max_length)


def served_here(ask: ServeAsk, timeout_s: float) -> Run:
    """Requests served in a worker of this machine, by the clock."""
    served = answered("proveout.batching.child", ask, Served, "the worker", timeout_s)
    if served.error:
        raise (Crash if served.failure in ("crash", "timeout", "memory") else CompileError)(served.error)
    return served.run


ENDS: tuple[Literal["low"], Literal["high"]] = ("low", "high")


def _endpoint(
    url: str,
    api: Api | None,
    headers: Mapping[str, str],
    model: str,
    more: Mapping[str, Any],
    seed: int,
    timeout_s: float,
) -> _Session:
    target = endpoint(url, api, headers)
    return _Session(target, model or served_model(target), more, seed, timeout_s)


class _Session:
    """Runs against one endpoint: what they ask for, and how far they are."""

    device = ENDPOINT

    def __init__(self, target: Endpoint, model: str, more: Mapping[str, Any], seed: int, timeout_s: float) -> None:
        self._target, self._model, self._more, self._timeout_s = target, model, more, timeout_s
        self._rng = random.Random(seed)
        self.name, self.words = model, f"{target.url}  {model}"
        self.facts = {"url": target.url, "model": model}
        self.facts |= {"body": json.dumps(dict(more), sort_keys=True)} if more else {}

    def warm(self, plan: Schedule) -> None:
        self.run(plan)

    def ends(self, plan: Schedule) -> None:
        return None

    def run(self, plan: Schedule) -> Run:
        if sum(6 * a.prompt_tokens if not a.prompt else len(a.prompt) for a in plan.asks) > MOST_PROMPT_BYTES:
            raise UsageError("the prompts of this run take more than 1 GiB. Send fewer requests, or shorter prompts.")
        requests = [self._target.request(self._body(ask)) for ask in plan.asks]
        run = Client(self._target, timeout_s=self._timeout_s, most_open=MOST_OPEN).run(
            plan.intended_ns, requests, self._progress if sys.stderr.isatty() else lambda answered, busy, failed: None
        )
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        return run

    def _body(self, ask: Ask) -> dict[str, Any]:
        prompt = ask.prompt or made_up_prompt(ask.prompt_tokens, self._rng)
        return self._target.body(self._model, prompt, ask.max_tokens, self._more)

    @staticmethod
    def _progress(answered: int, busy: int, failed: int) -> None:
        print(f"\r\033[K{answered} answered, {busy} in flight, {failed} failed", end="", file=sys.stderr, flush=True)


def _say(as_json: bool, document: Mapping[str, Any], words: str) -> None:
    if as_json:
        emit_json(document)
    else:
        emit(words)


def _fields(body: str) -> dict[str, Any]:
    try:
        fields = json.loads(body or "{}")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"--body {body[:80]!r} is not a JSON object. Give one such as '{{\"temperature\": 0}}'.")
    return fields


def _headers(lines: list[str]) -> dict[str, str]:
    pairs = [line.partition(":") for line in lines]
    if bad := [name for name, colon, _ in pairs if not colon]:
        raise UsageError(f"--header {bad[0][:80]!r} has no colon. Give NAME: VALUE.")
    return {name.strip(): value.strip() for name, _, value in pairs}

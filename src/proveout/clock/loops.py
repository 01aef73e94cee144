"""The loops that call a model and stamp each call, and nothing else: what is not the model's is kept out of its time.

The plain closed loop takes one stamp a call, which ends it and starts the next. All other ways of calling share one
general loop. Both run in pieces of at most `PIECE_NS`; what must be done now and then is done between two pieces.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import BrokenBarrierError
from typing import Any, Literal

from proveout.clock import histogram
from proveout.clock.histogram import HistogramWriter
from proveout.clock.pacing import Exhausted, clock, wait_until
from proveout.clock.stamps import ORDER, NoRoom, StampWriter

OnError = Literal["fail", "continue", "retry"]
RETRIES = 3
PIECE_NS = 200_000_000
BLOCKS = 64
"""In a piece; see `_blocks`."""
KEPT_OUTPUTS = 8

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class Caller:
    """How one worker calls its model."""

    call: Callable[..., Any]
    arguments: Arguments | None
    """The same for every call, or None where they come from `source`."""
    source: Iterator[Arguments] | None = None
    preprocess: Callable[..., Any] | None = None
    postprocess: Callable[[Any], Any] | None = None
    device_ns: Callable[[], int] | None = None
    """The device's own time for the last call."""
    next_start: Callable[[], int] | None = None
    """When the next call is intended to start; waits for that time. Open loops only."""
    pending: tuple[Arguments, int] | None = None
    """A call that was begun and did not come back."""

    @property
    def is_plain(self) -> bool:
        others = (self.source, self.preprocess, self.postprocess, self.device_ns, self.next_start)
        return all(other is None for other in others)

    @property
    def columns(self) -> tuple[str, ...]:
        return columns(
            plain=self.is_plain,
            intended=self.next_start is not None,
            preprocess=self.preprocess is not None,
            infer=self.postprocess is not None,
            device=self.device_ns is not None,
        )

    def once(self, arguments: Arguments) -> Any:
        """One call with all its parts, unstamped."""
        if self.preprocess is not None:
            arguments = as_arguments(self.preprocess(*arguments[0], **arguments[1]))
        output = self.call(*arguments[0], **arguments[1])
        return output if self.postprocess is None else self.postprocess(output)


def columns(*, plain: bool, **has: bool) -> tuple[str, ...]:
    """The columns of a worker's stamps."""
    if plain:
        return ("end",)
    return tuple(name for name in ORDER if has.get(name, name in ("start", "end")))


def as_arguments(inputs: Any) -> Arguments:
    """What users give as a call's inputs: a tuple is several, a dict is keywords, anything else is one."""
    if isinstance(inputs, tuple):
        return inputs, {}
    if isinstance(inputs, dict):
        return (), inputs
    return (inputs,), {}


@dataclass
class LoopResult:
    """What a worker has to say besides its stamps."""

    calls: int = 0
    errors: int = 0
    traceback: str = ""
    error: BaseException | None = None
    """The first that the model raised."""
    reason: str = ""
    """Why it stopped early; empty if it did not."""
    outputs: list[tuple[Arguments, Any]] = field(default_factory=list)


def measure(
    caller: Caller,
    writer: StampWriter | HistogramWriter,
    *,
    start_ns: int,
    deadline_ns: int,
    limit: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    on_error: OnError = "fail",
    keep: Callable[[Any], Any] | None = None,
) -> LoopResult:
    """Call until the deadline, `limit` calls, the end of the inputs, or `stopped`; `keep` copies outputs to look at."""
    ran = LoopResult()
    try:
        _pieces(caller, writer, ran, start_ns, deadline_ns, limit, stopped, on_error, keep)
    except NoRoom as error:
        ran.reason = str(error)
    return ran


def loop_of(caller: Caller) -> Callable[..., tuple[int, bool, Any, Any]]:
    """The quickest loop that stamps all that this caller does."""
    if caller.is_plain:
        return _plain
    return _drawn if caller.source is not None and caller.columns == ("start", "end") else _general


def _pieces(
    caller: Caller,
    writer: StampWriter | HistogramWriter,
    ran: LoopResult,
    start_ns: int,
    deadline_ns: int,
    limit: int | None,
    stopped: Callable[[], bool],
    on_error: OnError,
    keep: Callable[[Any], Any] | None,
) -> None:
    loop: Callable[..., Any] = _binned if isinstance(writer, HistogramWriter) else loop_of(caller)
    chained = writer.width < 2
    left = limit if limit is not None else 1 << 62
    piece, in_a_row = 1, 0
    keep_at = start_ns
    wait_until(start_ns)
    while left > 0 and not stopped():
        if chained:  # now, when all that is done between two pieces is done
            writer.restart(clock())
        if writer.row == writer.rows:
            writer.grow()
            if chained:
                writer.restart(clock())
        first, began = writer.row, clock()
        last = first + min(piece, writer.rows - first, left)
        done = False
        try:
            writer.row, done, output, arguments = loop(caller, writer, first, last, deadline_ns, keep is not None)
            in_a_row = 0
            wanted = keep is not None and arguments is not None and len(ran.outputs) < KEPT_OUTPUTS
            if wanted and clock() >= keep_at:
                assert keep is not None
                ran.outputs.append((arguments, keep(output)))
                keep_at += (deadline_ns - start_ns) // KEPT_OUTPUTS
        except (Exhausted, BrokenBarrierError):
            writer.row, done = writer.written(first), True
        except Exception as error:
            writer.row = writer.written(first)
            in_a_row = in_a_row + 1 if writer.row == first else 1
            ran.errors += 1
            ran.traceback = ran.traceback or traceback.format_exc()
            ran.error = ran.error or error
            if on_error == "fail" or (on_error == "retry" and in_a_row > RETRIES):
                ran.reason = f"the model raised {type(error).__name__}: {_first_line(error)}"
                done = True
            if on_error == "continue":
                caller.pending = None
            done = done or clock() >= deadline_ns
        left -= writer.row - first
        ran.calls += writer.row - first
        if done:
            break
        spent = clock() - began
        piece = piece * 2 if spent < PIECE_NS // 2 else max(1, piece // 2) if spent > PIECE_NS else piece


def _plain(
    caller: Caller, writer: StampWriter, first: int, last: int, deadline: int, capture: bool
) -> tuple[int, bool, Any, Any]:
    """The closed loop on fixed inputs; with `capture` the last call's output is handed out."""
    assert caller.arguments is not None
    call, now, view = caller.call, clock, writer.view
    args, kwargs = caller.arguments
    until = last - 1 if capture else last
    if len(args) == 1 and not kwargs:
        (x,) = args
        for rows in _blocks(first, until):
            for row in rows:
                call(x)
                view[row] = now()
            if view[rows[-1]] >= deadline:
                return rows[-1] + 1, True, None, None
    else:
        for row in range(first, until):
            call(*args, **kwargs)
            end = now()
            view[row] = end
            if end >= deadline:
                return row + 1, True, None, None
    if not capture:
        return last, False, None, None
    output = call(*args, **kwargs)
    end = now()
    view[until] = end
    return last, end >= deadline, output, caller.arguments


def _blocks(first: int, last: int) -> Iterator[range]:
    """The rows of a piece in blocks of a few milliseconds at most, or of one slow call: the clock is compared with the
    deadline after each."""
    step = max(1, (last - first) // BLOCKS)
    for begin in range(first, last, step):
        yield range(begin, min(begin + step, last))


def _drawn(
    caller: Caller, writer: StampWriter, first: int, last: int, deadline: int, capture: bool
) -> tuple[int, bool, Any, Any]:
    """Inputs that come one by one, and nothing else to stamp than each call's start and end."""
    assert caller.source is not None
    call, now, view = caller.call, clock, writer.view
    again, caller.pending = caller.pending, None
    source = iter(caller.source if again is None else itertools.chain([again[0]], caller.source))
    args: Any = None
    kwargs: dict[str, Any] = {}
    output, at = None, 2 * first - 2
    try:
        for rows in _blocks(first, last - 1 if capture else last):
            starts = range(2 * rows[0], 2 * rows[-1] + 1, 2)
            for at, (args, kwargs) in zip(starts, source):  # in this order, or an input is lost
                view[at] = now()
                if kwargs:
                    call(*args, **kwargs)
                else:
                    call(*args)
                view[at + 1] = now()
            if at < starts[-1]:
                raise Exhausted
            if view[at + 1] >= deadline:
                return at // 2 + 1, True, None, None
        if not capture:
            return last, False, None, None
        arguments = next(source, None)
        if arguments is None:
            raise Exhausted
        at, (args, kwargs) = 2 * last - 2, arguments
        view[at] = now()
        output = call(*args, **kwargs)
        view[at + 1] = now()
        return last, view[at + 1] >= deadline, output, arguments
    except Exception:
        if at >= 2 * first and not view[at + 1]:  # the call raised, not the source
            caller.pending = (args, kwargs), 0
        raise


def _general(
    caller: Caller, writer: StampWriter, first: int, last: int, deadline: int, capture: bool
) -> tuple[int, bool, Any, Any]:
    """Every other loop: inputs that come one by one, arrivals, parts timed alone, the device's own times."""
    call, now, view, width = caller.call, clock, writer.view, writer.width
    preprocess, postprocess, device_ns = caller.preprocess, caller.postprocess, caller.device_ns
    source, next_start = caller.source, caller.next_start
    call_arguments: Any = caller.arguments
    arguments: Any = None
    intended = 0
    again, caller.pending = caller.pending, None
    output = None
    try:
        for row in range(first, last):
            at = row * width
            if again is None:
                if source is not None:
                    call_arguments = None  # what `source` raises is not the last call's
                    call_arguments = next(source, None)
                    if call_arguments is None:
                        raise Exhausted
                if next_start is not None:
                    intended = next_start()
            else:
                (call_arguments, intended), again = again, None
            if next_start is not None:
                view[at] = intended
                at += 1
            view[at] = now()
            at += 1
            arguments = call_arguments
            if preprocess is not None:
                arguments = as_arguments(preprocess(*call_arguments[0], **call_arguments[1]))
                view[at] = now()
                at += 1
            args, kwargs = arguments
            output = call(*args, **kwargs)
            if postprocess is not None:
                view[at] = now()
                at += 1
                postprocess(output)
            end = now()
            if device_ns is not None:
                view[at] = device_ns()
                at += 1
            view[at] = end
            if end >= deadline:
                return row + 1, True, output, arguments
    except Exception:
        if call_arguments is not None:
            caller.pending = call_arguments, intended
        raise
    return last, False, output, arguments


def _binned(
    caller: Caller, writer: HistogramWriter, first: int, last: int, deadline: int, capture: bool
) -> tuple[int, bool, Any, Any]:
    """Any loop that keeps a histogram of whole calls, pre- and postprocessing included, instead of stamps."""
    call, now, bins = caller.call, clock, writer.view
    preprocess, postprocess, source, next_start = (
        caller.preprocess,
        caller.postprocess,
        caller.source,
        caller.next_start,
    )
    fixed: Any = caller.arguments
    start, total, least, largest = writer.start, 0, bins[histogram.LEAST] or 1 << 62, bins[histogram.LARGEST]
    output = arguments = None
    half = histogram.BITS - 1
    try:
        for row in range(first, last):
            call_arguments = fixed
            if source is not None:
                call_arguments = next(source, None)
                if call_arguments is None:
                    raise Exhausted
                start = now()
            if next_start is not None:
                start = next_start()
            arguments = (
                call_arguments
                if preprocess is None
                else as_arguments(preprocess(*call_arguments[0], **call_arguments[1]))
            )
            output = call(*arguments[0], **arguments[1])
            if postprocess is not None:
                postprocess(output)
            end = now()
            took = end - start
            shift = took.bit_length() - histogram.BITS
            bins[histogram.HEAD + (took if shift <= 0 else (shift << half) + (took >> shift))] += 1
            bins[histogram.LAST_END] = end
            total += took
            if took < least:
                least = took
            if took > largest:
                largest = took
            start = end
            if end >= deadline:
                return row + 1, True, output, arguments
        return last, False, output, arguments
    finally:
        bins[histogram.SUM] += total
        bins[histogram.LEAST], bins[histogram.LARGEST] = least, largest


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]

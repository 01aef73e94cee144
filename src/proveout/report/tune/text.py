"""A certificate for the terminal and for pages: what was found, what each decision does, what was not taken and why."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from proveout.report.cause.text import columns
from proveout.report.perf.view import faster, time, without_host
from proveout.tune.certificate import Certificate, Weighed

MOST_CHANGES, MOST_REJECTED = 24, 8


def headline(certificate: Certificate) -> str:
    """One sentence: what was found."""
    c, missing = certificate, without_host(certificate.num_hosted)
    if c.goal == "cure":
        changes = "1 change" if c.changes == 1 else f"{c.changes} changes"
        return f"{changes} of {len(c.decisions)} decisions cure it: PCC {c.start_pcc:.5f} → {min(c.verified_pcc):.5f}"
    call = f"a call on the chip, {missing}" if missing else "a call"
    if c.verified_ns >= c.start_ns:
        return f"nothing is quicker than the start ({time(c.start_ns)} {call}, modelled) with a PCC of {c.pcc}"
    return f"{faster(c.speedup, missing)}, modelled: {time(c.start_ns)} → {time(c.verified_ns)} {call}"


def text(label: str, certificate: Certificate) -> str:
    """All of it, most important first, in lines that fit the terminal."""
    out = textwrap.wrap(f"{label}: {headline(certificate)}", columns(), subsequent_indent="  ")
    for line in lines(certificate):
        out += textwrap.wrap(line, columns(), initial_indent="  ", subsequent_indent="    ") or [""]
    return "\n".join(out)


def lines(certificate: Certificate) -> Iterator[str]:
    c = certificate
    lowest = min(c.verified_pcc[1:], default=0.0)
    yield f"lowest PCC on inputs that the search has not seen: {lowest:.6f} ({c.pcc} asked)"
    furthest = max((call.l2 for call in c.calls[1:]), default=math.inf)
    yield f"largest relative L2 there: {furthest:.4f} (at most {c.l2_limit:.4f}: what noise of that PCC amounts to)"
    if c.top1:
        agreement = min(c.verified_top1[1:], default=0.0)
        yield f"rows whose largest element is the same there: {agreement:.2%} ({c.top1:.2%} asked)"
    rules = (
        "the chip's own rules (faithful)" if c.verified_numerics == "faithful" else "bfloat16 and block floats (fast)"
    )
    yield f"errors measured and the result verified in {rules}"
    if c.goal == "faster":
        if c.greedy_ns is not None:
            yield f"greedy search, for comparison: {time(c.greedy_ns)}; found by: {c.found_by}"
        yield f"proven: no combination within the error budget takes less than {time(c.bound_ns)} (gap {c.gap:.1%})"
    elif c.fewest_changes:
        ran = f"; {c.smaller_refuted} smaller ones were run and failed" if c.smaller_refuted else ""
        yield f"no combination of fewer changes is enough as errors add up{ran}"
    yield ""
    shape = [f"{n}={getattr(c.settings, n)}" for n in SETTINGS if getattr(c.settings, n) != getattr(c.start, n)]
    if shape:
        yield f"for all ops: {', '.join(shape)}"
    changed = [w for w in c.decisions if w.chosen]
    for weighed in changed[:MOST_CHANGES]:
        yield change(weighed)
    if len(changed) > MOST_CHANGES:
        yield f"and {len(changed) - MOST_CHANGES} more: see certificate.json"
    if c.rejected:
        yield ""
        yield "not taken"
        for rejected in c.rejected[:MOST_REJECTED]:
            yield f"{rejected.change}: saves {time(rejected.saves_ns)}; {rejected.reason}"
        if len(c.rejected) > MOST_REJECTED:
            yield f"and {len(c.rejected) - MOST_REJECTED} more: see certificate.json"
    yield from c.notes


SETTINGS = ("memory", "sharding", "products", "math_fidelity", "weights", "overrides")
WHAT = {
    "weights": "weights in {}",
    "result": "result in {}",
    "fidelity": "math fidelity {}",
    "accumulate": "sums in {}",
    "memory": "result in {}",
    "config": "program config: {}",
}

PLACES = {"dram": "DRAM", "height": "height shards", "block": "block shards"}


def change(weighed: Weighed) -> str:
    """One decision that was changed, and what it saves by itself."""
    saves = weighed.saves_ns[weighed.chosen]
    if saves is None:
        how = "pays only together with its neighbours"
    else:
        how = f"saves {time(saves)}" if saves > 0 else f"costs {time(-saves)}" if saves < 0 else "takes as long"
        how += " alone"
    many = f" ({len(weighed.ops)} ops)" if len(weighed.ops) > 1 else ""
    value = weighed.values[weighed.chosen]
    value = PLACES.get(value, value) if weighed.about == "memory" else value
    return f"{weighed.op.removeprefix(':')}{many}: {WHAT[weighed.about].format(value)}; {how}"

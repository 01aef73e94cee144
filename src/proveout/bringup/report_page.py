"""The bring-up report as one HTML file that opens offline: the figures that count, the stages, and what each found."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proveout.bringup.data import (
    CardData,
    DecoderData,
    EndToEndData,
    GraphCause,
    GraphData,
    MissingData,
    ModulesData,
    OpTestsData,
    OptimiseData,
    PerfData,
    StageData,
    SummaryData,
    TraceData,
)
from proveout.bringup.stage import MARKS, StageRecord
from proveout.bringup.subject import Subject
from proveout.report.drawing.assets import STYLE
from proveout.report.drawing.element import Html, el, join, page
from proveout.report.perf.view import time
from proveout.words import rounded

Figure = tuple[str, str, str]
"""(figure, what it is, tone)."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
NO_MATTER = "no-matter"
"""A stage that has nothing to do for this model."""
TONES = {"passed": "passed", "attention": "partial", "failed": "failed", "skipped": "partial", NO_MATTER: "plain"}
WORDS = {
    "passed": "done",
    "attention": "needs a look",
    "failed": "failed",
    "skipped": "skipped",
    NO_MATTER: "does not apply",
}
OWN_STYLE = """
body { max-width: 1180px; }
ol.flow { list-style: none; margin: 0 0 18px; padding: 0; display: grid; gap: 8px;
  grid-template-columns: repeat(auto-fill, minmax(165px, 1fr)); }
ol.flow a { display: block; height: 100%; padding: 10px 12px; background: var(--card); border: 1px solid var(--line);
  border-top: 4px solid var(--line); border-radius: 10px; color: inherit; }
ol.flow a:hover { text-decoration: none; border-color: var(--link); }
ol.flow .passed { border-top-color: var(--good); } ol.flow .failed { border-top-color: var(--bad); }
ol.flow .attention, ol.flow .skipped { border-top-color: var(--warn); }
ol.flow small { display: block; color: var(--dim); font-size: 12px; overflow-wrap: anywhere; }
section.stage > h2 { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: baseline; }
section.stage > h2 small { font-weight: 400; color: var(--dim); font-size: 13px; }
.stage { scroll-margin-top: 10px; } .stage ul { margin: 8px 0 0; padding-left: 20px; overflow-wrap: anywhere; }
.next { margin: 12px 0 0; padding: 8px 12px; border-left: 3px solid var(--link); background: var(--ground);
  border-radius: 0 8px 8px 0; overflow-wrap: anywhere; }
.files { margin: 10px 0 0; font-size: 12px; color: var(--dim); overflow-wrap: anywhere; }
td code { white-space: nowrap; } table { margin-top: 10px; }
.meter { display: inline-block; height: 9px; background: var(--modelled); opacity: .75; border-radius: 3px;
  vertical-align: 0; margin-right: 6px; }
.picture { max-height: 460px; overflow: auto; border: 1px solid var(--line); border-radius: 8px; margin-top: 10px; }
.picture img { display: block; margin: 0 auto; } td.low { color: var(--bad); }
details { margin-top: 10px; } summary { font-weight: 600; font-size: 13px; }
@media (max-width: 760px) { .tile { flex-basis: 44%; } ol.flow { grid-template-columns: 1fr 1fr; }
  td, th { padding: 6px 5px; } }
"""


def render(
    subject: Subject,
    outcomes: Sequence[StageRecord],
    data: Mapping[str, StageData],
    top: Sequence[Figure],
    svg: str,
) -> str:
    """One HTML document."""  # fmt: skip
    workload = subject.bringup.workload
    title = f"Bring-up of {workload.name}"
    subtitle = f"{workload.class_name} on {subject.bringup.device} · PCC ≥ {subject.bringup.settings.pcc} · "
    sections = [_section(o, data.get(o.name), svg) for o in outcomes]
    hint = el("p", subtitle, badge(), " all times; nothing was measured on hardware", class_="hint")
    tiles = el("section", *(_tile(*figure) for figure in top), class_="tiles", aria_label="Key figures")
    flow = el("ol", *map(_flow, outcomes), class_="flow", aria_label="Stages")
    return page(
        title, STYLE + OWN_STYLE, POLICY, el("header", el("h1", title), hint), el("main", tiles, flow, *sections)
    )


def badge() -> Html:
    return el("span", "modelled", class_="badge modelled")


def _tile(figure: str, words: str, tone: str) -> Html:
    return el("div", el("b", figure), el("span", words), class_=f"tile {tone}")


def _flow(outcome: StageRecord) -> Html:
    words = el("b", f"{MARKS[outcome.status]} {outcome.number} {outcome.title}")
    shown = outcome.headline if len(outcome.headline) < 90 else outcome.headline[:89] + "…"
    return el("li", el("a", words, el("small", shown), href=f"#{outcome.name}", class_=_tone(outcome)))


def _tone(outcome: StageRecord) -> str:
    return outcome.status if outcome.applies else NO_MATTER


def _section(outcome: StageRecord, data: StageData | None, svg: str) -> Html:
    words = WORDS[_tone(outcome)]
    chip = el("span", f"{MARKS[outcome.status]} {words}", class_=f"status {TONES[_tone(outcome)]}")
    details = DETAILS[type(data)](data, svg) if type(data) in DETAILS else Html("")
    names = [name for name, _ in outcome.files]
    links = [join(el("a", name, href=name), " ") for name in names[:8]]
    more = f"and {len(names) - 8} more" if len(names) > 8 else ""
    return el(
        "section",
        el("h2", f"{outcome.number} {outcome.title}", chip),
        el("p", *_ticked(outcome.headline), class_="reason failed" if outcome.status == "failed" else None),
        el("ul", *(el("li", *_ticked(finding)) for finding in outcome.findings)) if outcome.findings else "",
        el("p", el("b", "Next: "), *_ticked(outcome.next_step), class_="next") if outcome.next_step else "",
        details,
        el("p", *links, more, class_="files") if names else "",
        id=outcome.name,
        class_="card stage",
    )


def _ticked(text: str) -> list[str | Html]:
    """A text with its commands, which stand in backticks, as code."""
    return [el("code", part) if i % 2 else part for i, part in enumerate(text.split("`"))]


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()) -> Html:
    """A table that scrolls by itself where it is too wide."""
    align = ["number" if i in numeric else None for i in range(len(titles))]
    head = el("tr", *(el("th", t, scope="col", class_=a) for t, a in zip(titles, align)))
    body = [el("tr", *(el("td", cell, class_=a) for cell, a in zip(row, align))) for row in rows]
    return el("div", el("table", el("thead", head), el("tbody", *body)), class_="scroll") if rows else Html("")


def _fold(title: str, content: Html) -> Html:
    return el("details", el("summary", title), content) if content else Html("")


def _pcc(value: float | None) -> str:
    return "–" if value is None else f"{value:.6f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _card(data: CardData, svg: str) -> Html:
    rows = [(name, value.replace("`", "")) for name, value in data.rows]
    io = [("input", n, s) for n, s in data.inputs] + [("output", n, s) for n, s in data.outputs]
    return join(table(("", ""), rows), _fold("Inputs and outputs", table(("", "name", "shape and dtype"), io)))


def _graph(data: GraphData, svg: str) -> Html:
    if not svg:
        return Html("")
    coded = base64.b64encode(svg.encode()).decode()
    link = el("a", "graph.html", href="graph.html")
    picture = el("img", src=f"data:image/svg+xml;base64,{coded}", alt="The model's modules and what flows between them")
    words = el("p", "Modules; in ", link, " they open, coloured by status, PCC or modelled time.", class_="hint")
    return join(words, el("div", picture, class_="picture"))


def _summary(data: SummaryData, svg: str) -> Html:
    return _fold("ATen ops", table(("op", "count"), [(a, str(n)) for a, n in data.ops], (1,)))


def _op_tests(data: OpTestsData, svg: str) -> Html:
    rows = [(t.case, t.knob, _pcc(t.pcc), "" if t.least is None else f"{t.least}", t.refused) for t in data.tried]
    origins = el("ul", *(el("li", line) for line in data.thresholds))
    return join(
        _fold(
            "Every call with every knob", table(("call", "knob", "PCC", "at least", "refused because"), rows, (2, 3))
        ),
        _fold("Where the thresholds come from", origins),
    )


def _modules(data: ModulesData, svg: str) -> Html:
    rows = [(e.attribute, _pcc(e.alone), _pcc(e.accumulated), e.against) for e in data.exactness]
    return _fold("Every module's PCC", table(("module", "alone", "accumulated", "against"), rows, (1, 2)))


def _missing(data: MissingData, svg: str) -> Html:
    rows = [
        (
            el("code", line.aten), str(line.count), line.reason,
            f"{line.transfers} ({line.transfer_share:.0%})",
            "–" if line.time_share is None else f"{line.time_share:.1%}", line.fix,
            el("a", "issue text", href=line.file) if line.file else line.repro,
        )
        for line in data.lines
    ]  # fmt: skip
    titles = ("op", "count", "reason", "transfers", "of the modelled call", "cheapest fix", "")
    return table(titles, rows, (1, 3, 4))


def _end_to_end(data: EndToEndData, svg: str) -> Html:
    rows = [
        (
            r.output, r.inputs, r.against, "✓" if r.passed else "✘", _pcc(r.pcc), _number(r.rel_l2),
            _number(r.max_abs), _number(r.max_ulp), "–" if r.within is None else f"{r.within:.1%}",
            r.reason,
        )
        for r in data.outputs
    ]  # fmt: skip
    titles = (
        "output", "inputs", "against", "", "PCC", "relative L2", "max |Δ|", "max ULP (bf16)", "within 2 %", "",
    )  # fmt: skip
    return join(table(titles, rows, (4, 5, 6, 7, 8)), *(_why(graph) for graph in data.why))


def _why(graph: GraphCause) -> Html:
    """Where the error of one graph comes from."""
    coded = base64.b64encode(graph.svg.encode()).decode()
    drawn = el("img", src=f"data:image/svg+xml;base64,{coded}", alt=" ".join(graph.said))
    return join(el("p", " ".join(graph.said), class_="hint"), el("div", drawn, class_="picture"))


def _optimise(data: OptimiseData, svg: str) -> Html:
    rows = [("everything in bfloat16, in DRAM", time(data.start_ns), "", "", "start")]
    for t in data.trials:
        then = time(t.ns) if t.ns is not None else "–"
        saved = "" if t.ns is None else time(t.saves_ns) if t.saves_ns >= 0 else f"-{time(-t.saves_ns)}"
        rows.append((t.change, then, saved, _pcc(t.pcc) if t.pcc is not None else "", t.verdict))
    return join(
        el("p", badge(), " times of one call in a trace"), table(("tried", "then", "saves", "PCC", ""), rows, (1, 2, 3))
    )


def _perf(data: PerfData, svg: str) -> Html:
    rows = [
        (
            join(el("span", "", class_="meter", style=f"width:{max(1, 60 * r.share):.0f}px"), f"{r.share:.1%}"),
            r.op, str(r.count), time(r.ns), str(r.cores or ""),
            "–" if r.utilisation is None else f"{min(r.utilisation, 9.99):.0%}", r.bound, r.shapes,
        )
        for r in data.rows[:12]
    ]  # fmt: skip
    titles = ("share", "operation", "n", "time", "cores", "util.", "bound", "operands")
    advice = [(str(i), a.change, time(a.saves_ns), time(a.then_ns), a.how) for i, a in enumerate(data.advice, 1)]
    return join(
        el("p", badge(), " sorted by cost; utilisation = (PM ideal ÷ kernel) × (grid cores ÷ its cores)"),
        table(titles, rows, (2, 3, 4, 5)),
        el("h3", "What would save more, each on top of those above"),
        table(("", "change", "saves", "then", "how"), advice, (2, 3)),
        *(
            (
                el("h3", "What takes time that no setting saves"),
                table(("what", "at most", "why"), [(n.what, time(n.takes_ns), n.why) for n in data.notes], (1,)),
            )
            if data.notes
            else ()
        ),
    )


def _trace(data: TraceData, svg: str) -> Html:
    rows = [(r.mode, *("–" if ns is None else time(ns) for ns in (r.plan_ns, r.written_ns))) for r in data.rows]
    words = " a call, on the chip: the optimised model's plan, and ttnn_model.py as written on the modelled clock"
    return join(el("p", badge(), words), table(("", "optimised", "ttnn_model.py"), rows, (1, 2)))


def _decoder(data: DecoderData, svg: str) -> Html:
    def spread(ns: float | None, ends: Sequence[float] | None) -> str:
        return "–" if ns is None else time(ns) if ends is None else f"{time(ns)} ({time(ends[0])} to {time(ends[1])})"

    rows = [
        (
            str(r.users), str(r.prompt), spread(r.ttft_ns, r.ttft_interval_ns),
            spread(r.tpot_ns, r.tpot_interval_ns),
            f"{rounded(r.tokens_per_s)} ({rounded(r.slowest)} to {rounded(r.quickest)})",
            f"{r.weight_bytes / 1e6:,.4g} MB",
            f"{r.cache_bytes / 1e6:,.3g} MB", "–" if r.longest_context is None else f"{r.longest_context:,}",
            f"{r.largest_batch:,}",
        )
        for r in data.rows
    ]  # fmt: skip
    titles = (
        "users", "prompt", "TTFT", "TPOT", "tokens/s/user", "weights", "cache", "longest context", "largest batch",
    )  # fmt: skip
    words = " times in a trace with their 80 % interval; a token over a full cache"
    return join(el("p", badge(), words), table(titles, rows, tuple(range(9))))


DETAILS: dict[type, Callable[[Any, str], Html]] = {
    CardData: _card,
    GraphData: _graph,
    SummaryData: _summary,
    OpTestsData: _op_tests,
    ModulesData: _modules,
    MissingData: _missing,
    EndToEndData: _end_to_end,
    OptimiseData: _optimise,
    PerfData: _perf,
    TraceData: _trace,
    DecoderData: _decoder,
}
"""What each stage shows beside its findings."""

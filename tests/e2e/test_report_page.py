"""The HTML report in a real browser: it opens offline, asks for nothing, filters, sorts and fits a narrow window."""

from __future__ import annotations

import pytest

from proveout.report import write
from proveout.store import Store
from proveout.types import Comparison, Coverage, Job, OpStatus, Record, Timing, Workload

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def report(tmp_path):
    store = Store(tmp_path / "cache")
    for name, kind, ns in (("quick", "modelled", 2_000_000), ("slow", "measured", 9_000_000)):
        store.write(
            Record(
                Job(Workload(name, f"{name}.py", name)),
                "passed",
                coverage=Coverage((OpStatus("n", "aten.sort.default", "host", "no row in the op table"),), 2, 1),
                comparisons=(Comparison("output", "out", 0.9991, 0.01, 0.1, 0.99, True),),
                timings=(Timing("eager", "measured", "cpu", (5_000_000,)), Timing("compiled", kind, "sim", (ns,))),
                created="2026-01-01T00:00:00+00:00",
            )
        )
    store.write(Record(Job(Workload("wrong", "wrong.py", "wrong")), "failed", "PCC 0.5 is below 0.99", "numerics"))
    write(store, tmp_path / "out")
    return tmp_path / "out" / "report.html"


@pytest.fixture
def page(chromium):
    opened = chromium.new_page(viewport={"width": 1280, "height": 900})
    opened.asked = []
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.on("pageerror", lambda error: pytest.fail(str(error)))
    yield opened
    opened.close()


def test_it_asks_for_nothing_but_itself(page, report):
    page.goto(report.as_uri())
    assert page.asked == [report.as_uri()]
    assert page.get_by_text("PCC 0.5 is below 0.99").first.is_visible()


def test_filter_by_text_and_by_kind(page, report):
    page.goto(report.as_uri())
    rows = page.locator("tbody tr:visible").filter(has_text=".py").or_(page.locator("tbody tr:visible"))
    assert "quick" in page.locator("tbody").first.inner_text()
    page.get_by_placeholder("Filter").fill("slow")
    text = page.locator("tbody").first.inner_text()
    assert "slow" in text
    assert "quick" not in text
    assert rows.count() >= 1


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overflows_the_window(page, report, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_measured_and_modelled_are_told_apart(page, report):
    page.goto(report.as_uri())
    table = page.locator("tbody").first.inner_text()
    assert "modelled" in table
    assert "measured" in table


def test_a_model_s_page_is_put_together_when_it_is_opened(page, report):
    page.goto(report.as_uri())
    assert page.locator(".model h3").count() == 0
    page.locator("#models a", has_text="quick").click()
    assert page.locator(".model[open] h3").first.inner_text() == "Op conversion"
    assert page.locator(".model[open]").count() == 1
    page.goto(page.url)
    assert page.locator(".model[open] h3").first.is_visible()


def test_sorting_reverses_on_a_second_click(page, report):
    page.goto(report.as_uri())
    names = page.locator("#models tbody tr .col-model a")
    heading = page.locator("#models th button", has_text="Model")
    heading.click()
    first = names.all_inner_texts()
    heading.click()
    assert names.all_inner_texts() == first[::-1] == ["wrong", "slow", "quick"]

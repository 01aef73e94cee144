"""The page of whole models says what hand-written Programs are predicted now, and lists every one that is off."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "whole-models.md"


@pytest.fixture(scope="module")
def rows():
    sys.path.insert(0, str(ROOT / "examples" / "whole_models"))
    try:
        import page

        return [row for one in page.published() if (row := page.predicted(one)) is not None]
    finally:
        sys.path.pop(0)


def test_every_row_is_on_the_page_as_it_is_predicted(rows):
    text = PAGE.read_text()
    for row in rows:
        told = row.published
        line = f"| {told.ms:.3g} ms | {row.ms:.3g} ms | {row.low:.3g} to {row.high:.3g} ms | {row.error:+.0%} |"
        assert line in text, (told.model, told.chip)
    median = statistics.median(abs(row.error) for row in rows)
    assert f"The median error is **{median:.0%}** over {len(rows)} rows" in text
    assert (ROOT / "docs" / "images" / "whole-models.svg").read_text().count("<circle") == len(rows)


def test_every_model_outside_its_interval_is_listed_and_most_are_inside_a_factor_of_two(rows):
    listed = PAGE.read_text().partition("**Outside their interval:**")[2].partition("## ")[0]
    outside = [row for row in rows if not row.inside]
    assert listed.count("- **") == len(outside)
    for row in outside:
        assert f"**{row.published.model}** on {row.published.chip}" in listed
    assert all(0.5 < row.ms / row.published.ms < 2.0 for row in rows)


def test_bert_resnet_a_llama_layer_and_a_vit_are_written_by_hand_for_both_chips(rows):
    found = {(row.published.model, row.published.chip) for row in rows}
    for model in ("sentence_bert", "vit-base", "resnet50"):
        assert {(model, "n150"), (model, "p150")} <= found
    assert ("llama-3.1-8b decode layer", "n150") in found


def test_a_slower_program_is_put_beside_its_hand_written_one_and_the_differences_are_told(rows):
    told = PAGE.read_text().partition("## What our compiler makes of them")[2]
    for model in ("resnet50", "vit-base", "sentence_bert"):
        for chip in ("n150", "p150"):
            written = next(r for r in rows if (r.published.model, r.published.chip) == (model, chip))
            kernels = sum(ms for _, ms in written.spent)
            line = next(line for line in told.splitlines() if line.startswith(f"- **{model}** on {chip}: "))
            total = float(line.partition(": ")[2].partition(" ms")[0])
            pairs = [part for part in line.split(", ") if " against " in part]
            differences = [float(part.partition(" ms (")[0].rpartition(" ")[2]) for part in pairs]
            assert f"Beside the {kernels:.3g} ms of kernels of the hand-written Program: " in line
            assert sum(differences) == pytest.approx(total - kernels, abs=0.2 * total)

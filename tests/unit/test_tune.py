"""The greedy search keeps what pays and holds, and backs off where the error grows too large."""

from __future__ import annotations

from dataclasses import dataclass, field

from proveout.tune.greedy import search
from proveout.types import Settings

BASE = Settings(precision="bfloat16", memory="dram", sharding="interleaved", products="default")


@dataclass
class Table:
    """Costs from a rule, and what was asked of it."""

    least_fidelity: str = "LoFi"
    bears: tuple[str, ...] = ()
    asked: list[Settings] = field(default_factory=list)
    changes: int = 100
    """That there is time for."""

    def in_time(self) -> bool:
        self.changes -= 1
        return self.changes >= 0

    def ns(self, settings: Settings) -> int | None:
        self.asked.append(settings)
        ns = 1000
        ns -= 100 * (settings.memory == "auto")
        ns -= {"LoFi": 300, "HiFi2": 200, "HiFi3": 100}.get(settings.math_fidelity or "", 0)
        ns -= {"bfloat8_b": 200}.get(settings.weights, 0)
        ns -= sum({"bfloat8_b": 50, "bfloat4_b": 20}.get(d, 0) for _, d in settings.overrides)
        return None if settings.sharding == "auto" else ns

    def pcc(self, settings: Settings) -> float:
        order = ("LoFi", "HiFi2", "HiFi3")
        coarse = settings.math_fidelity in order[: order.index(self.least_fidelity)]
        packed = settings.weights == "bfloat8_b" and not self.bears
        wrong = any(d == "bfloat4_b" and p not in self.bears for p, d in settings.overrides)
        return (
            0.9 if coarse or wrong or (settings.weights == "bfloat8_b" and "all" not in self.bears) or packed else 0.999
        )

    def weights(self) -> dict[str, int]:
        return {"layers.0.dense": 10, "layers.1.dense": 10, "head": 30}


def test_what_pays_and_holds_is_kept_and_what_does_not_compile_is_passed_by():
    tuned = search(BASE, Table(bears=("all", "head")), 0.99)
    assert tuned.settings.memory == "auto"
    assert tuned.settings.sharding == "interleaved"
    assert tuned.settings.weights == "bfloat8_b"
    assert tuned.settings.overrides == (("head", "bfloat4_b"),)
    verdicts = {t.change: t.verdict for t in tuned.trials}
    assert verdicts["results in shards over all cores"] == "does not compile"
    assert verdicts["weights of layers.*.dense in bfloat4_b"] == "too far off"
    assert tuned.ns == 1000 - 100 - 300 - 200 - 20
    assert tuned.speedup == 1000 / 380


def test_fidelity_starts_at_lofi_and_backs_off():
    tuned = search(BASE, Table(least_fidelity="HiFi3", bears=("all",)), 0.99)
    tried = [t.change for t in tuned.trials if "fidelity" in t.change]
    assert tried == ["math fidelity LoFi", "math fidelity HiFi2", "math fidelity HiFi3"]
    assert tuned.settings.math_fidelity == "HiFi3"


def test_weights_back_off_part_by_part_with_alike_layers_together():
    tuned = search(BASE, Table(bears=("head", "layers.*.dense")), 0.99)
    assert tuned.settings.weights == "same"
    assert ("layers.*.dense", "bfloat8_b") in tuned.settings.overrides
    assert all(t.saves_ns >= 0 for t in tuned.trials if t.verdict == "kept")


def test_the_last_change_can_be_taken_back():
    tuned = search(BASE, Table(bears=("all", "head")), 0.99)
    back = tuned.without_last()
    assert back.settings == tuned.kept[-2].settings
    assert back.ns == tuned.ns + 20
    while back.kept:
        back = back.without_last()
    assert (back.settings, back.ns) == (BASE, 1000)


class TogetherOnly(Table):
    """Results in L1 cost more by themselves, and less with program configs."""

    def ns(self, settings: Settings) -> int | None:
        together = settings.memory == "auto" and settings.products == "configured"
        return 800 if together else 1100 if settings.memory == "auto" else 1000


def test_two_changes_that_pay_only_together_are_tried_together():
    tuned = search(BASE, TogetherOnly(), 0.99)
    assert (tuned.settings.memory, tuned.settings.products) == ("auto", "configured")
    assert [t.verdict for t in tuned.trials[:2]] == ["gain too small", "kept"]


def test_out_of_time_what_was_kept_stays_and_nothing_more_is_asked():
    table = Table(bears=("all", "head"), changes=1)
    tuned = search(BASE, table, 0.99)
    assert [t.verdict for t in tuned.trials][:2] == ["kept", "out of time"]
    assert {t.verdict for t in tuned.trials[1:]} == {"out of time"}
    assert tuned.settings == table.asked[-1]
    assert (tuned.settings.memory, tuned.ns) == ("auto", 900)

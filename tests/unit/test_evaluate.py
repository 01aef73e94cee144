"""Claims about evaluate and its metrics: scikit-learn's numbers, honest gaps, own metrics, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

import proveout
from proveout.errors import UsageError
from proveout.measure import metrics as m

RNG = np.random.default_rng(0)
LABELS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60)


def value(name, output, target, **arguments):
    judge = m.metric(name)(**arguments)
    judge.process_record(output, target)
    return type(judge).aggregate([judge])


def binary_reference(wanted, found):
    tn, fp, fn, tp = sk.confusion_matrix(wanted, found, labels=[0, 1]).ravel()
    return {
        "accuracy": sk.accuracy_score(wanted, found),
        "recall": sk.recall_score(wanted, found),
        "precision": sk.precision_score(wanted, found),
        "f1": sk.f1_score(wanted, found),
        "specificity": sk.recall_score(wanted, found, pos_label=0),
        "threat_score": sk.jaccard_score(wanted, found),
        "NegativePredictiveValue": sk.precision_score(wanted, found, pos_label=0),
        "FalseDiscoveryRate": fp / (fp + tp),
        "FalseOmissionRate": fn / (fn + tn),
        "FalsePositiveRate": fp / (fp + tn),
        "FalseNegativeRate": fn / (fn + tp),
        "PositiveLikelihoodRatio": sk.class_likelihood_ratios(wanted, found)[0],
        "NegativeLikelihoodRatio": sk.class_likelihood_ratios(wanted, found)[1],
    }


def test_two_classes_give_scikit_learns_numbers():
    wanted, found = RNG.integers(0, 2, 400), RNG.integers(0, 2, 400)
    for name, expected in binary_reference(wanted, found).items():
        assert value(name, found, wanted).value == pytest.approx(expected), name


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_many_classes_are_averaged_as_scikit_learn_does(average):
    wanted, found = RNG.integers(0, 5, 300), RNG.integers(0, 6, 300)
    for name, reference in (("recall", sk.recall_score), ("precision", sk.precision_score), ("f1", sk.f1_score)):
        expected = reference(wanted, found, average=average, zero_division=0)
        assert value(name, found, wanted, average=average).value == pytest.approx(expected), name
    assert value("accuracy", found, wanted).value == pytest.approx(sk.accuracy_score(wanted, found))


def test_scores_are_classes_by_their_largest_and_probabilities_by_the_threshold():
    scores, wanted = RNG.normal(size=(200, 7)), RNG.integers(0, 7, 200)
    assert value("accuracy", scores, wanted).value == pytest.approx(sk.accuracy_score(wanted, scores.argmax(1)))
    share, yes = RNG.random(200), RNG.integers(0, 2, 200)
    assert value("recall", share, yes, threshold=0.3).value == pytest.approx(sk.recall_score(yes, share > 0.3))
    for k in (1, 3, 6):
        expected = sk.top_k_accuracy_score(wanted, scores, k=k, labels=range(7))
        assert value("topk", scores, wanted, k=k).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("output", "target", "share"),
    [
        ([[0.1, 0.9, 0.0]], 1, 1.0),
        ([[0.1, 0.9, 0.0]], 2, 0.0),
        ([[0.2], [0.9]], [0, 1], 1.0),
        ([[0.9]], 1, 1.0),
        ([0.9], 1, 1.0),
        ([[0.2, 0.9]], [[0, 1]], 1.0),
        ([[0.2, 0.8], [0.7, 0.3]], [1, 1], 0.5),
    ],
)
def test_a_target_may_lack_the_batch_of_one_and_a_probability_may_have_a_dimension_of_one(output, target, share):
    assert value("accuracy", torch.tensor(output), torch.tensor(target)).value == share


def test_classes_may_stand_at_the_end_as_transformers_give_them():
    """Scores (batch, word, class) for a class of each word; behind the batch they are taken first, as by a loss."""
    scores, wanted = RNG.normal(size=(6, 5, 7)), RNG.integers(0, 7, (6, 5))
    for output in (scores, np.moveaxis(scores, -1, 1)):
        for name, options in (("accuracy", {}), ("topk", {"k": 1})):
            found = value(name, output, wanted, **options).value
            assert found == pytest.approx((scores.argmax(-1) == wanted).mean())
    with pytest.raises(UsageError, match=r"outputs of shape \(6, 5, 7\) for targets of shape \(6, 4\)"):
        value("accuracy", scores, wanted[:, :4])


def test_errors_are_scikit_learns():
    found, wanted = RNG.normal(size=(50, 3)), RNG.normal(size=(50, 3))
    assert value("mae", found, wanted).value == pytest.approx(sk.mean_absolute_error(wanted.ravel(), found.ravel()))
    assert value("MSE", found, wanted).value == pytest.approx(sk.mean_squared_error(wanted.ravel(), found.ravel()))


@settings(max_examples=60, deadline=None)
@given(LABELS, st.integers(1, 5))
def test_parts_aggregate_to_the_whole_and_a_gap_has_a_reason(pairs, num_parts):
    wanted, found = np.array(pairs).T
    for name in ("accuracy", "recall", "precision", "specificity", "f1", "PositiveLikelihoodRatio"):
        whole = value(name, found, wanted)
        parts = [m.metric(name)() for _ in range(num_parts)]
        for i, part in enumerate(parts):
            if len(wanted[i::num_parts]):
                part.process_record(found[i::num_parts], wanted[i::num_parts])
        assert m.metric(name).aggregate(parts) == whole
        if whole.value is None:
            assert "divide by" in whole.reason
        elif whole.low is not None:
            assert 0 <= whole.low <= whole.value <= whole.high <= 1


def test_wilsons_interval_covers_the_truth():
    truth, n = 0.93, 200
    hits = RNG.binomial(n, truth, 2000)
    covered = np.mean([(e := m.binomial(h, n)).low <= truth <= e.high for h in hits])
    assert 0.93 <= covered <= 0.975


class Last(torch.nn.Module):
    """Scores the class that the last column says."""

    def forward(self, x):
        return torch.nn.functional.one_hot(x[:, -1].long(), 3).float()


class Numbers(torch.utils.data.Dataset):
    """30 items, of which every tenth has another label."""

    def __len__(self):
        return 30

    def __getitem__(self, i):
        return torch.tensor([1.0, float(i % 3)]), (i + (i % 10 == 0)) % 3


def test_a_dataset_is_run_whole_and_each_metric_is_in_the_report():
    [report] = proveout.evaluate(Last, Numbers(), metrics=["accuracy", "topk"], batch_size=8)
    assert report["accuracy"] == pytest.approx(27 / 30)
    assert report["accuracy_low"] < 0.9 < report["accuracy_high"]
    assert report["topk"] == 1.0
    assert report["total_infs"] == 30, "the last batch is smaller"
    assert report["total_calls"] == 4
    assert report["model_name"] == "Last"
    assert report["infer_avg_ms"] <= report["e2e_avg_ms"]


def test_any_iterable_with_the_target_in_any_column_will_do():
    batches = [
        (torch.tensor([2, 1]), torch.tensor([[0.0, 2.0], [0.0, 1.0]])),
        (torch.tensor([0]), torch.tensor([[0.0, 1.0]])),
    ]
    [report] = proveout.evaluate(Last(), batches, "accuracy", eval_target_col=0)
    assert report["accuracy"] == pytest.approx(2 / 3)


def test_a_compiled_model_and_a_device_are_evaluated_too():
    model, dataset = torch.nn.Sequential(torch.nn.Linear(2, 3)).eval(), Numbers()
    example = torch.utils.data.default_collate([dataset[i][0] for i in range(10)])
    compiled = proveout.compile(model, example, device="sim")
    reports = [
        proveout.evaluate(model, dataset, batch_size=10)[0],
        proveout.evaluate(compiled, dataset, batch_size=10)[0],
        proveout.evaluate(model, dataset, batch_size=10, device_type="sim")[0],
    ]
    assert reports[1]["accuracy"] == reports[2]["accuracy"]
    assert abs(reports[0]["accuracy"] - reports[1]["accuracy"]) <= 0.1
    assert reports[1]["device_type"] == reports[2]["device_type"] == "sim:n150"


def test_a_saved_model_and_an_index_of_several_are_evaluated(tmp_path):
    model, dataset = torch.nn.Sequential(torch.nn.Linear(2, 3)).eval(), Numbers()
    paths = {}
    for size in (5, 10):
        compiled = proveout.compile(model, torch.zeros(size, 2), device="sim")
        paths[size] = compiled.save(tmp_path / f"b{size}")
    [alone] = proveout.sim.evaluate(paths[10], dataset, batch_size=10)
    assert (alone["device_type"], alone["model_filename"]) == ("sim:n150", str(paths[10]))
    entries = [proveout.model_index.create(path, "net", batch_size=size) for size, path in paths.items()]
    index = proveout.model_index.save(proveout.model_index.append(*entries), tmp_path / "net.json")
    [five] = proveout.evaluate(index, dataset, batch_size=5)
    assert (five["model_filename"], five["total_calls"]) == (str(paths[5]), 6)
    assert five["accuracy"] == alone["accuracy"]
    with pytest.raises(UsageError, match="no model of the index"):
        proveout.evaluate(index, dataset, batch_size=3)
    with pytest.raises(UsageError, match="was compiled for 'sim"):
        proveout.evaluate(paths[10], dataset, device_type="cpu")


def test_functions_before_and_after_the_model_are_called():
    [report] = proveout.evaluate(
        Last(), Numbers(), batch_size=5, preprocess_fn=lambda x: (x + 0,), postprocess_fn=lambda y: y.argmax(-1)
    )
    assert report["accuracy"] == pytest.approx(0.9)


def test_own_metrics_and_variants_can_be_registered(monkeypatch, capsys):
    monkeypatch.setattr(m, "_METRICS", dict(m._METRICS))

    class Passing(proveout.BaseEvalMetric):
        """Calls whose outputs are all right."""

        def __init__(self):
            self.passing = self.processed = 0

        def process_record(self, output, target):
            self.processed += 1
            self.passing += bool((output.argmax(-1) == target).all())

        @staticmethod
        def aggregate(metrics):
            metrics = list(metrics)
            return sum(p.passing for p in metrics) / sum(p.processed for p in metrics)

    proveout.register_metric("Passing", Passing)
    proveout.register_metric_from_existing("topk", "topk_1", k=1)
    [report] = proveout.evaluate(Last(), Numbers(), ["Passing", "topk_1"], batch_size=10)
    assert (report["Passing"], report["topk_1"]) == (0.0, pytest.approx(0.9))
    proveout.list_metrics()
    out = capsys.readouterr().out
    assert "topk with k=1" in out
    assert "Calls whose outputs are all right." in out
    assert "Alias for TruePositiveRate" in out
    with pytest.raises(UsageError, match="already"):
        proveout.register_metric("passing", Passing)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: proveout.evaluate(Last(), [], "accuracy"), "dataset is empty"),
        (lambda: proveout.evaluate(Last(), [1], "accuracy"), "each must be"),
        (lambda: proveout.evaluate(Last(), Numbers(), "acuracy"), "Did you mean 'Accuracy'"),
        (lambda: proveout.evaluate(Last(), Numbers(), []), "at least one metric"),
        (lambda: proveout.evaluate(3, Numbers()), "a model of type int"),
        (lambda: proveout.evaluate(Last(), [(1, 2)], batch_size=3), "for a torch Dataset"),
        (lambda: proveout.evaluate(Last(), Numbers(), eval_target_col=5), "has 2 columns"),
        (lambda: proveout.register_metric("x", len), "extends"),
        (lambda: value("accuracy", np.zeros((4, 3)), np.zeros((2,))), "postprocess_fn"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(call, says):
    with pytest.raises(UsageError, match=says):
        call()

"""How good are a model's outputs? NeuronPerf's metrics by name, each with an interval, and registration of own ones.

A metric sees every output with its target (`process_record`) and gives one number at the end (`aggregate`). Classes are
labels, or scores with one dimension more than the target, whose largest wins; scores of the target's own shape are
probabilities of the class 1. With more than two classes, rates are averaged over classes as scikit-learn does it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from proveout.clock.statistics import Estimate
from proveout.errors import UsageError, unknown

AVERAGES = ("macro", "micro", "weighted")
NORMAL_97_5 = 1.959963984540054


class BaseEvalMetric(ABC):
    """What an own metric extends. Several may share the work; `aggregate` combines them into one result."""

    @abstractmethod
    def process_record(self, output: Any = None, target: Any = None) -> None:
        """Take the output of one call and its target."""

    @staticmethod
    def aggregate(metrics: Iterable[Any]) -> Any:
        """A number, or an Estimate where it has an interval or a reason for being unknown."""
        raise NotImplementedError


class Confusion(NamedTuple):
    """Of one class: true and false, positives and negatives."""

    tp: int
    fp: int
    fn: int
    tn: int

    @property
    def tpr(self) -> float:
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else math.nan

    @property
    def fpr(self) -> float:
        return self.fp / (self.fp + self.tn) if self.fp + self.tn else math.nan


Ratio = Callable[[Confusion], tuple[float, float]]
RATIOS: dict[str, tuple[str, Ratio]] = {
    "TruePositiveRate": ("TP / (TP + FN)", lambda r: (r.tp, r.tp + r.fn)),
    "TrueNegativeRate": ("TN / (TN + FP)", lambda r: (r.tn, r.tn + r.fp)),
    "PositivePredictiveValue": ("TP / (TP + FP)", lambda r: (r.tp, r.tp + r.fp)),
    "NegativePredictiveValue": ("TN / (TN + FN)", lambda r: (r.tn, r.tn + r.fn)),
    "FalseNegativeRate": ("FN / (FN + TP)", lambda r: (r.fn, r.fn + r.tp)),
    "FalsePositiveRate": ("FP / (FP + TN)", lambda r: (r.fp, r.fp + r.tn)),
    "FalseDiscoveryRate": ("FP / (FP + TP)", lambda r: (r.fp, r.fp + r.tp)),
    "FalseOmissionRate": ("FN / (FN + TN)", lambda r: (r.fn, r.fn + r.tn)),
    "ThreatScore": ("TP / (TP + FN + FP)", lambda r: (r.tp, r.tp + r.fn + r.fp)),
    "F1Score": ("2TP / (2TP + FN + FP)", lambda r: (2 * r.tp, 2 * r.tp + r.fn + r.fp)),
    "PositiveLikelihoodRatio": ("TPR / FPR", lambda r: (r.tpr, r.fpr)),
    "NegativeLikelihoodRatio": ("FNR / TNR", lambda r: (1 - r.tpr, 1 - r.fpr)),
    "PrevalenceThreshold": (
        "sqrt(FPR) / (sqrt(FPR) + sqrt(TPR))",
        lambda r: (math.sqrt(r.fpr), math.sqrt(r.fpr) + math.sqrt(r.tpr)),
    ),
}
COUNTED = {name for name in RATIOS if "Rate" in name or "Value" in name or name == "ThreatScore"}
"""Those that are a share of counted samples, so that a binomial interval holds for them."""
ALIASES = {
    "Sensitivity": "TruePositiveRate",
    "Recall": "TruePositiveRate",
    "Hit Rate": "TruePositiveRate",
    "Specificity": "TrueNegativeRate",
    "Selectivity": "TrueNegativeRate",
    "Precision": "PositivePredictiveValue",
    "F1": "F1Score",
    "MAE": "MeanAbsoluteError",
    "MSE": "MeanSquaredError",
    "top-k": "topk",
}


class ClassMetric(BaseEvalMetric):
    """Counts (target, prediction) pairs, whatever the labels; a ratio of RATIOS is made of them at the end."""

    ratio: ClassVar[str] = ""

    def __init__(self, positive: int = 1, threshold: float = 0.5, average: str = "macro") -> None:
        if average not in AVERAGES:
            raise unknown("average", average, AVERAGES)
        self.positive, self.threshold, self.average = positive, threshold, average
        self.pairs: Counter[tuple[int, int]] = Counter()

    def process_record(self, output: Any = None, target: Any = None) -> None:
        predicted, wanted = labels(output, target, self.threshold)
        self.pairs.update(zip(wanted.tolist(), predicted.tolist()))

    @staticmethod
    def aggregate(metrics: Iterable[Any]) -> Estimate:
        parts = list(metrics)
        pairs: Counter[tuple[int, int]] = sum((m.pairs for m in parts), Counter())
        classes = sorted({label for pair in pairs for label in pair})
        if not classes:
            return Estimate(None, reason="the dataset gave no targets")
        first = parts[0]
        if set(classes) <= {0, 1}:
            return _ratio(first.ratio, _rates(pairs, first.positive))
        return _averaged(first.ratio, {c: _rates(pairs, c) for c in classes}, first.average)


class Accuracy(ClassMetric):
    """The share of all samples whose class is right, with any number of classes."""

    @staticmethod
    def aggregate(metrics: Iterable[Any]) -> Estimate:
        pairs: Counter[tuple[int, int]] = sum((m.pairs for m in metrics), Counter())
        return binomial(sum(n for (wanted, predicted), n in pairs.items() if wanted == predicted), pairs.total())


class TopK(BaseEvalMetric):
    """The share of samples whose class is among the k largest scores."""

    def __init__(self, k: int = 5) -> None:
        if k < 1:
            raise UsageError(f"topk with k={k}: give at least 1.")
        self.k, self.right, self.seen = k, 0, 0

    def process_record(self, output: Any = None, target: Any = None) -> None:
        scores, wanted = _tensor(output), _tensor(target)
        scores = scores.unsqueeze(0) if scores.ndim == 1 else scores
        dim = class_dim(scores, wanted)
        classes = scores.movedim(dim, -1).reshape(-1, scores.shape[dim])
        best = classes.topk(min(self.k, classes.shape[-1]), dim=-1).indices
        flat = wanted.reshape(-1, 1)
        if len(flat) != len(best):
            raise UsageError(f"scores of shape {tuple(scores.shape)} for targets of shape {tuple(wanted.shape)}.")
        self.right += int((best == flat).any(-1).sum())
        self.seen += len(flat)

    @staticmethod
    def aggregate(metrics: Iterable[Any]) -> Estimate:
        parts = list(metrics)
        return binomial(sum(m.right for m in parts), sum(m.seen for m in parts))


class Error(BaseEvalMetric):
    """The mean of a power of the differences; sums are exact in float64 enough for any dataset."""

    power: ClassVar[int] = 1

    def __init__(self) -> None:
        self.sum, self.squares, self.seen = 0.0, 0.0, 0

    def process_record(self, output: Any = None, target: Any = None) -> None:
        predicted, wanted = _tensor(output).double(), _tensor(target).double()
        if predicted.numel() != wanted.numel():
            raise UsageError(f"outputs of shape {tuple(predicted.shape)} for targets of shape {tuple(wanted.shape)}.")
        errors = (predicted.reshape(-1) - wanted.reshape(-1)).abs() ** self.power
        self.sum += float(errors.sum())
        self.squares += float((errors**2).sum())
        self.seen += errors.numel()

    @staticmethod
    def aggregate(metrics: Iterable[Any]) -> Estimate:
        parts = list(metrics)
        total, squares, n = (sum(getattr(m, name) for m in parts) for name in ("sum", "squares", "seen"))
        if n == 0:
            return Estimate(None, reason="the dataset gave no targets")
        mean = total / n
        if n < 30:
            return Estimate(mean, reason=f"an interval needs 30 values; there are {n}", needs=30)
        half = NORMAL_97_5 * math.sqrt(max(squares / n - mean**2, 0.0) / (n - 1))
        return Estimate(mean, mean - half, mean + half)


class MeanAbsoluteError(Error):
    power = 1


class MeanSquaredError(Error):
    power = 2


def labels(output: Any, target: Any, threshold: float = 0.5) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Predicted and wanted classes, one dimension each."""
    scores, wanted = _tensor(output), _tensor(target)
    predicted = scores
    if predicted.numel() == wanted.numel():  # labels, or probabilities of one class: (N, 1) for (N,) too
        predicted = predicted > threshold if predicted.is_floating_point() else predicted
    elif predicted.ndim == wanted.ndim + 1:
        predicted = predicted.argmax(dim=class_dim(predicted, wanted))
    elif predicted.ndim == wanted.ndim + 2 and len(predicted) == 1:  # one sample, whose target has no batch
        predicted = predicted[0].argmax(dim=class_dim(predicted[0], wanted))
    if predicted.numel() != wanted.numel():
        raise UsageError(
            f"outputs of shape {tuple(scores.shape)} for targets of shape {tuple(wanted.shape)}: give labels, "
            "probabilities of one class, or scores with a dimension more. postprocess_fn can make them."
        )
    return predicted.reshape(-1).long().numpy(), wanted.reshape(-1).long().numpy()


def class_dim(scores: torch.Tensor, wanted: torch.Tensor) -> int:
    """Where the classes are: behind the batch, as PyTorch's losses take them; at the end where only that fits."""
    behind_batch = scores.shape[:1] + scores.shape[2:] == wanted.shape
    at_end = scores.shape[:-1] == wanted.shape
    return scores.ndim - 1 if at_end and not behind_batch else min(1, scores.ndim - 1)


def binomial(right: float, n: float) -> Estimate:
    """A share of n samples, with Wilson's 95 % interval."""
    if n == 0:
        return Estimate(None, reason="nothing to divide by: no sample is of the kind that counts")
    share, z = right / n, NORMAL_97_5
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # at the ends, rounding may leave the share itself just outside
    return Estimate(share, min(share, centre - half), max(share, centre + half))


def register_metric(name: str, metric: Callable[..., Any]) -> None:
    """Make an own metric known: a class that extends BaseEvalMetric, made anew for each evaluation."""
    if not (isinstance(metric, type) and issubclass(metric, BaseEvalMetric)):
        raise UsageError(f"metric {name!r} must be a class that extends proveout.BaseEvalMetric.")
    _add(name, metric, (metric.__doc__ or "an own metric").strip().splitlines()[0])


def register_metric_from_existing(existing: str, name: str, **arguments: Any) -> None:
    """Make a variant known: `register_metric_from_existing("topk", "topk_3", k=3)`."""
    base = metric(existing)
    base(**arguments)  # wrong arguments are refused now
    suffix = ", ".join(f"{k}={v}" for k, v in arguments.items())
    derived = type(name, (base,), {"__init__": lambda self: base.__init__(self, **arguments)})
    _add(name, derived, f"{existing} with {suffix}")


def metric(name: str) -> type[Any]:
    """The class of a metric; case, spaces, hyphens and underscores in its name do not matter."""
    if _key(name) not in _METRICS:
        raise unknown("metric", name, [shown for shown, _, _ in _METRICS.values()])
    return _METRICS[_key(name)][1]


def list_metrics() -> None:
    """Print the metrics that can be asked for."""
    print("\n".join(f"{name:<24} {words}" for name, _, words in [("Name", None, "Description"), *_METRICS.values()]))


def _add(name: str, metric_class: type[Any], words: str) -> None:
    if _key(name) in _METRICS:
        raise UsageError(f"there is a metric {_METRICS[_key(name)][0]!r} already. Choose another name.")
    _METRICS[_key(name)] = (name, metric_class, words)


def _key(name: str) -> str:
    return name.lower().replace(" ", "").replace("_", "").replace("-", "")


def _tensor(value: Any) -> torch.Tensor:
    return value.detach().cpu() if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value))


def _rates(pairs: Counter[tuple[int, int]], positive: int) -> Confusion:
    counted: Counter[tuple[bool, bool]] = Counter()
    for (wanted, predicted), n in pairs.items():
        counted[wanted == positive, predicted == positive] += n
    return Confusion(counted[True, True], counted[False, True], counted[True, False], counted[False, False])


def _ratio(name: str, rates: Confusion) -> Estimate:
    formula, of = RATIOS[name]
    above, below = of(rates)
    if math.isnan(above) or math.isnan(below) or below == 0:
        return Estimate(None, reason=f"{formula} has nothing to divide by here")
    return binomial(above, below) if name in COUNTED else Estimate(above / below, reason="no interval is known for it")


def _averaged(name: str, by_class: dict[int, Confusion], average: str) -> Estimate:
    if average == "micro":
        return _ratio(name, Confusion(*(sum(column) for column in zip(*by_class.values()))))
    values = [_ratio(name, rates).value or 0.0 for rates in by_class.values()]
    weights = [r.tp + r.fn if average == "weighted" else 1 for r in by_class.values()]
    mean = sum(v * w for v, w in zip(values, weights)) / sum(weights)
    return Estimate(mean, reason=f"{average} average of {len(values)} classes: no interval is known for it")


_METRICS: dict[str, tuple[str, type[Any], str]] = {}
_add("Accuracy", Accuracy, "right / all; (TP + TN) / (TP + TN + FP + FN) for two classes")
for _name, (_formula, _) in RATIOS.items():
    _add(_name, type(_name, (ClassMetric,), {"ratio": _name, "__doc__": _formula}), _formula)
_add("MeanAbsoluteError", MeanAbsoluteError, "sum(|y - x|) / n")
_add("MeanSquaredError", MeanSquaredError, "sum((y - x)^2) / n")
_add("topk", TopK, "target among the k largest scores; k = 5")
for _name, _existing in ALIASES.items():
    if _key(_name) != _key(_existing):
        _add(_name, metric(_existing), f"Alias for {_existing}")

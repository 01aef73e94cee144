"""Framework notes: Keras models run where TensorFlow is installed; elsewhere one sentence says what to install."""

from __future__ import annotations

import importlib.util

import neuronperf as npf
import numpy as np
import pytest

from proveout.errors import EnvironmentFault, UsageError

INSTALLED = importlib.util.find_spec("tensorflow") is not None
QUICK = {"duration": 0.2, "n_models": 1, "workers_per_model": 1, "keep": False, "verbosity": 0}


@pytest.mark.skipif(INSTALLED, reason="TensorFlow is installed: the other test measures it")
def test_without_tensorflow_one_sentence_says_what_to_install():
    for call in (npf.tensorflow.benchmark, npf.tensorflow.compile):
        with pytest.raises(EnvironmentFault, match=r"pip install 'proveout\[tensorflow\]'"):
            call("net.keras", np.ones((1, 2)))


@pytest.mark.skipif(not INSTALLED, reason="needs TensorFlow: pip install 'proveout[tensorflow]' (1.3 GB)")
def test_keras_models_are_measured():
    """A file, a SavedModel, a live model, an index, and a dict of inputs, in interpreters of their own."""
    keras = importlib.import_module("tensorflow").keras
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(2)], name="small")
    model.save("small.keras")
    model.export("small", verbose=False)
    x = np.zeros((4, 8), dtype=np.float32)
    for given in ("small.keras", "small", model):
        (report,) = npf.tensorflow.benchmark(given, x, 4, **QUICK)
        assert (report["status"], report["multiinterpreter"], report["device_type"]) == ("finished", True, "cpu")
    index = npf.tensorflow.compile(model, [x, x[:2]], batch_sizes=[4, 2], verbosity=0)
    reports = npf.tensorflow.benchmark(index, [x, x[:2]], **QUICK)
    assert [(r["batch_size"], r["status"]) for r in reports] == [(4, "finished"), (2, "finished")]
    parts = {name: keras.Input((4,), name=name) for name in ("input_0", "input_1")}
    keras.Model(parts, keras.layers.Add()(list(parts.values()))).save("two.keras")
    (report,) = npf.tensorflow.benchmark("two.keras", {name: np.ones((2, 4)) for name in parts}, 2, **QUICK)
    assert report["status"] == "finished"


def test_evaluate_is_for_pytorch():
    with pytest.raises(UsageError, match=r"proveout\.torch\.evaluate"):
        npf.tensorflow.evaluate("small.keras", [])

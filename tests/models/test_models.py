"""Small versions of real models compile, compute what eager computes, stay on the device, and export as scripts."""

from __future__ import annotations

import runpy

import pytest
import torch
from ttnn_text import unbound
from zoo import EACH_MODEL, MODELS

import proveout
from proveout.check import compare_outputs
from proveout.engine.snapshot import save_calls
from proveout.program import refs
from proveout.report.script import write_script
from ttnn_binding import binding_error

PCC = {"model": 0.9999, "bfloat16": 0.99}
ALIKE = ("clip", "codegen", "mamba", "mobilenet_v2", "segformer", "t5")
"""Whose kinds others of the zoo stand for, in the model's own precision and on the CPU."""


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


def sampled(names):
    """Parameters of which `make test` takes some."""
    return [
        pytest.param(*p.values, marks=[*p.marks, pytest.mark.whole] if p.values[0] in ALIKE else p.marks) for p in names
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "name"),
    [
        pytest.param(precision, *p.values, marks=p.marks)
        for precision in PCC
        for p in (EACH_MODEL if precision == "bfloat16" else sampled(EACH_MODEL))
    ],
)
def test_model_on_the_embedded_chip(name, precision, tmp_path, capsys):
    model, inputs = MODELS[name]()
    compiled = proveout.compile(model, inputs, settings={"precision": precision, "verify": True})
    with torch.no_grad():
        wanted = model(**inputs)
    comparisons = compare_outputs(compiled(**inputs), wanted, PCC[precision])
    assert comparisons
    assert all(c.passed for c in comparisons), comparisons
    assert compiled.coverage.host_share <= 0.02, compiled.coverage.on_host
    assert all(op.reason for op in compiled.coverage.on_host)
    assert compiled.num_transfers == compiled.coverage.num_transfers
    for step in compiled.program.steps:
        if not step.on_host:
            attributes = {k: any(True for _ in refs(v)) for k, v in step.attrs}
            assert binding_error(step.kernel, attributes) is None
    if name not in ("mamba", "mobilenet_v2", "segformer"):  # their scripts take as long again: -m whole
        assert_exports(compiled, name, inputs, tmp_path, capsys)


@pytest.mark.whole
@pytest.mark.parametrize("precision", PCC)
@pytest.mark.parametrize("name", ["mamba", "mobilenet_v2", "segformer"])
def test_a_large_model_exports(name, precision, tmp_path, capsys):
    model, inputs = MODELS[name]()
    compiled = proveout.compile(model, inputs, settings={"precision": precision})
    assert_exports(compiled, name, inputs, tmp_path, capsys)


def assert_exports(compiled, name, inputs, folder, capsys):
    """Its scripts run by themselves and give what it gave."""
    scripts = [write_script(call, name) for call in save_calls(compiled, (), inputs, folder)]
    assert len(scripts) == compiled.coverage.num_graphs
    for script in scripts:
        runpy.run_path(str(script), run_name="__main__")
        assert "as compiled" in capsys.readouterr().out
    text = "".join(script.read_text() for script in scripts)
    assert text.count("ttnn.from_torch(") + text.count("ttnn.to_torch(") >= compiled.coverage.num_transfers
    assert unbound(text) == []
    assert "# bert.encoder.layer.1" in text or name != "bert"


@pytest.mark.parametrize("name", sampled(EACH_MODEL))
def test_model_on_the_cpu(name):
    model, inputs = MODELS[name]()
    compiled = proveout.compile(model, inputs, device="cpu", settings={"verify": True})
    with torch.no_grad():
        wanted = model(**inputs)
    assert all(c.passed for c in compare_outputs(compiled(**inputs), wanted, 0.99999))
    assert compiled.num_transfers == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", pytest.param("mnist_cnn", marks=pytest.mark.whole)])
def test_model_through_inductor(name):
    model, inputs = MODELS[name]()
    compiled = proveout.compile(model, inputs, device="cpu:inductor")
    with torch.no_grad():
        wanted = model(**inputs)
    assert all(c.passed for c in compare_outputs(compiled(**inputs), wanted, 0.99999))


@pytest.mark.slow
def test_every_step_knows_where_it_comes_from():
    model, inputs = MODELS["bert"]()
    program = proveout.compile(model, inputs).program
    linear = [s for s in program.body if s.kernel == "ttnn.linear"]
    assert any(s.origin.module == "bert.encoder.layer.1.attention.self.query" for s in linear)
    files = ("modeling_bert.py:", "linear.py:", "activations.py:")  # with an activation, the activation's line
    assert all(any(file in s.origin.source for file in files) for s in linear)

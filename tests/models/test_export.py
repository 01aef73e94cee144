"""Exported scripts run by themselves and give what the compiled model gave."""

from __future__ import annotations

import runpy

import pytest
import torch
from zoo import MODELS

import proveout
from proveout.engine.snapshot import save_calls
from proveout.report.script import write_script


@pytest.mark.parametrize("precision", ["model", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_reproduces_its_outputs(name, precision, tmp_path, capsys):
    torch._dynamo.reset()
    model, inputs = MODELS[name]()
    compiled = proveout.compile(model, inputs, settings={"precision": precision})
    scripts = [write_script(folder, name) for folder in save_calls(compiled, (), inputs, tmp_path)]
    assert len(scripts) == compiled.coverage.num_graphs
    for script in scripts:
        runpy.run_path(str(script), run_name="__main__")
        assert "as compiled" in capsys.readouterr().out
    text = "".join(script.read_text() for script in scripts)
    assert text.count("ttnn.from_torch(") + text.count("ttnn.to_torch(") >= compiled.coverage.num_transfers
    assert "# bert.encoder.layer.1" in text or name != "bert"


def test_a_script_that_computes_something_else_says_so(tmp_path):
    torch._dynamo.reset()
    compiled = proveout.compile(torch.nn.GELU(), (torch.randn(4, 8),))
    (folder,) = save_calls(compiled, (torch.randn(4, 8),), {}, tmp_path)
    script = write_script(folder)
    script.write_text(
        script.read_text().replace("ttnn.gelu(", "ttnn.relu(").replace(", variant=ttnn.GeluVariant.Accurate", "")
    )
    with pytest.raises(AssertionError, match="not close"):
        runpy.run_path(str(script), run_name="__main__")

"""The compile cache: the same graph is loaded, anything else is compiled, and trouble with the disk costs nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import proveout
from proveout.engine import cache

X = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))


class Block(torch.nn.Module):
    def __init__(self, scale: float = 2.0):
        super().__init__()
        torch.manual_seed(1)
        self.linear = torch.nn.Linear(16, 8)
        self.scale = scale
        self.table = torch.arange(8.0)

    def forward(self, x):
        return torch.softmax(self.linear(x) * self.scale + self.table, dim=-1).cumsum(0)


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


def compile_(model=None, **settings):
    torch._dynamo.reset()
    return proveout.compile(model or Block(), X, settings=settings)


def stages(compiled):
    return {name for name, _ in compiled.stages_s} - {"plan"}


def programs():
    return list(Path(os.environ["PROVEOUT_CACHE"], "programs").glob("*.program"))


@pytest.mark.slow
def test_the_same_graph_is_loaded_and_computes_the_same():
    first, second = compile_(), compile_()
    assert "lower" in stages(first)
    assert stages(second) == {"load"}
    assert second.program == first.program
    assert second.coverage == first.coverage
    assert second.plan == first.plan
    assert torch.equal(second(X), first(X))
    assert len(programs()) == 1


def test_a_loaded_program_reads_the_new_models_weights():
    compile_()
    other = Block()
    with torch.no_grad():
        other.linear.weight.mul_(3)
    loaded = compile_(other)
    assert stages(loaded) == {"load"}
    torch.testing.assert_close(loaded(X), other(X))


@pytest.mark.parametrize(
    "change",
    [
        lambda: compile_(Block(scale=3.0)),
        lambda: compile_(precision="bfloat16"),
        lambda: proveout.compile(Block(), X[:2]),
        lambda: proveout.compile(Block(), X, device="sim:p150"),
        lambda: proveout.compile(Block(), X, device="cpu"),
    ],
    ids=["number", "setting", "shape", "chip", "device"],
)
def test_whatever_matters_changes_the_key(change):
    compile_()
    torch._dynamo.reset()
    assert "lower" in stages(change())


def test_a_constant_with_other_contents_is_another_program():
    compile_()
    model = Block()
    model.table = torch.arange(8.0).flip(0)
    changed = compile_(model)
    torch.testing.assert_close(changed(X), model(X))


def test_verification_always_compiles():
    compile_(verify=True)
    assert not programs()
    assert "lower" in stages(compile_(verify=True))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"{}\n", b"not json\n", "short", "extra", "flipped"])
def test_a_damaged_file_is_compiled_again_and_replaced(damage):
    first = compile_()
    (file,) = programs()
    whole = file.read_bytes()
    file.write_bytes(
        {"short": whole[:-1], "extra": whole + b"x", "flipped": whole[:-9] + b"#" + whole[-8:]}.get(damage, damage)
    )
    again = compile_()
    assert "lower" in stages(again)
    assert again.program == first.program
    assert stages(compile_()) == {"load"}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("PROVEOUT_CACHE", str(blocked))
    assert torch.equal(compile_()(X), compile_()(X))


def test_the_files_used_longest_ago_go_when_there_are_too_many(monkeypatch):
    compile_()
    (old,) = programs()
    os.utime(old, (1, 1))
    monkeypatch.setattr(cache, "LIMIT_BYTES", 2 * old.stat().st_size - 1)  # one Program fits, two do not
    compile_(precision="bfloat16")
    assert old not in programs()
    assert len(programs()) == 1


@pytest.mark.slow
def test_another_process_loads_what_this_one_compiled():
    code = """if True:
        import json, sys, torch, proveout
        sys.path.insert(0, sys.argv[1])
        from test_cache import Block, X
        compiled = proveout.compile(Block(), X)
        print(json.dumps([compiled.stages_s, compiled.program.fingerprint]))
    """
    runs = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code, str(Path(__file__).parent)], capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(2)
    ]
    assert "lower" in dict(runs[0][0])
    assert set(dict(runs[1][0])) - {"plan"} == {"load"}
    assert runs[0][1] == runs[1][1]

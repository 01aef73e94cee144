"""Scripts as people write them: what discovery makes of each."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from proveout.capture import discover, load, watch
from proveout.capture.running import explain
from proveout.types import Workload

AWKWARD = Path(__file__).parents[1] / "data" / "awkward"

# script and arguments: (class, parameters, calls, input shapes, where it was built) of each model, the error's start
SCRIPTS: dict[str, tuple[list[tuple[Any, ...]], str]] = {
    "several_models.py": (
        [
            ("Linear", 20, 1, [(1, 3)], "several_models.py:6"),
            ("Linear", 24, 1, [(1, 3)], "several_models.py:6"),
            ("Linear", 12, 1, [(2, 3)], "several_models.py:9"),
            ("Conv1d", 4, 1, [(1, 1, 8)], "several_models.py:10"),
        ],
        "",
    ),
    "new_shapes.py": (
        [("Linear", 72, 2, [(1, 8)], "new_shapes.py:5"), ("Linear", 72, 3, [(2, 8)], "new_shapes.py:5")],
        "",
    ),
    "functions_and_methods.py": (
        [
            ("Linear", 20, 1, [(1, 4)], "functions_and_methods.py:11"),
            ("Linear", 25, 1, [(1, 4)], "functions_and_methods.py:20"),
            ("Linear", 30, 1, [(1, 4)], "functions_and_methods.py:36"),
            ("Linear", 35, 1, [(1, 4)], "functions_and_methods.py:43"),
        ],
        "",
    ),
    "nested_inputs.py": ([("Net", 40, 1, [(2, 3), (2, 3), (4,)], "nested_inputs.py:26")], ""),
    "with_argparse.py --width 7": ([("Linear", 16, 1, [(1, 7)], "with_argparse.py:12")], ""),
    "package/relative.py": ([("Linear", 9, 1, [(1, 2)], "parts.py:7")], ""),
    "threads.py": (
        [("Linear", 9, 1, [(1, 2)], "threads.py:14"), ("Linear", 12, 1, [(1, 2)], "threads.py:11")],
        "",
    ),
    "raises_before.py": ([], "raises_before.py raised ValueError at raises_before.py:6 before any model had run: no d"),
    "raises_after.py": (
        [("Linear", 6, 1, [(1, 2)], "raises_after.py:5")],
        "raises_after.py raised ValueError at raises_after.py:7 after its model ran: could not write the plot",
    ),
    "exits.py": ([("Linear", 6, 1, [(1, 2)], "exits.py:7")], ""),
    "scripted.py": (
        [
            ("Gate", 20, 2, [(1, 4)], "scripted.py:17"),
            ("Linear", 10, 1, [(1, 4)], "scripted.py:20"),
            ("Gate", 20, 1, [(1, 4)], "scripted.py:21"),
        ],
        "",
    ),
    "generates.py": (
        [
            ("GPT2LMHeadModel", 4624, 1, [(1, 4), (1, 4)], "generates.py:8"),
            ("GPT2LMHeadModel", 4624, 5, [(1, 1), (1, 1)], "generates.py:8"),
        ],
        "",
    ),
}


def seen(workload: Workload) -> tuple[Any, ...]:
    shapes = [spec.shape for _, spec in workload.inputs]
    return (workload.class_name, workload.parameters, workload.calls, shapes, workload.location)


@pytest.mark.parametrize("line", SCRIPTS)
def test_an_awkward_script_gives_its_models(line: str) -> None:
    name, _, arguments = line.partition(" ")
    found, raised = watch(AWKWARD / name, arguments)
    wanted, error = SCRIPTS[line]
    assert [seen(one.workload) for one in found] == wanted
    told = explain(AWKWARD / name, raised, ran=bool(found))
    assert told.startswith(error) if error else told == ""


@pytest.mark.slow
def test_a_scripts_prints_are_in_its_log_only(capfd: pytest.CaptureFixture[str]) -> None:
    found = discover(AWKWARD / "prints.py")
    assert found.log.splitlines() == ["Model      Latency", "{'json': 'not ours'}"]
    assert capfd.readouterr() == ("", "")


def test_a_slow_model_is_waited_for_and_its_time_told() -> None:
    began = time.monotonic()
    ((found,), _) = watch(AWKWARD / "slow_model.py", "0.6")
    assert 0.6 <= found.workload.seconds < time.monotonic() - began


def test_a_jit_module_is_named_as_not_compilable() -> None:
    found, _ = watch(AWKWARD / "scripted.py")
    scripted, traced, original = (one.workload for one in found)
    assert scripted.obstacle.startswith("torch.jit has scripted this module; only Python modules can be compiled")
    assert traced.obstacle.startswith("torch.jit has traced this module")
    assert original.obstacle == ""
    assert len({scripted.selector, traced.selector, original.selector}) == 3


def test_submodules_are_models_down_to_the_depth_asked_for() -> None:
    def names(max_depth: int) -> dict[str, int]:
        found, _ = watch(AWKWARD / "deep.py", max_depth=max_depth)
        return {one.workload.name: one.workload.calls for one in found}

    assert names(0) == {"deep": 1}
    assert names(1) == {"deep::Block": 2, "deep::Sequential": 1}
    assert names(2) == {"deep::LayerNorm": 2, "deep::Linear": 2, "deep::Block": 2, "deep::Sequential": 1}
    found, _ = watch(AWKWARD / "deep.py", max_depth=2)
    layer = next(one for one in found if one.workload.class_name == "Linear")
    again = load(layer.workload)
    assert again.workload.selector == layer.workload.selector
    assert again.args[0].equal(layer.args[0])


def test_generated_tokens_are_the_same_while_watched(capsys: pytest.CaptureFixture[str]) -> None:
    import runpy

    runpy.run_path(str(AWKWARD / "generates.py"))
    alone = capsys.readouterr().out
    watch(AWKWARD / "generates.py")
    assert capsys.readouterr().out == alone


# The hub


def test_a_script_that_needs_the_hub_says_so_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    started = time.monotonic()
    found, raised = watch(AWKWARD / "needs_hub.py")
    told = explain(AWKWARD / "needs_hub.py", raised, ran=False)
    assert found == []
    assert told.startswith("needs_hub.py needs the network at needs_hub.py:6: ")
    assert told.endswith("Run it where the network can be reached; --weights random does without a hub's weights.")
    assert time.monotonic() - started < 60


def test_random_weights_come_from_a_bundled_config_and_are_marked(tmp_path: Path) -> None:
    import torch

    state = torch.get_rng_state()
    ((first,), raised) = watch(AWKWARD / "needs_hub.py", weights="random")
    assert raised is None
    assert (first.workload.class_name, first.workload.parameters) == ("BertModel", 4385920)
    assert (first.workload.weights, first.workload.random_weights) == ("random", ("prajjwal1/bert-tiny",))
    assert torch.get_rng_state().equal(state), "the script's own random numbers are as they would have been"
    again = load(first.workload)
    assert all(a.equal(b) for a, b in zip(first.module.parameters(), again.module.parameters(), strict=True))


def test_weights_are_read_from_a_folder(tmp_path: Path) -> None:
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    torch.manual_seed(3)
    model = BertModel(config)
    model.save_pretrained(tmp_path / "prajjwal1" / "bert-tiny")
    ((found,), raised) = watch(AWKWARD / "needs_hub.py", weights=str(tmp_path))
    assert raised is None
    assert found.module.embeddings.word_embeddings.weight.equal(model.embeddings.word_embeddings.weight)
    assert found.workload.random_weights == ()


@pytest.mark.slow
def test_every_bundled_config_builds_its_model() -> None:
    import torch
    from transformers import AutoConfig, AutoModel

    from proveout.capture.weights import bundled_configs

    for name, config in bundled_configs().items():
        with torch.device("meta"):
            model = AutoModel.from_config(AutoConfig.for_model(**config))
        assert sum(p.numel() for p in model.parameters()) > 1e6, name


# What is remembered


@pytest.mark.slow
def test_a_discovery_is_recalled_while_nothing_it_depends_on_changed(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    shutil.copytree(AWKWARD / "package", folder)
    script, cache = folder / "relative.py", tmp_path / "cache"

    def found(**how: Any) -> tuple[bool, list[int]]:
        discovery = discover(script, cache=cache, **how)
        return discovery.from_cache, [w.parameters for w in discovery.workloads]

    assert found() == (False, [9])
    script.write_text("# labels: a::b\n" + script.read_text())
    assert found() == (True, [9]), "labels do not change a model"
    assert discover(script, cache=cache).workloads[0].labels == (("a", ("b",)),)
    (folder / "parts.py").write_text((folder / "parts.py").read_text().replace("(2, 3)", "(2, 4)"))
    assert found() == (False, [12])
    (entry,) = (cache / "discoveries").glob("*/*.json")
    stored = json.loads(entry.read_text())
    stored["found"]["packages"]["numpy"] = "0.1"
    entry.write_text(json.dumps(stored))
    assert found() == (False, [12]), "another version of a library"


@pytest.mark.slow
def test_a_failed_discovery_is_recalled_unless_the_world_may_mend_it(tmp_path: Path) -> None:
    def twice(source: str) -> bool:
        script = tmp_path / "script.py"
        script.write_text(source)
        first, second = (discover(script, cache=tmp_path / "cache") for _ in range(2))
        assert (first.error, first.failure, first.log) == (second.error, second.failure, second.log)
        return second.from_cache

    assert twice("raise ValueError('always')")
    assert not twice("import a_package_that_may_be_installed_tomorrow")


def test_two_scripts_of_one_name_and_architecture_have_keys_of_their_own(tmp_path: Path) -> None:
    from proveout.types import Job

    keys = {}
    for folder, seed in (("one", 0), ("two", 0), ("three", 1)):
        script = tmp_path / folder / "net.py"
        script.parent.mkdir()
        script.write_text(f"import torch\ntorch.manual_seed({seed})\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\n")
        ((found,), _) = watch(script)
        keys[folder] = Job(found.workload).key
    assert len(set(keys.values())) == 3
    before = keys["three"]
    script.write_text(script.read_text().replace("manual_seed(1)", "manual_seed(2)"))
    ((found,), _) = watch(script)
    assert Job(found.workload).key != before, "other weights are another Job"

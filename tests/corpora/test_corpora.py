"""Every script of every corpus is labelled, described and sound; each tenth is discovered, each thirtieth also runs
alone; the others by name (-m whole_corpora)."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import proveout
from proveout.capture import corpora_folder, discover, read_labels, resolve
from proveout.sweep.warm import WarmServer

AT_LEAST = {
    "selftest": 8,
    "transformers": 60,
    "popular_on_huggingface": 100,
    "torch_hub": 12,
    "torchvision": 12,
    "timm": 12,
    "diffusers": 6,
    "graph_convolutions": 10,
    "llm_layer": 10,
    "llm": 15,
}
LABELS = ("name", "author", "task", "domain", "license")

SCRIPTS = {str(path.relative_to(corpora_folder())): path for path, _ in resolve([], [], all=True)}
EVERY_SCRIPT = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)


def one_in(count: int) -> pytest.MarkDecorator:
    """A seeded choice that a new script does not change for the others."""

    def mark(name: str) -> pytest.MarkDecorator:
        return pytest.mark.whole_corpora if zlib.crc32(name.encode()) % count else pytest.mark.slow

    return pytest.mark.parametrize(
        "script", [pytest.param(path, id=name, marks=mark(name)) for name, path in SCRIPTS.items()]
    )


@pytest.mark.parametrize("corpus", AT_LEAST)
def test_a_corpus_is_as_large_as_promised(corpus: str) -> None:
    assert len(resolve([], [corpus], all=True)) >= AT_LEAST[corpus]


def test_mlagility_s_name_of_the_transformers_is_served() -> None:
    assert resolve([], ["transformers_pytorch"], all=True) == resolve([], ["transformers"], all=True)


@EVERY_SCRIPT
def test_a_script_says_what_it_is(script: Path) -> None:
    labels = dict(read_labels(script))
    assert [key for key in LABELS if len(labels.get(key, ())) != 1] == []
    tree = ast.parse(script.read_text(encoding="utf-8"), str(script))
    assert (ast.get_docstring(tree) or "").strip(), "a docstring says where the model comes from"


def test_names_are_unique_in_a_corpus() -> None:
    names = Counter((path.parent.name, dict(read_labels(path))["name"]) for path in SCRIPTS.values())
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize("corpus", ["transformers", "popular_on_huggingface"])
def test_every_kind_of_model_is_there(corpus: str) -> None:
    domains = {dict(read_labels(path))["domain"] for path, _ in resolve([], [corpus], all=True)}
    assert domains >= {("nlp",), ("vision",), ("audio",), ("multimodal",)}


def test_every_checkpoint_of_the_table_has_its_script() -> None:
    folder = corpora_folder() / "popular_on_huggingface"
    table = ast.parse((folder / "_checkpoints.py").read_text(encoding="utf-8"))
    (rows,) = [node.value for node in table.body if isinstance(node, ast.AnnAssign)]
    assert isinstance(rows, ast.Dict)
    built = {dict(read_labels(path))["name"][0] for path in folder.glob("[!_]*.py")}
    assert {ast.literal_eval(key) for key in rows.keys if key is not None} == built
    for path in folder.glob("[!_]*.py"):
        assert f'build("{dict(read_labels(path))["name"][0]}", args)' in path.read_text(encoding="utf-8")


@one_in(30)
def test_a_script_runs_alone(script: Path, tmp_path: Path) -> None:
    tested = str(Path(proveout.__file__).parents[1])
    paths = os.pathsep.join([tested, os.environ["PYTHONPATH"]])
    environment = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, "--small"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    expected = ("expect", ("fail",)) not in read_labels(script)
    assert (done.returncode == 0) == expected, done.stderr[-2000:]


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmServer]:
    server = WarmServer(("transformers",))
    yield server
    server.stop()


@one_in(10)
def test_a_script_s_models_are_discovered(script: Path, warm: WarmServer) -> None:
    found = discover(script, script_args="--small", timeout_s=300, run=warm.run)
    expected = ("expect", ("fail",)) not in read_labels(script)
    assert (bool(found.workloads), not found.error) == (expected, expected), found.error


@pytest.mark.slow
def test_a_popular_model_has_seeded_weights_those_of_a_folder_or_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from proveout.parser import parse
    from transformers import BertModel

    monkeypatch.syspath_prepend(corpora_folder() / "popular_on_huggingface")
    build = importlib.import_module("_build").build

    def weights_of(*flags: str) -> torch.Tensor:
        monkeypatch.setattr(sys, "argv", ["bert_tiny.py", *flags])
        model, _ = build("prajjwal1/bert-tiny", parse(["batch_size", "max_seq_length"]))
        return model.embeddings.word_embeddings.weight.detach()

    seeded = weights_of()
    assert torch.equal(weights_of(), seeded)
    from_pretrained = BertModel.from_pretrained
    trained = BertModel(BertModel.config_class(hidden_size=128, num_hidden_layers=2, num_attention_heads=2))
    trained.save_pretrained(tmp_path / "prajjwal1" / "bert-tiny")
    assert torch.equal(weights_of("--weights", str(tmp_path)), trained.embeddings.word_embeddings.weight)

    monkeypatch.setattr(BertModel, "from_pretrained", lambda hub_id: from_pretrained(tmp_path / hub_id))
    assert torch.equal(weights_of("--weights", "pretrained"), trained.embeddings.word_embeddings.weight)
    assert not torch.equal(seeded, trained.embeddings.word_embeddings.weight)


def test_a_checkpoint_that_differs_at_its_true_size_differs_at_small_size(monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.syspath_prepend(corpora_folder() / "popular_on_huggingface")
    checkpoints = importlib.import_module("_checkpoints").CHECKPOINTS.values()
    small_sizes = importlib.import_module("_build").small_sizes
    true, small = set[str](), set[str]()
    for checkpoint in checkpoints:
        architecture = getattr(transformers, checkpoint.model).config_class.__name__
        true.add(f"{checkpoint.model} {sorted(checkpoint.sizes.items())}")
        small.add(f"{checkpoint.model} {sorted(small_sizes(architecture, checkpoint.sizes).items())}")
    assert len(small) == len(true) > 130


def test_albert_is_as_different_small_as_it_is_large() -> None:
    from proveout.parser import smaller

    def sizes(hidden: int, layers: int, heads: int) -> dict[str, int]:
        return smaller(dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads))

    base, large, xlarge, xxlarge = sizes(768, 12, 12), sizes(1024, 24, 16), sizes(2048, 24, 16), sizes(4096, 12, 64)
    assert base == dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4)
    assert large == dict(hidden_size=160, num_hidden_layers=3, num_attention_heads=5)
    assert xlarge == large | dict(hidden_size=320)  # heads twice as wide
    assert xxlarge == dict(hidden_size=672, num_hidden_layers=2, num_attention_heads=21)


def test_smaller_sizes_fit_each_other() -> None:
    from proveout.parser import smaller

    grouped = smaller(dict(hidden_size=2048, num_attention_heads=32, num_key_value_heads=4, head_dim=64))
    assert grouped == dict(hidden_size=256, num_attention_heads=8, num_key_value_heads=1, head_dim=32)
    assert smaller(dict(d_model=512, num_heads=6, d_kv=64)) == dict(d_model=96, num_heads=2, d_kv=32)
    assert smaller(dict(vocab_size=33, rope_parameters={"theta": 1e4}, num_labels=9)) == dict(vocab_size=33)
    within = smaller(dict(text_config=dict(n_layer=48), projection_dim=512))
    assert within == dict(text_config=dict(n_layer=4), projection_dim=64)

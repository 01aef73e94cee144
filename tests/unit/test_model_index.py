"""Claims about model indexes: NeuronPerf's functions, nothing changed in place, no model lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import proveout
from proveout import model_index
from proveout.errors import UsageError


@pytest.fixture
def models(tmp_path):
    for name in ("b1.pt", "b8.pt"):
        (tmp_path / name).write_text(name)
    return tmp_path


def index_of(models):
    entries = [
        model_index.create(models / f"b{b}.pt", model_name="net", batch_size=b, input_idx=i)
        for i, b in enumerate((1, 8))
    ]
    return model_index.append(*entries)


def test_it_is_a_public_name():
    assert proveout.model_index is model_index


def test_an_index_is_the_same_after_saving_and_loading(models):
    index = index_of(models)
    name = model_index.save(index, models / "net")
    assert name == str(models / "net.json")
    assert model_index.load(name) == index
    assert model_index.is_index(name)
    assert not model_index.is_index(models / "b1.pt")
    assert model_index.is_index(model_index.load(name))
    assert not model_index.is_index({"x": 1})
    unnamed = model_index.save(index, root_dir=models)
    assert model_index.load(unnamed) == index


def test_an_index_finds_its_models_from_another_folder(tmp_path, monkeypatch):
    """As it was written in a folder that the caller has left; a model that is nowhere keeps its name."""
    (tmp_path / "made" / "models").mkdir(parents=True)
    (tmp_path / "made" / "models" / "net.pt").write_text("a model")
    index = model_index.append(model_index.create("models/net.pt"), model_index.create("gone.pt"))
    model_index.save(index, "net", root_dir=tmp_path / "made")
    monkeypatch.chdir(tmp_path)
    found = model_index.load("made/net.json")["model_configs"]
    assert [entry["filename"] for entry in found] == ["made/models/net.pt", "gone.pt"]
    model_index.delete("made/net.json")
    assert not Path("made/models/net.pt").exists()


def test_append_keeps_order_drops_repeats_and_changes_no_index(models):
    first, second = model_index.create("a.pt"), model_index.create("b.pt", batch_size=2)
    both = model_index.append(first, second, first)
    assert [e["filename"] for e in both["model_configs"]] == ["a.pt", "b.pt"]
    assert both["model_name"] == "a.pt"
    both["model_configs"][0]["batch_size"] = 99
    assert first["model_configs"][0]["batch_size"] == 1


def test_filter_takes_one_value_several_or_none(models):
    name = model_index.save(index_of(models), models / "net.json")
    cases = [
        ({"batch_size": 8}, [8]),
        ({"batch_size": [1, 8]}, [1, 8]),
        ({"batch_size": None}, [1, 8]),
        ({"batch_size": 8, "pipeline_size": 2}, []),
        ({"filename": str(models / "b1.pt")}, [1]),
    ]
    for wanted, sizes in cases:
        assert [e["batch_size"] for e in model_index.filter(name, **wanted)["model_configs"]] == sizes


def test_a_copy_has_its_own_models(models, tmp_path):
    name = model_index.copy(index_of(models), tmp_path / "copy.json", tmp_path / "new")
    copied = model_index.load(name)
    assert [e["filename"] for e in copied["model_configs"]] == [str(tmp_path / "new" / n) for n in ("b1.pt", "b8.pt")]
    model_index.delete(name)
    assert not list((tmp_path / "new").iterdir())
    assert (models / "b1.pt").exists()


def test_two_models_of_one_name_are_both_kept(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.pt").write_text(folder)
    index = model_index.append(*(model_index.create(tmp_path / f / "net.pt") for f in ("x", "y")))
    name = model_index.copy(index, tmp_path / "copy.json", tmp_path / "new")
    texts = {open(e["filename"]).read() for e in model_index.load(name)["model_configs"]}  # noqa: SIM115
    assert texts == {"x", "y"}


def test_move_leaves_nothing_behind_and_can_stay_in_its_folder(models, tmp_path):
    old = model_index.save(index_of(models), models / "net.json")
    new = model_index.move(old, tmp_path / "moved.json", tmp_path / "new")
    assert not (models / "b1.pt").exists()
    assert not (models / "net.json").exists()
    assert {p.name for p in (tmp_path / "new").iterdir()} == {"b1.pt", "b8.pt"}
    model_index.move(new, tmp_path / "again.json", tmp_path / "new")
    assert {p.name for p in (tmp_path / "new").iterdir()} == {"b1.pt", "b8.pt"}, "the same folder: nothing is deleted"


def test_a_move_that_cannot_copy_deletes_nothing(models, tmp_path):
    index = model_index.append(index_of(models), model_index.create(tmp_path / "gone.pt"))
    old = model_index.save(index, models / "net.json")
    with pytest.raises(UsageError, match=r"names .*gone.pt, which is not there"):
        model_index.move(old, tmp_path / "moved.json", tmp_path / "new")
    assert (models / "b1.pt").exists()
    assert (models / "net.json").exists()


def test_what_is_no_index_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"model_name": "x"}')
    (tmp_path / "b.json").write_text("no")
    for name, says in (("a.json", "is no model index"), ("b.json", "is not JSON"), ("c.json", "No such file")):
        with pytest.raises(UsageError, match=says):
            model_index.load(tmp_path / name)
    with pytest.raises(UsageError, match="at least one"):
        model_index.append()

"""Claims about `proveout cache`: what it lists, what it deletes, and that caches merge by copying."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from test_store import make_record

from proveout import cache, cli
from proveout.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "store")
    for name, changes in (("bert", {}), ("bert_large", {}), ("linear", {"status": "failed", "failure": "numerics"})):
        made.write(make_record(name, **changes))
    return made


def answer(capsys: pytest.CaptureFixture[str], store: Store, *words: str, code: int = 0) -> Any:
    assert cli.main(["cache", *words, "--cache-dir", str(store.folder), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def models(store: Store) -> list[str]:
    return [record.job.workload.name for record in store.records()[0]]


def test_list_tells_every_record_and_its_size(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    records = answer(capsys, store, "list")["records"]
    assert [r["model"] for r in records] == ["bert", "bert_large", "linear"]
    for r in records:
        path = Path(r["file"])
        assert r["bytes"] == path.stat().st_size + path.with_suffix(".parquet").stat().st_size
    assert cli.main(["cache", "list", "--cache-dir", str(store.folder)]) == 0
    assert records[0]["key"] in capsys.readouterr().out


def test_print_takes_a_model_or_the_beginning_of_a_key(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    (whole,) = answer(capsys, store, "print", "bert")["records"]
    assert whole["coverage"]["num_transfers"] == 3
    key = cache.chosen(store, ["bert"])[0].row.key
    assert answer(capsys, store, "print", key[:6])["records"] == [whole]
    assert cli.main(["cache", "print", "linear", "--cache-dir", str(store.folder)]) == 0
    assert "numerics" in capsys.readouterr().out


def test_delete_forgets_what_a_pattern_means_and_its_samples(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    deleted = answer(capsys, store, "delete", "bert*")["deleted"]
    assert len(deleted) == 4
    assert models(store) == ["linear"]
    assert not any(Path(file).exists() for file in deleted)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["print"], "name a model or a key"),
        (["delete"], "For every Record: --all"),
        (["delete", "bert", "--all"], "without names"),
        (["delete", "brt"], "Did you mean 'bert'?"),
        (["stats", "bert"], "takes no names"),
        (["list", "--older-than", "3"], "are for `proveout cache clean`"),
        (["clean", "--older-than", "-1"], "takes a number of days"),
    ],
)
def test_a_mistake_deletes_nothing(
    store: Store, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert sentence in answer(capsys, store, *words, code=2)["error"]
    assert len(models(store)) == 3


def test_clean_keeps_every_record_and_deletes_what_can_be_made_again(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = next(path for path in store.folder.iterdir())
    (store.folder / "programs").mkdir()
    (store.folder / "discoveries" / "ab").mkdir(parents=True)
    remade = [store.folder / "programs" / "x.program", store.folder / "discoveries" / "ab" / "abcd.json"]
    goes = [*remade, machine / ".old.tmp", machine / "orphan.parquet"]
    stays = [machine / ".new.tmp", machine / "bad.json"]
    for path in (*goes, *stays):
        path.write_text("{")
    os.utime(goes[2], (time.time() - 7200,) * 2)
    assert sorted(answer(capsys, store, "clean")["deleted"]) == sorted(map(str, goes))
    assert all(path.exists() for path in stays)
    assert len(models(store)) == 3
    assert answer(capsys, store, "clean", "--unreadable")["deleted"] == [str(stays[1])]


def test_clean_by_age_deletes_old_records_only(store: Store) -> None:
    store.write(dataclasses.replace(make_record("old"), created="2020-01-01T00:00:00+00:00"))
    for name in ("bert", "bert_large", "linear"):
        store.write(dataclasses.replace(make_record(name), created=time.strftime("%Y-%m-%dT%H:%M:%S+00:00")))
    assert len(cache.clean(store, older_than_days=30).files) == 2
    assert models(store) == ["bert", "bert_large", "linear"]


def test_stats_count_by_status_and_failure(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, store, "stats")
    assert (found["records"], found["unreadable"], found["programs"]) == (3, 0, 0)
    assert found["by_status"] == {"passed": 2, "failed": 1}
    assert found["by_failure"] == {"numerics": 1}
    assert found["record_bytes"] > 3000


def test_an_empty_cache_is_told_not_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, Store(tmp_path / "none"), "list")["records"] == []
    assert answer(capsys, Store(tmp_path / "none"), "stats")["records"] == 0


def test_caches_merge_by_copying_and_move_by_renaming(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    other.write(make_record("gpt2"))
    other.write(make_record("bert"))
    shutil.copytree(other.folder, store.folder, dirs_exist_ok=True)
    moved = Store(store.folder.rename(tmp_path / "moved"))
    assert models(moved) == ["bert", "bert_large", "gpt2", "linear"]
    assert moved.get(make_record("gpt2").job) == make_record("gpt2")

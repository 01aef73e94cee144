"""CIFAR-10 and MNIST in the formats that torchvision downloads, small ones made here."""

from __future__ import annotations

import gzip
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from proveout.app import datasets
from proveout.cli.verbs.app import command_line
from proveout.errors import UsageError

testing = pytest.importorskip("streamlit.testing.v1")


def write_mnist(folder: Path, labels: list[int], zipped: bool = False) -> np.ndarray:
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    images = np.zeros((len(labels), 28, 28), np.uint8)
    for index in range(len(labels)):
        images[index, 4:24, 12 + index] = 255
    files = {
        "t10k-images-idx3-ubyte": b"\0\0\x08\x03" + np.array(images.shape, ">u4").tobytes() + images.tobytes(),
        "t10k-labels-idx1-ubyte": b"\0\0\x08\x01" + np.array([len(labels)], ">u4").tobytes() + bytes(labels),
    }
    for name, content in files.items():
        path = raw / (f"{name}.gz" if zipped else name)
        path.write_bytes(gzip.compress(content) if zipped else content)
    return images


def write_cifar(folder: Path, batch: object, protocol: int = 2) -> None:
    (folder / "cifar-10-batches-py").mkdir(parents=True)
    (folder / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(batch, protocol))


@pytest.mark.parametrize("zipped", [False, True])
def test_mnist_is_read_as_it_is_downloaded(tmp_path, monkeypatch, zipped):
    monkeypatch.setitem(sys.modules, "torchvision", None)  # whoever imports it fails
    images = write_mnist(tmp_path, [7, 2, 1], zipped)
    assert datasets.test_set_name("digits", tmp_path) == "MNIST"
    read = datasets.read_test_set("digits", tmp_path)
    assert read.labels == ("7", "2", "1")
    assert np.array_equal(np.asarray(read.image(1).convert("L")), images[1])


@pytest.mark.parametrize("protocol", [2, 4])
def test_cifar_is_read_as_it_is_downloaded(tmp_path, protocol):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    write_cifar(tmp_path, {b"data": pixels.reshape(2, -1), b"labels": [3, 8], b"batch_label": b"testing"}, protocol)
    assert datasets.test_set_name("pictures", tmp_path) == "CIFAR-10"
    read = datasets.read_test_set("pictures", tmp_path)
    assert read.labels == ("cat", "ship")
    assert np.array_equal(np.asarray(read.image(0)), pixels[0].transpose(1, 2, 0))


class Calls:
    def __reduce__(self):
        return print, ("a pickle that calls what it likes",)


def test_a_pickle_that_is_no_batch_calls_nothing(tmp_path, capsys):
    write_cifar(tmp_path, {b"data": Calls(), b"labels": [0]})
    with pytest.raises(UsageError, match=r"print, which is no array\. Download it again"):
        datasets.read_test_set("pictures", tmp_path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (pickle.dumps({b"data": "x", b"labels": [0]}), "has no attribute"),
        (pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [77]}), "out of range"),
        (pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [-1]}), "negative"),
        (pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [0]}), "an array of f8, and not of bytes"),
        (pickle.dumps(np.array([None])), "and not of bytes"),
        (b"cnumpy.nosuch\nndarray\n.", "not subscriptable"),
        (b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b".", "MemoryError|truncated"),
        (b"c_codecs\nencode\n(Vx\nVantigravity\ntR.", "indices"),
    ],
    ids=["text", "label", "negative label", "floats", "objects", "module", "size", "codec"],
)
def test_whatever_a_pickle_holds_is_bytes_or_a_sentence(tmp_path, batch, told):
    """numpy's own arrays would take a dtype's word for where pointers lie."""
    write_cifar(tmp_path, 0)
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(batch)
    with pytest.raises(UsageError, match=told):
        datasets.read_test_set("pictures", tmp_path)


def test_a_broken_or_absent_test_set_is_told(tmp_path):
    assert datasets.test_set_name("digits", tmp_path) is None
    assert datasets.test_set_name("text", tmp_path) is None
    write_mnist(tmp_path, [7, 2])
    (tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte").write_bytes(b"<html>")
    with pytest.raises(UsageError, match=r"cannot read MNIST in .*labels-idx1-ubyte is no IDX file"):
        datasets.read_test_set("digits", tmp_path)
    with pytest.raises(UsageError, match=r"--data .*: there is no such folder"):
        command_line(None, None, None, True, tmp_path / "nowhere")


def test_the_page_offers_a_test_set_that_is_there(tmp_path, monkeypatch):
    write_mnist(tmp_path, [7, 2, 1])
    monkeypatch.setattr(sys, "argv", ["app", "--data", str(tmp_path), "--cache-dir", str(tmp_path / "cache")])
    script = "from proveout.app.inputs import request_form\nfrom proveout.app.tasks import TASKS\n"
    page = testing.AppTest.from_string(script + "request_form(TASKS['digits'])", default_timeout=60).run()
    (way,) = [control for control in page.get("button_group") if control.key == "digits-way"]
    assert list(way.options) == ["Draw", "Choose", "Upload", "MNIST"]
    page.session_state["digits-way"] = "MNIST"
    page.run()
    assert not page.exception
    page.number_input(key="digits-index").set_value(2).run()
    assert "MNIST says: 2." in [caption.value for caption in page.caption]

"""Numbers that Tenstorrent's own simulator computed (tests/data/ttsim), put to our arithmetic: equal in every bit."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from proveout.cli import main
from proveout.errors import UsageError
from proveout.kernels.arithmetic import matrix, products, vectors
from proveout.kernels.arithmetic.vectors import check_file

FOLDER = Path(__file__).parents[1] / "data" / "ttsim"
FILES = sorted(FOLDER.glob("*.npz"))
LONG = {"matmul_bf16_crafted.npz", "matmul_bf16_long0.npz", "matmul_bf16_long1.npz", "matmul_bf16_k4.npz"}
SHORT = {"pack", "sfpu", "unpack"}
WAYS = {"fast": products.matmul, "torch": products.in_torch, "exact": matrix.matmul}


def differences(path: Path, matmul, every: int = 1) -> list[str]:
    found = check_file(path, matmul, lambda case: int(case.removeprefix("c") or 0) % every == 0)
    assert {f.arch for f in found} == {"wormhole", "blackhole"}
    return [f"{f.case} {f.setting} {f.arch} {f.first}" for f in found if f.equal != f.total]


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_sample_of_the_simulators_numbers_is_ours(path):
    assert differences(path, products.matmul, 8 if path.name in LONG else 1 if path.stem in SHORT else 3) == []


@pytest.mark.whole_vectors
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_all_of_the_simulators_numbers_are_ours(path, way):
    assert differences(path, WAYS[way]) == []


def edited(tmp_path: Path, source: str, **changed) -> Path:
    with np.load(FOLDER / source) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    np.savez(tmp_path / "edited.npz", **{**arrays, **changed})
    return tmp_path / "edited.npz"


def test_the_command_says_the_share_of_equal_bits_and_the_first_difference(tmp_path, capsys):
    assert main(["devices", "numerics", str(FOLDER / "unpack.npz")]) == 0
    assert "all equal" in capsys.readouterr().out
    with np.load(FOLDER / "unpack.npz") as loaded:
        wrong = loaded["fp32_to_tf32"].copy()
    wrong[7] ^= 1 << 20
    path = edited(tmp_path, "unpack.npz", fp32_to_tf32=wrong)
    assert main(["devices", "numerics", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (bad,) = (c for c in told["cases"] if c["first"] is not None and c["arch"] == "wormhole")
    assert (bad["setting"], bad["equal"], bad["total"]) == ("fp32_to_tf32", 1023, 1024)
    assert bad["first"].startswith("[7]: ")
    assert told["equal"] == told["total"] - 2


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda p: p.write_bytes(b"no archive"), "not a vector file"),
        (lambda p: np.savez(p, x=np.array([{"a": 1}], dtype=object)), "not a vector file"),
        (lambda p: np.savez(p, c00_in0=np.zeros((2, 2)), notes="[]"), "c00_in0 is float64"),
        (lambda p: np.savez(p, c00_in0=np.zeros((2, 3), "u2"), notes="{"), "its notes are not"),
        (lambda p: np.savez(p, c00_q=np.zeros(3, "u2"), notes="[]"), "no case that is known"),
        (
            lambda p: np.savez(
                p, c00_in0=np.zeros((2, 3), "u2"), c00_in1=np.zeros((4, 2), "u2"), c00_dst16=np.zeros(3, "u2")
            ),
            "case c00 is not of a known form",
        ),
    ],
)
def test_a_file_that_is_none_is_refused_in_a_sentence(tmp_path, make, told):
    path = tmp_path / "given.npz"
    make(path)
    with pytest.raises(UsageError, match=told):
        check_file(path)


def test_a_file_that_would_unpack_to_too_much_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "MAX_BYTES", 1 << 20)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("c00_x.npy", b"\0" * (3 << 20))
    with pytest.raises(UsageError, match="Split the file"):
        check_file(path)

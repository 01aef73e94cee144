"""Numbers that Tenstorrent's own simulator computed (tests/data/ttsim), put to our arithmetic: equal in every bit."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

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


def npy(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


@pytest.mark.parametrize(
    "member",
    [
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 50,)}".replace("1 << 50", str(1 << 50))),
        npy("(" * 9000),
        npy("-" * 9000 + "1"),
        b"no array",
    ],
    ids=["a size", "brackets", "signs", "text"],
)
def test_an_array_that_cannot_be_is_told(tmp_path, member):
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.writestr("../c00_x.npy", member)
    with pytest.raises(UsageError, match=r"no array of numbers|no case that is known"):
        check_file(tmp_path / "odd.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["odd.npz"]


def product(**arrays) -> dict[str, np.ndarray]:
    """A 2 x 32 by 32 x 3 product of ones, HiFi4 alone, by another case name, and what its arrays are changed to."""
    ones = np.full((2, 32), 0x3F80, "u2")
    given = {
        "first_in0": ones,
        "first_in1": np.full((32, 3), 0x3F80, "u2"),
        "first_dst16": np.full((1, 2, 3), 0x4200, "u2"),
        "notes": np.array(json.dumps([{"case": "first", "kind": "ones", "fidelity": "HiFi4"}])),
    }
    return {**given, **arrays}


def test_cases_by_other_names_and_of_one_fidelity_are_judged(tmp_path):
    np.savez(tmp_path / "own.npz", **product())
    found = check_file(tmp_path / "own.npz")
    assert [(f.case, f.setting, f.equal, f.total) for f in found] == [("first", "dst16 HiFi4", 6, 6)] * 2
    without_notes = product()
    del without_notes["notes"]
    np.savez(tmp_path / "plain.npz", **without_notes)
    assert [f.setting for f in check_file(tmp_path / "plain.npz")] == ["dst16 LoFi"] * 2


def test_what_cannot_be_judged_is_told_and_the_rest_judged(tmp_path, capsys):
    odd = product(
        first_dst64=np.zeros(3, "u4"),
        first_dst32=np.zeros((4, 5), "u4"),
        first_note=np.zeros(3),
        c07_x=np.zeros((32, 32), "u2"),
        c07_max16=np.zeros(32, "u2"),
        c07_sum16=np.zeros((4, 32), "u2"),
    )
    np.savez(tmp_path / "odd.npz", **odd)
    (tmp_path / "broken.npz").write_bytes(b"PK no archive")
    assert main(["devices", "numerics", str(tmp_path / "odd.npz"), str(tmp_path / "broken.npz"), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    why = {c["setting"]: c["unjudged"] for c in told["cases"] if c["unjudged"]}
    assert "no result of that name" in why["first_dst64" if "first_dst64" in why else "dst64"]
    assert "no multiple of 6" in why["dst32"]
    assert "float64" in why["first_note"]
    assert "no scaler" in why["sum16"]
    assert {c["setting"] for c in told["cases"] if not c["unjudged"]} == {"dst16 HiFi4", "max16"}
    assert told["equal"] == told["total"] == 2 * (6 + 32)
    assert "broken.npz" in told["refused"][0]
    assert main(["devices", "numerics", str(tmp_path / "odd.npz")]) == 0
    assert "4 arrays could not be judged" in capsys.readouterr().out


def test_a_damaged_array_leaves_the_others_to_be_judged(tmp_path):
    path = tmp_path / "damaged.npz"
    np.savez(path, **product(c09_x=np.arange(1024, dtype="u4").reshape(32, 32)))
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("c09_x.npy").header_offset
    path.write_bytes(whole[: at + 400] + bytes(b ^ 255 for b in whole[at + 400 : at + 440]) + whole[at + 440 :])
    found = check_file(path)
    assert [f.setting for f in found if f.unjudged is None] == ["dst16 HiFi4"] * 2
    assert [f.setting for f in found if f.unjudged] == ["c09_x"]


def test_float16_adds_as_the_simulator_does():
    """ELWADD's exponents move from float16's 5 bits to float32's 8; numbers of Tenstorrent's simulator."""
    a, b = (torch.tensor([x], dtype=torch.int16).view(torch.float16) for x in (0x308A, 0x5859))
    wide = products.add(a, b, matrix.Unit("wormhole", 1, fp32_dest=True, half=True))
    assert int(wide.view(torch.int32)) == 0x430B4000
    narrow = products.add(a, b, matrix.Unit("wormhole", 1, half=True))
    assert vectors._held(narrow, matrix.Unit("wormhole", 1, half=True)).item() == 0x585A

"""Reasons are values: the sentence and the fix follow from kind and facts, and both survive a Record and the cache."""

from __future__ import annotations

import ast
import json
import string
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import proveout
from proveout.bringup.missing import ALONE, _verify
from proveout.coding import from_json, to_json
from proveout.compiler.fixes import KnownFix, cheapest_fix
from proveout.compiler.sides import CHEAPER
from proveout.kernels import kernels
from proveout.kernels.movement import JOIN_SIZE
from proveout.ops.table import Refused, ops
from proveout.reasons import KERNEL_DTYPE, KINDS, NOT_A_DTYPE, RANK, TOO_LARGE, Kind, Reason
from proveout.types import Fallback, OpStatus

SRC = Path(proveout.__file__).parent


@pytest.fixture(autouse=True)
def every_family():
    ops(), kernels()


def test_a_reason_is_json_and_back():
    for reason in (Reason("no-row"), TOO_LARGE(dtype="int64", low=-(2**63), high=7), KERNEL_DTYPE(
        kernel="ttnn.sort", wanted=("bfloat16", "bfloat8_b"), dtype="float32"
    )):  # fmt: skip
        assert from_json(Reason, json.loads(json.dumps(to_json(reason)))) == reason


def test_a_choice_and_a_shape_are_printed_as_people_write_them():
    assert str(KERNEL_DTYPE(kernel="ttnn.sort", wanted=("bfloat16", "bfloat8_b"), dtype="int32")) == (
        "ttnn.sort takes bfloat16 or bfloat8_b, not int32"
    )
    assert str(RANK(kernel="ttnn.x", rank=4, found=3)) == "ttnn.x takes 4 dimensions, not 3"
    assert "not (2, 3)" in str(kernels_shape(2, 3))


def kernels_shape(*shape: int) -> Reason:
    return KINDS["create-heads-shape"](shape=shape)


def test_a_kind_of_another_version_is_still_told():
    assert str(Reason("from-later", (("dtype", "float128"),))) == "from-later, dtype float128"
    assert Reason("from-later").fix == ""


def test_a_reason_takes_the_facts_of_its_sentence_and_no_others():
    with pytest.raises(AssertionError, match="takes"):
        NOT_A_DTYPE(kind="float64")
    with pytest.raises(AssertionError, match="two kinds"):
        Kind("dtype", "another sentence")


def test_a_fix_uses_no_fact_that_its_sentence_lacks():
    def names(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    for kind in KINDS.values():
        assert not isinstance(kind.fix, str) or names(kind.fix) <= names(kind.sentence), kind.name


@pytest.mark.slow
def test_nothing_waits_for_a_sentence_that_nobody_says():
    """Every kind that a file defines is called somewhere; the fix of one that is not would wait in vain."""
    defined, called = {}, set()
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and _calls(node.value, "Kind"):
                defined[node.targets[0].id] = node.value.args[0].value
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called.add(node.func.id)
            if isinstance(node, ast.Dict):  # op/host.py's tables: the kind is called by whoever looks it up
                called.update(v.id for v in node.values if isinstance(v, ast.Name))
            if isinstance(node, ast.Call) and _name(node.func) == "get":
                called.update(a.id for a in node.args if isinstance(a, ast.Name))
    assert sorted(set(defined) - called) == []
    assert set(defined.values()) <= set(KINDS)


def _calls(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) == name


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@pytest.mark.slow
def test_refusals_are_raised_with_reasons_alone():
    """No sentence written where it is raised: `Refused("…")` would be text that somebody reads again."""
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _name(node.func) in ("Refused", "Unlowerable"):
                assert not isinstance(node.args[0], (ast.Constant, ast.JoinedStr)), f"{path}:{node.lineno}"
    assert str(Refused(NOT_A_DTYPE(dtype="float64"))) == "float64 is not a dtype of this device"


@pytest.mark.parametrize(
    ("aten", "reason", "words"),
    [
        ("aten.isinf.default", KERNEL_DTYPE(kernel="ttnn.isinf", wanted="floating-point numbers", dtype="int32"),
         "cast the operand from int32 to floating-point numbers"),
        ("aten.sort.default", KERNEL_DTYPE(kernel="ttnn.sort", wanted=("bfloat16",), dtype="float32"), "--precision"),
        ("aten.add.Tensor", NOT_A_DTYPE(dtype="complex64"), "two real tensors"),
        ("aten.add.Tensor", NOT_A_DTYPE(dtype="float16"), "instead of float16"),
        ("aten.add.Tensor", TOO_LARGE(dtype="int64", low=0, high=2**40), "keep the int64 values within 32 bits"),
        ("aten.add.Tensor", CHEAPER(), "it converts when the host ops around it do"),
        ("aten.mm.default", RANK(kernel="ttnn.batch_norm", rank=4, found=3), "from 3 to 4 dimensions"),
        ("aten.mm.default", JOIN_SIZE(multiple=32, size=40), "pad the head size 40 to 64"),
    ],
)  # fmt: skip
def test_the_fix_follows_from_kind_and_facts(aten, reason, words):
    assert words in cheapest_fix(KnownFix(aten, reason))


def test_a_better_sentence_changes_no_fix(monkeypatch):
    told = KnownFix("aten.relu.default", NOT_A_DTYPE(dtype="float64"))
    before = cheapest_fix(told)
    monkeypatch.setitem(KINDS, "dtype", Kind.__new__(Kind))
    object.__setattr__(KINDS["dtype"], "sentence", "no {dtype} here")
    object.__setattr__(KINDS["dtype"], "fix", NOT_A_DTYPE.fix)
    assert str(told.reason) == "no float64 here"
    assert cheapest_fix(told) == before


def test_the_cause_reaches_the_coverage_and_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path))
    wanted = NOT_A_DTYPE(dtype="float64")
    for _ in ("compiled", "from the cache"):
        torch._dynamo.reset()
        compiled = proveout.compile(torch.nn.ReLU(), torch.ones(2, 2, dtype=torch.float64))
        (status,) = compiled.coverage.on_host
        assert (status.cause, status.reason) == (wanted, str(wanted))
        assert "cast to float32" in compiled.fallbacks[0].fix


def test_a_repro_that_stays_for_another_reason_does_not_count_as_verified():
    text = ALONE.format(
        parameters=", x0",
        aten="aten.relu.default",
        arguments="x0",
        inputs="torch.randn(2, 2, dtype=torch.float64),",
        device="sim",
    )
    same = Fallback("aten.relu.default", "", 1, "", cause=NOT_A_DTYPE(dtype="float64"))
    assert _verify(text, same) == ("run here: the same op stays on the host for the same reason", True)
    other = replace(same, cause=NOT_A_DTYPE(dtype="float16"))
    proof, counts = _verify(text, other)
    assert proof == "run here, but alone the op stays for another reason: float64 is not a dtype of this device"
    assert not counts


def test_an_op_of_an_old_record_has_a_sentence_and_no_cause():
    old = {"node": "n", "aten": "aten.sort.default", "state": "host", "reason": "no row in the op table"}
    assert from_json(OpStatus, old).cause is None

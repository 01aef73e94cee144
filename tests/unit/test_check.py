"""Is it right? PCC and its odd cases, outputs matched by place, and Steps that are judged one by one."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils._pytree import register_pytree_node

import proveout
from proveout.check import compare_outputs, compare_steps
from proveout.check.compare import BLOCK, compare, pearson, ulp_of_values
from proveout.kernels.table import kernels

quick = settings(deadline=None, max_examples=60)
NAN, INF = math.nan, math.inf


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)


def judged(found, wanted, threshold=0.99):
    return compare(torch.as_tensor(found), torch.as_tensor(wanted), name="y", threshold=threshold)


# ---- one tensor --------------------------------------------------------------------------------------------------

X = torch.randn(50, generator=torch.Generator().manual_seed(3))


def test_equal_tensors():
    found = judged(X, X)
    assert found.passed
    assert found.pcc == pytest.approx(1.0)
    assert (found.rel_l2, found.max_abs, found.reason) == (0.0, 0.0, "")


def test_negated_tensors():
    found = judged(-X, X)
    assert not found.passed
    assert found.pcc == pytest.approx(-1.0)
    assert found.rel_l2 == pytest.approx(2.0)
    assert found.reason == "PCC -1.000000 is below 0.99"


def test_scaling_and_shifting_are_told_by_the_other_measures_not_by_pcc():
    found = judged(2 * X + 1, X)
    assert found.pcc == pytest.approx(1.0)
    assert found.rel_l2 > 1
    assert found.max_abs == pytest.approx(float((X + 1).abs().max()))


def test_the_threshold_decides():
    noisy = X + 0.2 * torch.randn(50)
    pcc = judged(noisy, X).pcc
    assert 0.9 < pcc < 0.999
    assert judged(noisy, X, pcc - 1e-6).passed
    assert not judged(noisy, X, pcc + 1e-6).passed


def test_low_precision_is_compared_as_it_is():
    found = judged(X.bfloat16(), X)
    assert found.passed
    assert 0.9999 < found.pcc < 1
    assert 0 < found.rel_l2 < 0.01


@pytest.mark.parametrize(
    ("found", "wanted", "passed"),
    [
        ([3.0, 3.0], [3.0, 3.0], True),
        ([3.01, 3.01], [3.0, 3.0], True),
        ([3.2, 3.2], [3.0, 3.0], False),
        ([0.0, 0.0], [0.0, 0.0], True),
        ([1e-4, 0.0], [0.0, 0.0], True),
        ([0.1, 0.0], [0.0, 0.0], False),
        ([5.0], [5.0], True),
        ([-5.0], [5.0], False),
    ],
)
def test_where_nothing_varies_closeness_decides(found, wanted, passed):
    result = judged(found, wanted)
    assert result.pcc is None
    assert result.passed is passed
    largest, off = max(map(abs, wanted)), max(abs(a - b) for a, b in zip(found, wanted))
    far = f"constant: PCC is undefined, and values up to {largest:.3g} are off by up to {off:.3g}"
    assert result.reason == ("constant: PCC is undefined, closeness decides" if passed else far)


def test_zeros_do_not_pass_for_small_numbers():
    """A softmax over 10,000 classes is about 1e-4 everywhere; zeros are not a softmax."""
    wanted = torch.softmax(X.repeat(200) * 0.1, 0)
    assert wanted.max() < 1e-3
    assert not judged(torch.zeros_like(wanted), wanted).passed
    assert judged(wanted.half().float(), wanted).passed


@pytest.mark.parametrize(
    ("found", "wanted", "reason"),
    [
        ([1.0, NAN, 3.0], [1.0, 2.0, 3.0], "not finite in other places, first at element 1"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, INF], "not finite in other places, first at element 2"),
        ([1.0, -INF, 3.0], [1.0, INF, 3.0], "not finite in other places, first at element 1"),
        ([NAN, 2.0, INF], [NAN, 2.0, NAN], "not finite in other places, first at element 2"),
        ([NAN, NAN, 0.0], [NAN, 1.0, 0.0], "not finite in other places, first at element 1"),
    ],
)
def test_nan_and_inf_in_other_places_fail(found, wanted, reason):
    result = judged(found, wanted)
    assert not result.passed
    assert result.reason == reason
    assert (result.pcc, result.rel_l2, result.max_abs) == (None, None, None)


def test_nan_and_inf_in_the_same_places_leave_the_rest_to_pcc():
    specials = torch.tensor([NAN, INF, -INF])
    found = judged(torch.cat([specials, X]), torch.cat([specials, X]))
    assert found.passed
    assert found.pcc == pytest.approx(1.0)
    assert not judged(torch.cat([specials, -X]), torch.cat([specials, X])).passed
    assert judged(specials, specials).reason == "nothing finite, and the same"


@pytest.mark.parametrize(
    ("found", "wanted", "passed", "reason", "max_abs"),
    [
        ([1, 2, 3], [1, 2, 3], True, "equal", 0),
        ([1, 2, 5], [1, 3, 3], False, "2 of 3 integers differ", 2),
        ([True, False], [True, False], True, "equal", 0),
        ([True, True], [True, False], False, "1 of 2 integers differ", 1),
        ([1.0, 2.0], [1, 2], True, "equal", 0),
        ([1.5, 2.0], [1, 2], False, "1 of 2 integers differ", 0.5),
    ],
)
def test_integers_and_bools_are_equal_or_not(found, wanted, passed, reason, max_abs):
    result = judged(found, wanted, threshold=-1)
    assert (result.passed, result.reason, result.max_abs, result.pcc) == (passed, reason, max_abs, None)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.int8])
def test_the_devices_own_integers_can_be_compared(dtype):
    a, b = torch.tensor([1, 2]).to(dtype), torch.tensor([1, 3]).to(dtype)
    assert judged(a, a).passed
    assert judged(a, b).reason == "1 of 2 integers differ"


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_tensors_without_elements_are_equal(dtype):
    assert judged(torch.empty(0, 3, dtype=dtype), torch.empty(0, 3, dtype=dtype)).passed


def test_another_shape_fails_even_with_the_same_numbers():
    result = judged(X, X.view(5, 10))
    assert not result.passed
    assert result.reason == "shape (50,) instead of (5, 10)"


def test_complex_numbers_by_both_parts():
    z = torch.randn(20, dtype=torch.complex64)
    assert judged(z, z).passed
    assert not judged(z.conj(), z).passed
    assert judged(z, z.conj().conj()).pcc == pytest.approx(1.0)


@pytest.mark.parametrize("pair", [(torch.randn(3), torch.randn(3) * 1j), (torch.randn(3) * 1j, torch.randn(3))])
def test_complex_for_real_numbers_fails_by_its_dtype(pair):
    result = judged(*pair)
    assert not result.passed
    assert "instead of torch." in result.reason


VECTORS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30).map(lambda v: torch.tensor(v, dtype=torch.float64))


@quick
@given(VECTORS, VECTORS)
def test_pcc_is_symmetric_and_bounded(a, b):
    size = min(len(a), len(b))
    found, back = pearson(a[:size], b[:size]), pearson(b[:size], a[:size])
    assert (found is None) == (back is None)
    if found is not None:
        assert -1 <= found <= 1
        assert found == pytest.approx(back)


@quick
@given(VECTORS, st.floats(0.01, 100), st.floats(-100, 100))
def test_pcc_ignores_scale_and_offset(a, scale, offset):
    spread = float((a - a.mean()).abs().max())
    if spread > 1e-3 * float(a.abs().max()) and spread > 1e-3:
        assert pearson(a, a * scale + offset) == pytest.approx(1.0, abs=1e-6)
        assert pearson(a, -a * scale + offset) == pytest.approx(-1.0, abs=1e-6)


@quick
@given(VECTORS)
def test_a_tensor_always_equals_itself(a):
    assert judged(a, a.clone(), threshold=0.999999).passed


# ---- a model's outputs -------------------------------------------------------------------------------------------


def verdicts(found, wanted):
    return {c.name: (c.passed, c.reason) for c in compare_outputs(found, wanted, 0.99)}


def test_outputs_have_the_names_of_their_places():
    value = {"logits": X, "more": (X, [X])}
    assert list(verdicts(value, value)) == ["['logits']", "['more'][0]", "['more'][1][0]"]
    assert list(verdicts(X, X)) == ["output"]
    assert list(verdicts((X, None, 3), (X, None, 3))) == ["[0]"]


def test_each_output_is_judged_on_its_own():
    found = verdicts((X, -X, X), (X, X, X))
    assert [passed for passed, _ in found.values()] == [True, False, True]


def test_a_missing_and_an_extra_output_fail():
    found = verdicts({"a": X, "c": X}, {"a": X, "b": X})
    assert found == {
        "['a']": (True, ""),
        "['b']": (False, "this output is missing"),
        "['c']": (False, "eager has no such output"),
    }


def test_a_shorter_tuple_lacks_its_last_output():
    assert verdicts((X,), (X, X))["[1]"] == (False, "this output is missing")


@pytest.mark.parametrize(
    ("found", "wanted"),
    [(3.0, 4.0), ((X, 3), (X, 4)), (SimpleNamespace(y=X), SimpleNamespace(y=-X)), ("a", "b")],
    ids=["a number", "a number among tensors", "an object", "a text"],
)
def test_an_output_that_is_no_tensor_does_not_pass_unseen(found, wanted):
    assert not all(c.passed for c in compare_outputs(found, wanted, 0.99))


def test_a_models_output_class_is_looked_into():
    outputs = pytest.importorskip("transformers.modeling_outputs")
    value = outputs.BaseModelOutput(last_hidden_state=X, hidden_states=(X, X))
    assert [c.passed for c in compare_outputs(value, value, 0.99)] == [True] * 3


# ---- Step by Step ------------------------------------------------------------------------------------------------


def model():
    layers = (nn.GELU(), nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 16), nn.Softmax(-1))
    return nn.Sequential(*layers).eval(), torch.randn(8, 32)


def steps(precision, device="sim"):
    net, x = model()
    compiled = proveout.compile(net, (x,), device=device, settings={"precision": precision})
    return compare_steps(compiled, (x,), {})


ATEN = ["gelu", "addmm", "native_layer_norm", "addmm", "_softmax"]


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_in_float32_every_step_is_exact(device):
    found = steps("model", device)
    assert [c.origin.aten.split(".")[1] for c in found] == ATEN
    assert all(c.passed and c.scope == "step" for c in found)
    assert min(c.pcc for c in found) > 0.9999999
    assert min(c.accumulated_pcc for c in found) > 0.9999999


def test_in_bfloat16_every_step_is_close_and_errors_add_up():
    found = steps("bfloat16")
    assert [c.origin.aten.split(".")[1] for c in found] == ATEN
    assert all(c.passed for c in found)
    assert all(0.99 <= c.pcc < 1 for c in found)
    assert all(0.99 <= c.accumulated_pcc < 1 for c in found)
    assert all(c.accumulated_pcc <= c.pcc + 1e-5 for c in found)
    assert found[-1].accumulated_pcc < found[-1].pcc


def plant(monkeypatch, kernel, fault):
    """Make a kernel wrong on the device alone: where it computes in bfloat16."""
    row = kernels()[kernel]

    def meaning(**attrs):
        out = row.meaning(**attrs)
        return fault(out) if out.dtype == torch.bfloat16 and out.device.type != "meta" else out

    monkeypatch.setitem(kernels(), kernel, replace(row, meaning=meaning))


def test_a_wrong_kernel_is_the_step_that_fails(monkeypatch):
    plant(monkeypatch, "ttnn.layer_norm", lambda y: y.flip(-1))
    found = steps("bfloat16")
    assert [c.origin.aten for c in found if not c.passed] == ["aten.native_layer_norm.default"]
    wrong = next(c for c in found if not c.passed)
    assert wrong.reason.startswith("PCC ")
    assert wrong.pcc < 0.9


def test_the_steps_after_a_wrong_one_are_right_by_themselves_and_wrong_from_the_start(monkeypatch):
    plant(monkeypatch, "ttnn.gelu", lambda y: -y)
    found = {c.origin.aten.split(".")[1]: c for c in steps("bfloat16")}
    assert not found["gelu"].passed
    assert found["native_layer_norm"].passed
    assert found["native_layer_norm"].accumulated_pcc < 0


def test_a_kernel_that_makes_nan_fails(monkeypatch):
    plant(monkeypatch, "ttnn.gelu", lambda y: y.masked_fill(y > 0.5, NAN))
    found = {c.origin.aten.split(".")[1]: c for c in steps("bfloat16")}
    assert not found["gelu"].passed
    assert found["gelu"].reason.startswith("not finite in other places")


class Branches(nn.Module):
    """Integers, bools, a host op, several graphs."""

    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(10, 32), nn.Linear(32, 32)

    def forward(self, ids, x):
        y = torch.where(x > 0, self.table(ids), x)
        order = torch.logcumsumexp(y, dim=-1)
        torch._dynamo.graph_break()
        return self.out(order), (order > 0).sum(-1)


@pytest.mark.parametrize("precision", ["model", "bfloat16"])
def test_all_graphs_are_replayed_over_host_steps_and_integers(precision):
    net, ids, x = Branches().eval(), torch.randint(0, 10, (4, 6)), torch.randn(4, 6, 32)
    compiled = proveout.compile(net, (ids, x), settings={"precision": precision})
    assert len(compiled.programs) == 2
    found = compare_steps(compiled, (ids, x), {})
    assert all(c.passed for c in found), [c for c in found if not c.passed]
    assert {c.origin.aten for c in found} >= {"aten.where.self", "aten.addmm.default", "aten.gt.Scalar"}
    assert all(not c.origin.aten.startswith("aten.logcumsumexp") for c in found)


def test_a_replay_leaves_the_compiled_model_as_it_was():
    net, x = model()
    compiled = proveout.compile(net, (x,))
    before = compiled(x)
    compare_steps(compiled, (x,), {})
    assert torch.equal(compiled(x), before)
    assert compiled.num_transfers == 2


def test_containers_registered_without_names_are_compared_by_their_keys():
    class Output(dict):
        """As diffusers registers its outputs: how to open them, not what the parts are called."""

    register_pytree_node(Output, lambda o: (list(o.values()), list(o)), lambda v, keys: Output(zip(keys, v)))
    x = torch.randn(8)
    verdicts = compare_outputs((Output(sample=x, mean=x),), (Output(sample=x, mean=-x),), 0.99)
    assert [(v.name, v.passed) for v in verdicts] == [("[0]['sample']", True), ("[0]['mean']", False)]


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_numbers_made_block_by_block_are_those_of_whole_vectors(offset):
    """Three blocks and a part, sorted so that no block's mean is near the whole's."""
    torch.manual_seed(0)
    want = torch.randn(3 * BLOCK + 5).sort().values + offset
    got = (want + torch.randn_like(want) * 0.05).bfloat16()
    x, y = got.double(), want.double()
    off, (a, b) = (x - y).abs(), (x - x.mean(), y - y.mean())
    comparison = compare(got, want, name="out", threshold=0.0)
    assert comparison.pcc == pytest.approx(float(a @ b / (a.norm() * b.norm())), abs=1e-10)
    assert comparison.rel_l2 == pytest.approx(float(off.norm() / y.norm()), rel=1e-10)
    assert comparison.max_abs == float(off.max())
    assert comparison.max_ulp == float((off / ulp_of_values(y, torch.bfloat16)).max())


def test_one_number_more_than_a_block_times_over_has_no_pcc():
    same = torch.full((BLOCK + 3,), 0.1)
    assert compare(same, same, name="out", threshold=0.99).pcc is None

"""The values that travel between the rooms: sizes of tensors, JSON in and out, keys, statistics, settings."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from dataclasses import replace
from typing import Literal, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proveout import types as values
from proveout.chip import intervals
from proveout.clock import blocks
from proveout.coding import digest, from_json, to_json
from proveout.errors import UsageError
from proveout.types import (
    DRAM,
    DTYPE_BYTES,
    L1,
    PROMISED,
    TILE,
    Comparison,
    Coverage,
    Job,
    Memory,
    MemoryUse,
    OpStatus,
    Record,
    Settings,
    ShardSpec,
    TensorSpec,
    Timing,
    Workload,
    short_dtype,
    versions,
)

quick = settings(deadline=None, max_examples=50)

# ---- tensors as stored -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "tile_bytes"), [("bfloat16", 2048), ("bfloat8_b", 1088), ("bfloat4_b", 576), ("float32", 4096)]
)
def test_a_tile_has_its_published_bytes(dtype, tile_bytes):
    one = TensorSpec((32, 32), dtype, "tile", DRAM)
    assert one.page_bytes == one.nbytes == tile_bytes
    six = TensorSpec((2, 33, 65), dtype, "tile", DRAM)
    assert six.padded_shape == (2, 64, 96)
    assert six.num_pages == 12
    assert six.nbytes == 12 * tile_bytes


@pytest.mark.parametrize(
    ("shape", "padded"),
    [
        ((), (32, 32)),
        ((1,), (32, 32)),
        ((5,), (32, 32)),
        ((33,), (32, 64)),
        ((1, 1), (32, 32)),
        ((3, 32, 33), (3, 32, 64)),
        ((2, 3, 0, 5), (2, 3, 0, 32)),
    ],
)
def test_tile_layout_pads_the_last_two_dimensions_to_whole_tiles(shape, padded):
    assert TensorSpec(shape, "bfloat16", "tile", DRAM).padded_shape == padded


@pytest.mark.parametrize(
    ("shape", "page_bytes", "num_pages", "nbytes"),
    [
        ((), 4, 1, 4),
        ((7,), 28, 1, 28),
        ((3, 7), 28, 3, 84),
        ((2, 3, 7), 28, 6, 168),
        ((3, 0), 0, 0, 0),
        ((0,), 0, 0, 0),
    ],
)
def test_in_row_major_a_page_is_a_row_and_nothing_is_padded(shape, page_bytes, num_pages, nbytes):
    spec = TensorSpec(shape, "float32")
    assert (spec.page_bytes, spec.num_pages, spec.nbytes) == (page_bytes, num_pages, nbytes)
    assert spec.padded_shape == shape


SHAPES = st.lists(st.integers(0, 70), max_size=4).map(tuple)


@quick
@given(SHAPES, st.sampled_from(["bfloat16", "float32", "bfloat8_b", "bfloat4_b", "int32"]))
def test_tile_padding_is_whole_small_and_never_loses_an_element(shape, dtype):
    spec = TensorSpec(shape, dtype, "tile", DRAM)
    padded = spec.padded_shape
    inside = (1,) * (2 - len(shape)) + shape
    assert all(n % TILE == 0 for n in padded[-2:])
    assert padded[:-2] == inside[:-2]
    assert all(0 <= p - n < TILE for p, n in zip(padded, inside))
    assert spec.nbytes == spec.num_pages * spec.page_bytes
    assert spec.num_pages * TILE * TILE == math.prod(padded)


@quick
@given(SHAPES, st.sampled_from(sorted(DTYPE_BYTES)))
def test_pages_hold_exactly_the_tensor_in_row_major(shape, dtype):
    if dtype not in ("bfloat8_b", "bfloat4_b"):
        spec = TensorSpec(shape, dtype)
        assert spec.num_pages * spec.page_bytes == spec.nbytes == spec.numel * DTYPE_BYTES[dtype]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (TensorSpec((4, 64), "float32"), "f32[4,64] host"),
        (TensorSpec((), "bool"), "bool[] host"),
        (TensorSpec((4, 64), "bfloat16", "tile", DRAM), "bf16[4,64] tile dram"),
        (TensorSpec((4, 64), "bfloat8_b", "tile", L1), "bf8_b[4,64] tile l1"),
        (TensorSpec((1, 8), "uint32", "row_major", DRAM), "u32[1,8] rm dram"),
        (
            TensorSpec((8, 8), "int64", "tile", Memory("l1", "height", ShardSpec((8, 8), (1, 1)))),
            "i64[8,8] tile l1/height",
        ),
    ],
)
def test_a_spec_prints_in_one_short_phrase(spec, text):
    assert str(spec) == text


def test_short_dtypes_are_all_different():
    assert len({short_dtype(d) for d in DTYPE_BYTES}) == len(DTYPE_BYTES)
    assert short_dtype("quint8") == "quint8"


# ---- JSON --------------------------------------------------------------------------------------------------------


def any_value(hint):
    """Values of a type hint, for the kinds of hints that this module uses."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return st.builds(hint, **{f.name: any_value(hints[f.name]) for f in dataclasses.fields(hint)})
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        if args[1:] == (...,):
            return st.lists(any_value(args[0]), max_size=2).map(tuple)
        return st.tuples(*map(any_value, args))
    if origin in (Union, types.UnionType):
        return st.one_of(*(st.none() if a is type(None) else any_value(a) for a in args))
    plain = {
        str: st.text(max_size=5),
        bool: st.booleans(),
        int: st.integers(-(2**70), 2**70),
        float: st.floats(allow_nan=False, allow_infinity=False),
        dict[str, typing.Any]: st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers() | st.none()),
    }
    return plain[hint]


DATACLASSES = [v for v in vars(values).values() if dataclasses.is_dataclass(v) and isinstance(v, type)]


def test_every_dataclass_of_the_module_is_among_those_tried():
    assert {Record, Job, Workload, Settings, Timing, Coverage, TensorSpec} <= set(DATACLASSES)
    assert len(DATACLASSES) >= 14


@pytest.mark.slow
@pytest.mark.parametrize("cls", DATACLASSES, ids=lambda c: c.__name__)
@quick
@given(data=st.data())
def test_json_and_back_is_the_same_value(cls, data):
    value = data.draw(any_value(cls))
    text = json.dumps(to_json(value), allow_nan=False)
    assert from_json(cls, json.loads(text)) == value


def test_json_has_no_nan():
    timing = Comparison("output", "y", math.nan, math.inf, -math.inf, 0.99, False)
    assert to_json(timing) | {"origin": None} == {
        "scope": "output",
        "name": "y",
        "pcc": None,
        "rel_l2": None,
        "max_abs": None,
        "threshold": 0.99,
        "passed": False,
        "reason": "",
        "accumulated_pcc": None,
        "origin": None,
        "max_ulp": None,
        "within": None,
    }


def test_missing_fields_take_their_defaults():
    assert from_json(Workload, {"name": "a", "script": "a.py", "selector": "x"}) == Workload("a", "a.py", "x")


@pytest.mark.parametrize(
    ("cls", "data", "words"),
    [
        (Settings, {"precison": "model"}, "Settings has no field 'precison'"),
        (Job, {"workload": 3}, "expected an object for Workload, found int"),
        (Job, [], "expected an object for Job, found list"),
        (Workload, {"name": "a"}, "Workload: .*missing 2 required positional arguments"),
        (TensorSpec, {"shape": "4x64", "dtype": "float32"}, "expected a list, found str"),
        (ShardSpec, {"shape": [1, 2, 3], "grid": [1, 1]}, "is not a list of 2"),
        (
            Job,
            {"workload": {"name": "a", "script": "b", "selector": "c", "colour": 1}},
            "Workload has no field 'colour'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(cls, data, words):
    with pytest.raises(ValueError, match=words):
        from_json(cls, data)


@pytest.mark.parametrize(
    ("cls", "data"),
    [
        (Timing, {"what": "x", "kind": "guessed", "device": "cpu", "samples_ns": [1]}),
        (Timing, {"what": "x", "kind": "measured", "device": "cpu", "samples_ns": ["1"]}),
        (Settings, {"trace": "no"}),
        (Settings, {"pcc": "high"}),
        (MemoryUse, {"fits": 1}),
        (Workload, {"name": 1, "script": "a.py", "selector": "x"}),
    ],
)
def test_a_scalar_of_the_wrong_type_is_refused(cls, data):
    with pytest.raises(ValueError):  # noqa: PT011
        from_json(cls, data)


@pytest.mark.slow
@quick
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.tuples(x, x)))
def test_a_digest_does_not_tell_lists_from_tuples(value):
    assert digest(value) == digest(json.loads(json.dumps(to_json(value))))
    assert len(digest(value)) == 64


def test_a_digest_does_not_depend_on_the_order_of_keys():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})


# ---- jobs --------------------------------------------------------------------------------------------------------

WORKLOAD = Workload("linear", "/x/selftest/linear.py", "0123456789ab")


@pytest.mark.parametrize(
    "other",
    [
        Job(replace(WORKLOAD, name="linear::Two")),
        Job(replace(WORKLOAD, selector="ba9876543210")),
        Job(replace(WORKLOAD, script_args="--batch 8")),
        Job(WORKLOAD, device="sim:p150"),
        Job(WORKLOAD, device="cpu"),
        Job(WORKLOAD, settings=Settings()),
        Job(WORKLOAD, settings=Settings(precision="bfloat16", seed=1)),
        Job(WORKLOAD, settings=Settings(precision="bfloat16", trace=True)),
        Job(WORKLOAD, settings=Settings(precision="bfloat16", math_fidelity="HiFi4")),
        Job(WORKLOAD, settings=Settings(precision="bfloat16", pcc=0.5)),
        Job(WORKLOAD, do=("check",)),
        Job(WORKLOAD, iterations=21),
        Job(WORKLOAD, warmup=4),
    ],
    ids=lambda job: digest(job)[:6],
)
def test_a_jobs_key_changes_with_what_matters(other):
    assert other.key != Job(WORKLOAD).key


@pytest.mark.parametrize(
    "other",
    [
        Job(WORKLOAD, timeout_s=5),
        Job(WORKLOAD, artifacts="/tmp/here"),
        Job(WORKLOAD, dump="/tmp/here"),
        Job(replace(WORKLOAD, script="/home/you/selftest/linear.py")),
        Job(replace(WORKLOAD, labels=(("author", ("me",)),), location="linear.py:3", seconds=4.0, calls=2)),
    ],
    ids=["timeout", "artifacts", "dump", "another folder", "labels"],
)
def test_a_jobs_key_does_not_change_with_what_does_not(other):
    assert other.key == Job(WORKLOAD).key


def test_two_scripts_whose_models_are_unknown_have_two_keys():
    one, two = (Job(Workload("m", f"/x/{folder}/m.py", "")) for folder in ("a", "b"))
    assert one.key != two.key


def test_a_jobs_key_changes_with_the_versions(monkeypatch):
    before = Job(WORKLOAD).key
    monkeypatch.setattr(values, "versions", lambda: {**versions(), "torch": "99.0"})
    assert Job(WORKLOAD).key != before


@pytest.mark.parametrize("chosen", [{}, {"pcc": 1}, {"pcc": 0}, {"math_fidelity": "LoFi"}], ids=str)
def test_a_jobs_key_is_the_same_on_the_other_side_of_a_pipe(chosen):
    job = Job(WORKLOAD, settings=Settings.of(chosen))
    assert from_json(Job, json.loads(json.dumps(to_json(job)))).key == job.key


def test_versions_name_us_and_torch():
    assert set(versions()) == {"proveout", "torch"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ((), False),
        ((("expect", ("fail",)),), True),
        ((("expect", ("pass",)),), False),
        ((("a", ("b",)), ("expect", ("fail",))), True),
    ],
)
def test_a_label_says_that_a_workload_is_meant_to_fail(labels, expected):
    assert replace(WORKLOAD, labels=labels).expects_failure is expected


# ---- timings -----------------------------------------------------------------------------------------------------


def measured(*samples):
    return Timing("compiled", "measured", "cpu", samples)


def test_statistics_of_a_timing():
    timing = measured(4, 1, 3, 10)
    assert timing.median_ns == 3.5
    assert timing.mean_ns == 4.5
    assert (timing.percentile(0), timing.percentile(1)) == (1, 10)


def test_a_95th_percentile_needs_20_samples():
    assert measured(*range(19)).p95_ns is None
    assert measured(*range(0, 2000, 100)).p95_ns == pytest.approx(1805)


def test_a_modelled_time_is_one_value_without_percentiles():
    timing = Timing("compiled", "modelled", "sim:n150", (7,))
    assert timing.median_ns == 7
    assert timing.p95_ns is None
    assert replace(timing, samples_ns=(7,) * 40).p95_ns is None


def test_intervals_promise_what_their_makers_promise():
    assert (PROMISED["measured"], PROMISED["modelled"]) == (blocks.CONFIDENCE, intervals.PROMISED)


@quick
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40), st.floats(0, 1), st.floats(0, 1))
def test_percentiles_lie_within_the_samples_and_never_fall(samples, a, b):
    timing = measured(*samples)
    low, high = timing.percentile(min(a, b)), timing.percentile(max(a, b))
    assert min(samples) <= low <= max(samples) + 1e-3
    assert low <= high + 1e-3
    assert timing.percentile(0.5) == pytest.approx(timing.median_ns)


# ---- settings ----------------------------------------------------------------------------------------------------


def test_settings_from_nothing_a_dict_and_settings():
    assert Settings.of(None) == Settings.of({}) == Settings()
    chosen = Settings(trace=True)
    assert Settings.of(chosen) is chosen
    assert Settings.of({"math_fidelity": None, "queues": 2, "pcc": 0.5}) == Settings(queues=2, pcc=0.5)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"precison": "model"}, "unknown setting 'precison'; valid: .*trace.* Did you mean 'precision'"),
        ({"precision": "int3"}, "unknown value for setting 'precision': 'int3'; valid: bfloat16, float16, model, tf32"),
        ({"precision": ["model"]}, "unknown value for setting 'precision'"),
        ({"math_fidelity": "HiFi5"}, "valid: HiFi2, HiFi3, HiFi4, LoFi, None. Did you mean 'HiFi"),
        ({"queues": 3}, "unknown value for setting 'queues': '3'; valid: 1, 2"),
        ({"queues": True}, "unknown value for setting 'queues'"),
        ({"trace": 1}, "setting 'trace' takes True or False, not 1"),
        ({"seed": 1.0}, "setting 'seed' takes a whole number, not 1.0"),
        ({"seed": True}, "setting 'seed' takes a whole number, not True"),
        ({"pcc": 2}, "setting 'pcc' takes a number from -1 to 1, not 2"),
        ({"pcc": math.nan}, "takes a number from -1 to 1, not nan"),
        ({"pcc": "high"}, "takes a number from -1 to 1, not 'high'"),
        ("fast", "settings must be a dict or proveout.Settings, not str"),
        ([("trace", True)], "settings must be a dict or proveout.Settings, not list"),
    ],
)
def test_bad_settings_are_refused_by_name(given_, words):
    with pytest.raises(UsageError, match=words) as caught:
        Settings.of(given_)
    assert isinstance(caught.value, ValueError)
    assert caught.value.exit_code == 2


# ---- coverage and records ----------------------------------------------------------------------------------------

OPS = (
    OpStatus("mm", "aten.mm.default", "converted"),
    OpStatus("sort", "aten.sort.default", "host", "no row in the op table"),
    OpStatus("sort_1", "aten.sort.default", "host", "another reason"),
    OpStatus("view", "aten.view.default", "removed", "nothing to do"),
)


def test_coverage_counts_nodes_and_kinds_of_ops():
    coverage = Coverage(OPS, num_transfers=3, num_graphs=1)
    assert (coverage.before, coverage.before_unique, coverage.remain, coverage.remain_unique) == (4, 3, 2, 1)
    assert coverage.host_share == 0.5
    assert Coverage().host_share == 0.0


def test_the_op_table_has_one_row_an_op_with_its_first_reason():
    assert Coverage(OPS).by_op() == [
        ("aten.mm.default", {"converted": 1}, ""),
        ("aten.sort.default", {"host": 2}, "no row in the op table"),
        ("aten.view.default", {"removed": 1}, ""),
    ]


def test_coverages_of_graphs_add_up():
    total = Coverage(OPS[:1], 2, 1, ("a break",)) + Coverage(OPS[1:], 3, 1, ("another",))
    assert total == Coverage(OPS, 5, 2, ("a break", "another"))


def test_a_records_pcc_is_the_lowest_of_its_outputs():
    def compared(scope, pcc):
        return Comparison(scope, "y", pcc, None, None, 0.99, True)

    record = Record(Job(WORKLOAD), "passed", comparisons=(compared("output", 0.9), compared("step", 0.1)))
    assert record.pcc == 0.9
    assert replace(record, comparisons=(*record.comparisons, compared("output", 0.8))).pcc == 0.8
    assert replace(record, comparisons=(compared("output", None),)).pcc is None


def test_a_record_gives_a_timing_by_what_it_times():
    eager = measured(1)
    record = Record(Job(WORKLOAD), "passed", timings=(replace(eager, what="eager"), eager))
    assert record.timing("compiled") is eager
    assert record.timing("simulation") is None

"""The modelled chip against numbers worked out by hand from the published figures: memory, time, peaks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proveout.chip.memory import Arena, bytes_per_bank
from proveout.chip.specs import CHIPS
from proveout.chip.time import (
    LAUNCH_NS,
    MATRIX,
    PHASES,
    POOL,
    VECTOR,
    Work,
    default_fidelity,
    kernel_time,
    transfer_time,
)
from proveout.compiler.plan import make_plan
from proveout.compiler.program_passes import deallocate, hoist
from proveout.errors import DeviceError, OutOfMemory
from proveout.kernels.cost import StepTime, memory_over_time, memory_use, program_ns, step_times
from proveout.kernels.table import MEMORY_NAMES, infer
from proveout.program import Name, Program, Ref, Step, verify
from proveout.types import DRAM, HOST, L1, Settings, TensorSpec

quick = settings(deadline=None, max_examples=60)
N150, N300, P100, P150 = (CHIPS[name] for name in ("n150", "n300", "p100", "p150"))


def t(*shape, dtype="bfloat16", layout="tile", memory=DRAM):
    return TensorSpec(shape, dtype, layout, memory)


# ---- specs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chip", "cores", "ghz", "l1", "allocatable", "banks", "gb_s", "alignment"),
    [
        (N150, 64, 1.0, 1_499_136, 1_393_472, 12, 288, 32),
        (N300, 56, 1.0, 1_499_136, 1_393_472, 12, 288, 32),
        (P100, 110, 1.35, 1_572_864, 1_461_248, 7, 448, 64),
        (P150, 130, 1.35, 1_572_864, 1_461_248, 8, 512, 64),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_a_chip_has_its_published_figures(chip, cores, ghz, l1, allocatable, banks, gb_s, alignment):
    found = (chip.cores, chip.clock_ghz, chip.l1_per_core, chip.l1_allocatable, chip.dram_banks, chip.dram_gb_s)
    assert found == (cores, ghz, l1, allocatable, banks, gb_s)
    assert (chip.dram_alignment, chip.l1_alignment) == (alignment, 16)


def test_only_the_n300_has_two_chips():
    assert {name: chip.chips for name, chip in CHIPS.items()} == {"n150": 1, "n300": 2, "p100": 1, "p150": 1}
    assert all(name == chip.name for name, chip in CHIPS.items())


@pytest.mark.parametrize(
    ("chip", "tflops"),
    [(N150, 262.144), (N300, 229.376), (P100, 608.256), (P150, 718.848)],
    ids=lambda v: getattr(v, "name", ""),
)
@pytest.mark.parametrize("fidelity", PHASES)
def test_the_peak_is_cores_times_4096_times_ghz_over_phases(chip, tflops, fidelity):
    work = Work(1e15, MATRIX, phased=True)
    seconds = kernel_time(work, [], chip, fidelity).compute_ns * 1e-9
    assert 1e15 / seconds / 1e12 == pytest.approx(tflops / PHASES[fidelity], rel=1e-6)


# ---- memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "chip", "wanted"),
    [
        (t(32, 32), N150, 2048),
        (t(1), N150, 2048),
        (t(32, 32 * 12), N150, 2048),
        (t(32, 32 * 13), N150, 4096),
        (t(32, 32 * 9), P150, 4096),
        (t(32, 32 * 64, memory=L1), N150, 2048),
        (t(32, 32 * 65, memory=L1), N150, 4096),
        (t(32, 32 * 131, memory=L1), P150, 4096),
        (t(32, 32, dtype="bfloat8_b"), N150, 1088),
        (t(32, 32, dtype="bfloat4_b"), P150, 576),
        (t(3, 5, layout="row_major"), N150, 32),
        (t(13, 5, layout="row_major"), N150, 64),
        (t(3, 5, layout="row_major"), P150, 64),
        (t(3, 5, layout="row_major", memory=L1), P150, 16),
        (t(3, 17, layout="row_major", memory=L1), N150, 48),
        (t(0, 32), N150, 0),
    ],
    ids=str,
)
def test_every_bank_takes_as_much_as_the_fullest(spec, chip, wanted):
    """ceil(pages / banks) × round_up(page, alignment)."""
    assert bytes_per_bank(spec, chip) == wanted


def arena(**blocks):
    made = Arena("L1", 100)
    for name, size in blocks.items():
        made.allocate(name, size)
    return made


def test_an_arena_fills_from_the_start():
    made = arena(a=10, b=20, c=30)
    assert made.blocks == {"a": (0, 10), "b": (10, 20), "c": (30, 30)}
    assert (made.used, made.largest_free, made.peak) == (60, 40, 60)


def test_the_first_gap_that_fits_is_taken():
    made = arena(a=10, b=20, c=10, d=15, e=20)
    made.free("b")
    made.free("d")
    made.allocate("f", 15)
    assert made.blocks["f"] == (10, 15)
    made.allocate("g", 15)
    assert made.blocks["g"] == (40, 15)
    assert made.largest_free == 25


def test_the_peak_stays_when_buffers_go():
    made = arena(a=60, b=30)
    made.free("a")
    made.allocate("c", 10)
    assert (made.used, made.peak) == (40, 90)


def test_freeing_what_is_not_there_does_nothing():
    made = arena(a=10)
    made.free("ghost")
    assert made.used == 10


def test_out_of_memory_says_what_was_asked_what_is_free_and_the_largest_block():
    made = arena(a=30, b=30, c=30)
    made.free("b")
    with pytest.raises(OutOfMemory) as caught:
        made.allocate("scores", 35)
    assert str(caught.value) == ("out of L1 for %scores: 35 B per bank asked, 40 B free, largest free block 30 B.")
    assert isinstance(caught.value, DeviceError)
    assert "scores" not in made.blocks


@quick
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60)), max_size=40))
def test_buffers_never_overlap_and_fail_only_where_no_gap_is_large_enough(actions):
    made = Arena("DRAM", 128)
    for name, size in actions:
        if str(name) in made.blocks:
            made.free(str(name))
            continue
        room = made.largest_free
        try:
            made.allocate(str(name), size)
        except OutOfMemory:
            assert room < size
        else:
            assert room >= size
        ends = 0
        for start, length in sorted(made.blocks.values()):
            assert start >= ends
            ends = start + length
        assert ends <= 128
        assert made.used + made.largest_free <= 128
        assert made.used <= made.peak <= 128


# ---- time --------------------------------------------------------------------------------------------------------


def product(m, k, n, batch=1, dtype="bfloat16", memory=DRAM):
    a, b = t(batch, m, k, dtype=dtype, memory=memory), t(k, n, dtype=dtype, memory=memory)
    factors = (("input_tensor_a", Ref("a")), ("input_tensor_b", Ref("b")))
    return Step("ttnn.matmul", (*factors, ("memory_config", MEMORY_NAMES[memory])), ("y",)), {"a": a, "b": b}


def timed(step, specs, chip, **chosen):
    """One Step's modelled time on a chip."""
    (out,) = infer(step, specs)
    step = replace(step, outputs=("y",))
    program = Program("p", "ttnn", (), (), (), (), (), (step,), {**specs, "y": out})
    (found,) = step_times(program, chip, Settings(**chosen))
    return found.kernel


@pytest.mark.parametrize(
    ("chip", "fidelity", "compute_ns"),
    [
        # 2·1024³ = 2³¹ operations; 64 cores × 4096 = 2¹⁸ a cycle at 1 GHz: 8192 ns a phase.
        (N150, "LoFi", 8192),
        (N150, "HiFi2", 16384),
        (N150, "HiFi3", 24576),
        (N150, "HiFi4", 32768),
        # 130 cores × 4096 = 532,480 a cycle: 4032.98 cycles a phase, at 1.35 GHz 2987.4 ns.
        (P150, "LoFi", 2988),
        (P150, "HiFi2", 5975),
        (P150, "HiFi3", 8963),
        (P150, "HiFi4", 11950),
    ],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_a_product_of_1024_takes_its_cycles(chip, fidelity, compute_ns):
    found = timed(*product(1024, 1024, 1024), chip, math_fidelity=fidelity)
    bandwidth_ns = 7571 if chip is N150 else 3815  # 2 MiB at 258 and at 512 GiB/s
    assert (found.compute_ns, found.bandwidth_ns) == (compute_ns, bandwidth_ns)
    assert found.ideal_ns == max(compute_ns, bandwidth_ns)
    assert found.bound == ("compute" if compute_ns > bandwidth_ns else "bandwidth")


def test_the_bandwidth_time_is_that_of_the_largest_tensor_alone():
    """64 MiB at 258 GiB/s are 242,248.1 ns on Wormhole; at 512 GiB/s 122,070.3 ns on Blackhole."""
    step, specs = product(32, 1024, 32768)
    assert specs["b"].nbytes == 64 << 20
    assert timed(step, specs, N150).bandwidth_ns == 242_249
    assert timed(step, specs, P150).bandwidth_ns == 122_071
    found = timed(step, specs, N150, math_fidelity="LoFi")
    assert found.compute_ns == 8192
    assert found.ideal_ns == 242_249
    assert found.bound == "bandwidth"


def test_a_tensor_in_l1_counts_one_nanosecond():
    found = timed(*product(1024, 1024, 1024, memory=L1), N150)
    assert found.bandwidth_ns == 1
    assert found.ideal_ns == found.compute_ns
    step, specs = product(32, 32, 32, memory=L1)
    assert timed(step, {**specs, "b": t(32, 32)}, N150).bandwidth_ns == math.ceil(2048 / (258 * 2**30) * 1e9) == 8


def test_products_are_padded_to_whole_tiles():
    assert timed(*product(1, 1, 1), N150) == timed(*product(32, 32, 32), N150)
    assert timed(*product(33, 32, 32), N150, math_fidelity="HiFi4") == timed(
        *product(64, 32, 32), N150, math_fidelity="HiFi4"
    )


def test_a_batch_counts_in_full():
    """2·8·512³ / 2¹⁸ × 2 = 16,384."""
    assert timed(*product(512, 512, 512, batch=8), N150, math_fidelity="HiFi2").compute_ns == 16384


def test_transposed_operands_have_the_same_cost():
    _, specs = product(64, 96, 32)
    plain = Step("ttnn.matmul", (("input_tensor_a", Ref("a")), ("input_tensor_b", Ref("b"))), ())
    flipped = Step("ttnn.matmul", (*plain.attrs, ("transpose_a", True), ("transpose_b", True)), ())
    turned = {"a": t(1, 96, 64), "b": t(32, 96)}
    assert timed(flipped, turned, N150).compute_ns == timed(plain, specs, N150).compute_ns


def test_a_convolution_takes_its_cycles():
    """2·64·3·3·56·56·64 / 2¹⁸ × 2 phases = 1764."""
    attrs = {"in_channels": 64, "out_channels": 64, "batch_size": 1, "input_height": 56, "input_width": 56}
    attrs |= {"kernel_size": (3, 3), "padding": (1, 1), "device": Name("device")}
    specs = {"x": t(1, 1, 3136, 64), "w": t(64, 64, 3, 3, layout="row_major", memory=HOST)}
    step = Step("ttnn.conv2d", (("input_tensor", Ref("x")), ("weight_tensor", Ref("w")), *attrs.items()), ())
    assert timed(step, specs, N150).compute_ns == 1764
    grouped = replace(step, attrs=(*step.attrs, ("groups", 64)))
    assert timed(grouped, {**specs, "w": t(64, 1, 3, 3, layout="row_major", memory=HOST)}, N150).compute_ns == 28


def test_a_pool_takes_its_cycles():
    """3·3·56·56·64 / (64 × 2048) = 13.78."""
    attrs = {"batch_size": 1, "input_h": 56, "input_w": 56, "channels": 64, "kernel_size": (3, 3), "stride": (1, 1)}
    attrs |= {"padding": (1, 1), "dilation": (1, 1)}
    step = Step("ttnn.max_pool2d", (("input_tensor", Ref("x")), *attrs.items()), ())
    assert timed(step, {"x": t(1, 1, 3136, 64, layout="row_major")}, N150).compute_ns == 14


def test_causal_attention_takes_half_the_cycles():
    """2·512²·(64 + 64)·12 / 2¹⁸ × 2 = 6144."""
    operands = tuple((f"input_tensor_{n}", Ref("q")) for n in "qkv")
    specs = {"q": t(1, 12, 512, 64)}
    name = "ttnn.transformer.scaled_dot_product_attention"
    assert timed(Step(name, (*operands, ("is_causal", False)), ()), specs, N150).compute_ns == 6144
    assert timed(Step(name, operands, ()), specs, N150).compute_ns == 3072


def test_adding_needs_no_phases_but_multiplying_does():
    """2²⁰ elements / (64 × 128) = 128 cycles a phase."""
    specs = {"a": t(1024, 1024), "b": t(1024, 1024)}
    operands = (("input_tensor_a", Ref("a")), ("input_tensor_b", Ref("b")))
    found = [timed(Step(f"ttnn.{op}", operands, ()), specs, N150, math_fidelity="HiFi4") for op in ("add", "multiply")]
    assert [f.compute_ns for f in found] == [128, 512]


@pytest.mark.parametrize(
    ("dtypes", "chip", "wanted"),
    [
        (["bfloat16", "bfloat16"], N150, "HiFi2"),
        (["bfloat16", "bfloat8_b"], N150, "HiFi2"),
        (["bfloat8_b", "bfloat8_b"], N150, "LoFi"),
        (["bfloat8_b", "bfloat4_b"], P150, "LoFi"),
        (["float32", "float32"], N150, "HiFi3"),
        (["float32", "float32"], P150, "HiFi4"),
    ],
)
def test_the_fidelity_that_ttnn_takes_when_none_is_given(dtypes, chip, wanted):
    assert default_fidelity(dtypes, chip) == wanted


def test_a_fidelity_that_is_given_is_taken():
    step, specs = product(1024, 1024, 1024, dtype="float32")
    assert timed(step, specs, N150).compute_ns == 3 * 8192
    assert timed(step, specs, N150, math_fidelity="LoFi").compute_ns == 8192


SIZES = st.integers(1, 3000)


@quick
@given(SIZES, SIZES, SIZES, st.integers(0, 2), st.integers(0, 500), st.sampled_from(list(CHIPS.values())))
def test_a_larger_product_never_takes_less(m, k, n, grown, by, chip):
    size = [m, k, n]
    size[grown] += by
    small, large = timed(*product(m, k, n), chip), timed(*product(*size), chip)
    assert small.ideal_ns <= large.ideal_ns
    assert small.compute_ns <= large.compute_ns


@quick
@given(
    st.floats(0, 1e12),
    st.floats(1, 10),
    st.sampled_from([MATRIX, POOL, VECTOR]),
    st.booleans(),
    st.sampled_from(list(PHASES)),
)
def test_more_work_or_more_phases_never_take_less(ops, factor, rate, phased, fidelity):
    tensors = [t(64, 64)]
    plain = kernel_time(Work(ops, rate, phased), tensors, N150, fidelity)
    more = kernel_time(Work(ops * factor, rate, phased), tensors, N150, fidelity)
    finer = kernel_time(Work(ops, rate, phased), tensors, N150, "HiFi4")
    assert plain.compute_ns <= more.compute_ns
    assert plain.kernel_ns <= more.kernel_ns
    assert plain.compute_ns <= finer.compute_ns
    assert plain.ideal_ns == max(plain.compute_ns, plain.bandwidth_ns)


@quick
@given(SIZES, SIZES, SIZES, st.sampled_from(list(CHIPS.values())))
def test_a_kernel_takes_at_least_its_own_arithmetic(m, k, n, chip):
    found = timed(*product(m, k, n), chip)
    assert found.compute_ns <= found.low_ns <= found.kernel_ns <= found.high_ns


def test_a_transfer_goes_at_pcie_rates():
    """GB/s are bytes per ns: 14,000,000 B written at 14.0 GB/s take a millisecond, and a launch."""
    written, read = t(7000, 1000, layout="row_major"), t(6300, 1000, layout="row_major")
    assert transfer_time(written, N150, to_device=True).ns == LAUNCH_NS + 1_000_000
    assert transfer_time(read, N150, to_device=False).ns == LAUNCH_NS + 1_000_000
    assert transfer_time(t(21500, 500, layout="row_major"), P150, to_device=True).ns == LAUNCH_NS + 1_000_000
    assert transfer_time(t(14500, 500, layout="row_major"), P150, to_device=False).ns == LAUNCH_NS + 1_000_000


# ---- whole Programs ----------------------------------------------------------------------------------------------

IDLE = kernel_time(Work(), [], N150, "LoFi")
CALL = Step("ttnn.relu", (), ())


def times(kernels=(), transfers=()):
    return [StepTime(CALL, ns, IDLE) for ns in kernels] + [StepTime(CALL, ns) for ns in transfers]


def test_a_traced_call_adds_a_microsecond_between_ops():
    assert program_ns(times([10_000, 50_000], [5_000]), Settings(trace=True)) == 11_000 + 51_000 + 5_000


def test_an_untraced_call_waits_for_python_where_kernels_are_shorter_than_a_dispatch():
    assert program_ns(times([10_000, 50_000], [5_000]), Settings()) == 30_000 + 51_000 + 5_000


@quick
@given(st.lists(st.integers(0, 200_000)), st.lists(st.integers(0, 200_000)))
def test_a_trace_never_slows_a_program_down(kernels, transfers):
    listed = times(kernels, transfers)
    assert sum(kernels) + sum(transfers) <= program_ns(listed, Settings(trace=True)) <= program_ns(listed, Settings())


TILE, BF16 = Name("ttnn.TILE_LAYOUT"), Name("ttnn.bfloat16")


def send(source, out, memory):
    attrs = (("tensor", Ref(source)), ("dtype", BF16), ("layout", TILE), ("device", Name("device")))
    return Step("ttnn.from_torch", (*attrs, ("memory_config", Name(f"ttnn.{memory}_MEMORY_CONFIG"))), (out,))


L1_CONFIG = Name("ttnn.L1_MEMORY_CONFIG")


def free(name):
    return Step("ttnn.deallocate", (("tensor", Ref(name)),), ())


def program(body, setup=(), shape=(1024, 1024)):
    host = TensorSpec(shape, "float32")
    specs = {"x": host, "w": host}
    for step in (*setup, *body):
        specs.update(zip(step.outputs, infer(step, specs)))
    made = Program("p", "ttnn", ("x",), ("w",), (), (), tuple(setup), tuple(body), specs)
    verify(made, infer)
    return made


def test_the_peak_counts_what_lives_at_one_time_and_the_circular_buffers():
    """1024 tiles on 64 cores: 16 tiles, 32 KiB a core each; relu holds two tiles of operand and of result."""
    relu = Step("ttnn.relu", (("input_tensor", Ref("a")),), ("b",))
    exp = Step("ttnn.exp", (("input_tensor", Ref("b")),), ("c",))
    use = memory_use(program([send("x", "a", "L1"), relu, free("a"), exp, free("b"), free("c")]), N150)
    assert use.l1_peak_per_core_bytes == 2 * 32768 + 4 * 2048
    assert use.l1_peak_bytes == use.l1_peak_per_core_bytes * 64
    assert use.l1_per_core_bytes == 1_393_472
    assert use.peak_at == "ttnn.relu"
    assert use.dram_peak_bytes == 0
    assert use.fits


def test_weights_stay_and_count_with_their_padding():
    """1024 tiles on 12 banks: 86 in each."""
    use = memory_use(program([send("x", "a", "DRAM"), free("a")], setup=[send("w", "w.dev", "DRAM")]), N150)
    assert use.weight_bytes == 1024 * 2048
    assert use.dram_peak_bytes == 2 * 86 * 2048 * 12
    assert memory_use(program([], [send("w", "v", "DRAM")], shape=(33, 5)), N150).weight_bytes == 2 * 2048


def test_a_transposed_weight_is_resident_once():
    turn = Step("ttnn.permute", (("input_tensor", Ref("w.dev")), ("dims", (1, 0))), ("w.t",))
    product = Step("ttnn.matmul", (("input_tensor_a", Ref("a")), ("input_tensor_b", Ref("w.t"))), ("y",))
    made = program([send("w", "w.dev", "DRAM"), turn, send("x", "a", "DRAM"), product])
    assert memory_use(deallocate(hoist(made)), N150).weight_bytes == 1024 * 2048


def test_the_weights_of_a_convolution_count():
    attrs = {"in_channels": 64, "out_channels": 64, "batch_size": 1, "input_height": 8, "input_width": 8}
    attrs |= {"kernel_size": (1, 1), "device": Name("device")}
    host = Step(
        "ttnn.from_torch", (("tensor", Ref("w")), ("dtype", BF16), ("layout", Name("ttnn.ROW_MAJOR_LAYOUT"))), ("k",)
    )
    operands = (("input_tensor", Ref("a")), ("weight_tensor", Ref("k")))
    specs = {"x": TensorSpec((1, 1, 64, 64), "float32"), "w": TensorSpec((64, 64, 1, 1), "float32")}
    steps = [host, send("x", "a", "DRAM"), Step("ttnn.conv2d", (*operands, *attrs.items()), ("y",))]
    for step in steps:
        specs.update(zip(step.outputs, infer(step, specs)))
    made = Program("p", "ttnn", ("x",), ("w",), (), (), tuple(steps[:1]), tuple(steps[1:]), specs)
    verify(made, infer)
    assert memory_use(made, N150).weight_bytes >= 64 * 64 * 2


def test_a_reshape_that_renames_a_buffer_takes_no_room_and_one_that_copies_does():
    def held(shape):
        view = Step("ttnn.reshape", (("input_tensor", Ref("a")), ("shape", shape)), ("b",))
        return [at.l1 for at in memory_over_time(program([send("x", "a", "L1"), view, free("a"), free("b")]), N150)]

    assert held((32, 32, 1024)) == [32768, 32768, 0, 0]
    assert held((2048, 512)) == [32768, 65536, 32768, 0]


def test_a_result_lies_behind_what_its_call_held_meanwhile():
    """ttnn applies the activation to the product and writes another tensor; the product is freed after that."""
    factors = (("input_tensor_a", Ref("a")), ("input_tensor_b", Ref("a")), ("memory_config", L1_CONFIG))
    beside = Step("ttnn.matmul", (*factors, ("activation", "silu")), ("b",))
    alone = Step("ttnn.matmul", factors, ("b",))
    for step, held in ((beside, 3), (alone, 2)):
        (*_, at) = memory_over_time(program([send("x", "a", "L1"), step]), N150)
        assert (at.l1, at.room) == (2 * 32768, N150.l1_room - held * 32768)


def test_what_does_not_fit_is_told_with_the_allocators_sentence():
    use = memory_use(program([send("x", "a", "L1")], shape=(32 * 64, 32 * 700)), N150)
    assert not use.fits
    assert use.peak_at.startswith("out of L1 for %a: 1433600 B per bank asked, 1377088 B free")


def test_transfers_kernels_and_host_steps_are_told_apart():
    relu = Step("ttnn.relu", (("input_tensor", Ref("a")),), ("b",))
    made = program([send("x", "a", "DRAM"), relu, free("a"), free("b")])
    plan = make_plan(made, N150, Settings())
    assert [(s.step.kernel, s.kernel is None) for s in plan.steps] == [("ttnn.from_torch", True), ("ttnn.relu", False)]
    assert plan.steps[0].ns == transfer_time(made.specs["a"], N150, to_device=True).ns
    assert plan.ideal_ns == plan.steps[1].kernel.ideal_ns
    assert plan.total_ns == program_ns(list(plan.steps), Settings())
    assert (plan.chip, plan.memory) == ("n150", memory_use(made, N150))

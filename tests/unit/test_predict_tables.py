"""Published tables as they are: every kind is read, every operation known, everything they tell has its say."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
from dataclasses import replace

import pytest
import torch
from times import fit
from times.page import FIRST_FIT

from proveout.chip import calibration, profile_text, tables
from proveout.chip.device_op import DeviceOp
from proveout.chip.forms.layout import row_pieces
from proveout.chip.predict import predict_table
from proveout.chip.specs import CHIPS
from proveout.chip.table_rows import READERS, op_row
from proveout.chip.tables import committed, kind_of
from proveout.chip.time import device_op_time
from proveout.cli import main
from proveout.errors import UsageError
from proveout.kernels.conv import conv2d
from proveout.kernels.device_ops import device_ops
from proveout.kernels.table import kernels
from proveout.program import Construct, Name
from proveout.types import DRAM, HOST, TensorSpec

N150, P150 = CHIPS["n150"], CHIPS["p150"]
TABLES = ("op_times.csv", *(f"{name}.csv.gz" for name in fit.TABLES if name != "op_times"))


def t(*shape, dtype="bfloat16", layout="tile", memory=DRAM):
    return TensorSpec(shape, dtype, layout, memory)


# ---- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_every_row_with_tensors_of_a_published_table_is_predicted(name, tmp_path):
    rows = committed(name)
    step = max(1, len(rows) // 300)
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows[::step])
    found = predict_table(path)
    bare = sum("input0" in r and not r["input0"] for r in rows[::step])
    assert found.unpredicted == bare
    assert found.median_error < 0.15


def test_every_operation_of_the_profiles_has_a_family_of_its_own():
    known = {"ReduceScatterMinimalAsyncDeviceOperation", "AllGatherAsyncDeviceOperation"}  # no other chip is modelled
    for name in ("op_times.csv", "op_profiles.csv.gz"):
        for row in committed(name):
            found = op_row(row, name)
            assert found is None or found.op.family != "other" or row["op_code"] in known, row["op_code"]


def test_an_operation_that_nobody_knows_is_predicted_from_its_bytes_and_uncalibrated(tmp_path):
    path = tmp_path / "new.csv"
    place = "1x1x1024x1024:TILE:BFLOAT16:DRAM_INTERLEAVED"
    path.write_text(f"arch,op_code,input0,output0\nwormhole,BrandNewDeviceOperation,{place},{place}\n")
    found = predict_table(path)
    assert (found.unpredicted, found.calibrated) == (0, 0)


# ---- tables as other people write them -------------------------------------------------------------------------------


def written(rows, path):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def predictions(rows, path):
    found = list(csv.DictReader(predict_table(written(rows, path)).text.splitlines()))
    return [(row["predicted_ns"], row["low_ns"], row["high_ns"]) for row in found]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("case", [str.upper, str.title])
def test_the_case_of_columns_and_of_words_in_cells_does_not_matter(name, case, tmp_path):
    rows = committed(name)[:: max(1, len(committed(name)) // 25)]
    words = ("arch", "device", "dtype", "math_fidelity", "mode", "op_code", "in0_dtype", "shard", "in0_memory")
    changed = [{case(c): v.upper() if c in words else v for c, v in row.items()} for row in rows]
    assert predictions(changed, tmp_path / "a.csv") == predictions(rows, tmp_path / "b.csv")


def test_other_versions_names_of_operations_chips_and_places_are_known(tmp_path):
    place = "1x1x1024x1024:TILE:BFLOAT16:DRAM_INTERLEAVED"
    usual = {"arch": "wormhole", "op_code": "LayerNormDeviceOperation", "input0": place, "output0": place}
    there = place.replace("DRAM", "DEV_0_DRAM")
    name = "ttnn::operations::normalization::LayerNormDeviceOperation"
    other = {"arch": "Wormhole_B0", "op_code": name, "input0": there, "output0": there}
    short = {"arch": "n150", "op_code": "layernorm", "input0": place.lower(), "output0": place}
    first, second, third = predictions([usual, other, short], tmp_path / "a.csv")
    assert first == second == third


@pytest.mark.parametrize("word", ["N/A", "nan", "-", "None", ""])
def test_cells_that_tell_nothing_are_as_good_as_empty(word, tmp_path):
    rows = committed("op_profiles.csv.gz")[::200]
    columns = ("math_fidelity", "core_count", "kernel_ns_median", "program_config", "out_shard", "available_cores")
    emptied = [row | dict.fromkeys(columns, "") for row in rows]
    assert predictions([row | dict.fromkeys(columns, word) for row in rows], tmp_path / "a.csv") == predictions(
        emptied, tmp_path / "b.csv"
    )


@pytest.mark.parametrize("name", ["gemm.csv", *TABLES])
def test_a_column_less_is_told_or_done_without_and_no_row_is_dropped(name, tmp_path):
    rows = committed(name)[:: max(1, len(committed(name)) // 8)]
    for column in rows[0]:
        path = written([{c: v for c, v in row.items() if c != column} for row in rows], tmp_path / "less.csv")
        with contextlib.suppress(UsageError):
            assert predict_table(path).rows == len(rows)
            continue
        with pytest.raises(UsageError, match=column if column != "in0_block_w" else "cores"):
            predict_table(path)


@pytest.mark.parametrize(
    ("cell", "value", "told"),
    [
        ("input0", "1x0x32x32:TILE:BFLOAT16:DRAM_INTERLEAVED", "cannot read the tensor"),
        ("input1", f"1x1x{10**20}x32:TILE:BFLOAT16:DRAM_INTERLEAVED", "cannot read the tensor"),
        ("output0", "32x32:TILE:FLOAT7:DRAM_INTERLEAVED", "cannot read the tensor"),
        ("core_count", "many", "not a whole number"),
        ("math_fidelity", "HiFi9", "Take one of LoFi"),
        ("arch", "grayskull", "Take wormhole or blackhole"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(cell, value, told, tmp_path):
    row = next(r for r in committed("op_profiles.csv.gz") if "Matmul" in r["op_code"]) | {cell: value}
    with pytest.raises(UsageError, match=rf"line 2: .*{told}"):
        predict_table(written([row], tmp_path / "bad.csv"))


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    row = committed("gemm.csv")[0]
    with pytest.raises(UsageError, match="the column dtype twice"):
        predict_table(written([row | {"Dtype": "bfloat16"}], tmp_path / "twice.csv"))


def test_a_program_config_is_read_from_a_profilers_text():
    text = (
        "MatmulMultiCoreReuseMultiCast1DProgramConfig(grid=11-10;in0_block_w=2;out_subblock_h=4;out_subblock_w=1;"
        "out_block_h=4;out_block_w=1;per_core_M=4;per_core_N=1;fuse_batch=0;fused_activation=none;mcast_in0=1)"
    )
    found = profile_text.product_config(text)
    assert found == profile_text.ProductConfig("1d", 4, 1, 2, 4, 1, 4, 1, (11, 10), True, False)
    assert profile_text.product_config("LayerNormDefaultProgramConfig()") is None


def test_attributes_keep_their_brackets():
    found = profile_text.settings("slice_end=Shape([1; 128; 32; 1536]) step=Shape([1; 1; 1; 2]) dim=-1 keepdim=true")
    assert profile_text.numbers(found["step"]) == (1, 1, 1, 2)
    assert (found["dim"], found["keepdim"]) == ("-1", "true")


# ---- what a row tells has its say ------------------------------------------------------------------------------------

SWEEP = {
    "arch": "blackhole", "device": "p150", "kernel": "mcast_1d", "M": "32", "K": "3584", "N": "14336",
    "in0_dtype": "bfloat16", "in1_dtype": "bfloat4_b", "out_dtype": "bfloat16", "in1_memory": "DRAM_INTERLEAVED",
    "out_memory": "L1_WIDTH_SHARDED", "math_fidelity": "LoFi", "cores": "14", "in0_block_w": "8", "per_core_N": "32",
}  # fmt: skip


def swept(**changed):
    row = READERS[kind_of(SWEEP, "here")]({**SWEEP, **changed}, "here")
    return device_op_time(row.op, row.chip).ns


@pytest.mark.parametrize(
    "changed",
    [
        {"in0_block_w": "1"},
        {"per_core_N": "64", "cores": "7"},
        {"fp32_dst": "True"},
        {"math_fidelity": "HiFi4"},
        {"fused_activation": "SILU"},
        {"in1_dtype": "bfloat16"},
    ],
    ids=str,
)
def test_what_makes_a_decode_product_slower_is_read(changed):
    assert swept(**changed) > swept()


def test_weights_on_the_banks_cores_are_read_at_the_rate_of_the_banks():
    """Published: 35.5 µs for 3584 × 4096 in bfloat8_b at LoFi, 15.6 MB at 512 GB/s are 30.5."""
    row = {"K": "3584", "N": "4096", "in1_dtype": "bfloat8_b", "per_core_N": "32", "in0_block_w": "7"}
    found = swept(kernel="dram_sharded", in1_memory="DRAM_WIDTH_SHARDED", **row)
    assert found == pytest.approx(35_500, rel=0.15)


PROFILE = {
    "arch": "blackhole", "device": "blackhole (110 cores)", "available_cores": "110", "core_count": "110",
    "op_code": "BinaryNgDeviceOperation", "op_type": "MUL", "math_fidelity": "HiFi4",
    "input0": "1x1x128x5376:TILE:BFLOAT16:DRAM_INTERLEAVED", "input1": "1x1x128x5376:TILE:BFLOAT16:DRAM_INTERLEAVED",
    "output0": "1x1x128x5376:TILE:BFLOAT16:DRAM_INTERLEAVED", "attributes": "binary_op_type=MUL",
}  # fmt: skip


def profiled(**changed):
    row = op_row({**PROFILE, **changed}, "here")
    return device_op_time(row.op, row.chip).ns


def test_a_fused_activation_a_broadcast_and_the_vector_unit_make_a_multiply_slower():
    plain = profiled()
    assert profiled(fused="lhs:SILU") > 1.2 * plain
    assert profiled(attributes="binary_op_type=MUL subtile_broadcast_type=ROW_B") > plain
    assert profiled(attributes="binary_op_type=MUL is_sfpu=true") > plain


def test_cores_that_a_log_lost_do_not_make_a_call_slower():
    assert profiled(core_count="7") == profiled()


def test_a_shard_tells_the_busiest_core_not_the_core_count():
    sharded = dict.fromkeys(("input0", "input1", "output0"), "1x1x32x17408:TILE:BFLOAT16:L1_WIDTH_SHARDED")
    few, many = (profiled(**sharded, fused="lhs:SILU", out_shard=shard) for shard in ("32x2176", "32x544"))
    assert few > 2 * many


def test_rows_that_stay_whole_are_counted_between_two_shapes():
    """1 x 32 rows of 2048 become 32 x 1: each row's 64 pieces move alone to a tile of their own."""
    assert row_pieces((1, 1, 32, 2048), (1, 32, 1, 2048)) == (2048, 2048)
    assert row_pieces((1, 1, 64, 128), (1, 2, 32, 128)) == (256, 8)


# ---- the same model times Programs -----------------------------------------------------------------------------------


def ops_of(name, specs, out):
    kernel = kernels()[name]
    return device_ops(kernel, specs, (out,), kernel.work(specs, (out,)), "HiFi2")


def test_an_activation_of_a_program_takes_as_long_as_its_arithmetic():
    x = t(2048, 4096)
    slow, quick = (
        device_op_time(ops_of(name, {"input_tensor": x}, replace(x))[0], N150).ns for name in ("ttnn.gelu", "ttnn.relu")
    )
    assert slow > 1.3 * quick


def config(**changed):
    told = {"in0_block_w": 8, "per_core_M": 1, "per_core_N": 2, "mcast_in0": True, "fuse_batch": True} | changed
    grid = Construct.of("ttnn.CoreCoord", 8, 8)
    name = "ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig"
    return Construct.of(name, compute_with_storage_grid_size=grid, **told)


def test_a_program_config_of_a_program_changes_its_time():
    a, b, out = t(32, 4096), t(4096, 4096, dtype="bfloat8_b"), t(32, 4096)

    def ns(given):
        specs = {"input_tensor_a": a, "input_tensor_b": b, "program_config": given}
        return device_op_time(ops_of("ttnn.matmul", specs, out)[0], N150).ns

    assert ns(config(in0_block_w=1)) > 1.2 * ns(config())
    assert ns(config(fused_activation=(Name("ttnn.UnaryOpType.SILU"),))) > ns(config())


def test_a_convolutions_shards_and_cores_change_its_time():
    source, weight = t(1, 1, 4096, 128, layout="row_major"), t(128, 128, 3, 3, layout="row_major", memory=HOST)
    told = {
        "input_tensor": source, "weight_tensor": weight, "in_channels": 128, "out_channels": 128, "batch_size": 1,
        "input_height": 64, "input_width": 64, "kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1),
    }  # fmt: skip

    def ns(**settings):
        specs = told | {"conv_config": Construct.of("ttnn.Conv2dConfig", **settings)}
        conv = next(op for op in ops_of("ttnn.conv2d", specs, t(1, 1, 4096, 128)) if op.family == "conv")
        return device_op_time(conv, N150).ns

    height, block = (Name(f"ttnn.TensorMemoryLayout.{word}_SHARDED") for word in ("HEIGHT", "BLOCK"))
    assert len({ns(shard_layout=height), ns(shard_layout=block)}) == 2
    assert ns(core_grid=Construct.of("ttnn.CoreGrid", x=2, y=1)) > 8 * ns()


def test_a_step_is_timed_by_the_form_that_tables_of_its_operation_have():
    """Published on n150: 79.5 µs for 32 x 1536 by 1536 x 8960 with bfloat8_b weights and ttnn's own config."""
    a, b, out = t(32, 1536), t(1536, 8960, dtype="bfloat8_b"), t(32, 8960)
    (op,) = ops_of("ttnn.matmul", {"input_tensor_a": a, "input_tensor_b": b}, out)
    found = device_op_time(op, N150)
    assert found.calibrated
    assert found.ns == pytest.approx(79_549, rel=0.2)


def test_a_convolution_takes_a_bias_of_float32():
    """ttnn prepares it in the weights' format; torch alone would refuse to add it to bfloat16."""
    x, weight = torch.randn(1, 1, 64, 32, dtype=torch.bfloat16), torch.randn(32, 32, 3, 3, dtype=torch.bfloat16)
    told = (32, 32, 1, 8, 8, (3, 3), (1, 1), (1, 1))
    plain, wide = (
        conv2d(x, weight, *told, bias_tensor=torch.ones(1, 1, 1, 32, dtype=d)) for d in (x.dtype, torch.float)
    )
    assert torch.equal(plain, wide)


def test_a_row_that_cannot_be_read_keeps_no_other_from_its_prediction(tmp_path, capsys):
    good = next(r for r in committed("op_profiles.csv.gz") if "Matmul" in r["op_code"])
    path = written([good, good | {"core_count": "many"}, good | {"kernel_ns_median": "soon"}], tmp_path / "mixed.csv")
    found = predict_table(path)
    assert (found.rows, found.unpredicted) == (3, 1)
    (told,) = found.unreadable
    assert "line 3" in told
    assert "many" in told
    assert main(["devices", "predict", str(path), "-o", str(tmp_path / "out.csv")]) == 0
    captured = capsys.readouterr()
    assert "line 3" in captured.err
    assert "2 of 3 rows predicted" in captured.out


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("input0", lambda text: text.replace("BFLOAT16", "DataType.BFLOAT16").replace(":TILE:", ":Layout::TILE:")),
        ("input1", lambda text: text.replace("BFLOAT8_B", "bfp8_b").lower()),
        ("math_fidelity", lambda text: f"MathFidelity.{text}"),
        ("arch", lambda text: f"{text} p150b" if text == "blackhole" else f"{text} B0"),
    ],
)
def test_what_people_write_otherwise_is_read_alike(cell, value, tmp_path):
    row = next(r for r in committed("op_profiles.csv.gz") if "Matmul" in r["op_code"] and r["math_fidelity"])
    same = predict_table(written([row, row | {cell: value(row[cell])}], tmp_path / "two.csv")).text.splitlines()
    assert same[1].rsplit(",", 4)[1:4] == same[2].rsplit(",", 4)[1:4]


def test_an_operation_that_no_table_times_is_predicted_as_its_kin_and_called_uncalibrated(tmp_path):
    row = next(r for r in committed("op_profiles.csv.gz") if r["op_code"].startswith("BinaryNg"))
    (told,) = csv.DictReader(
        io.StringIO(predict_table(written([row | {"op_code": "WhereDeviceOperation"}], tmp_path / "kin.csv")).text)
    )
    (known,) = csv.DictReader(io.StringIO(predict_table(written([row], tmp_path / "known.csv")).text))
    assert told["predicted_ns"] == known["predicted_ns"]
    assert (told["calibrated"], known["calibrated"]) == ("False", "True")


def test_a_table_that_would_unpack_to_too_much_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MOST_BYTES", 1 << 20)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"0" * (2 << 20)))
    with pytest.raises(UsageError, match="Split it"):
        tables.read(tmp_path / "bomb.csv.gz")


@pytest.mark.parametrize(
    ("before", "after", "ns"),
    [((1, 1, 10240, 3), (1, 1, 3, 10240), 18_224), ((1, 32, 10240, 3), (1, 32, 3, 10240), 577_241),
     ((1, 32, 96, 128), (1, 32, 128, 96), 25_678)],
)  # fmt: skip
def test_rows_turned_into_columns_cost_the_pieces_that_are_read(before, after, ns):
    """Published on Blackhole, 110 cores: a piece of each source row is read for each block of 32 by 32."""
    specs = [t(*shape, layout="row_major") for shape in (before, after)]
    op = DeviceOp("permute", (specs[0],), (specs[1],), cores=110)
    assert device_op_time(op, P150).ns == pytest.approx(ns, rel=0.25)


def test_large_products_are_no_further_off_than_the_first_fit_was():
    """Medians on shapes left out, as fitted last, against those of the first fit."""
    for (arch, mode), first in FIRST_FIT.items():
        assert calibration.backings()["matmul", arch, mode].median_error < first + 0.0005

"""The names, options, flags and examples of tenstorrent/pytorch2.0_ttnn, each by a test that names its source there."""

from __future__ import annotations

import inspect
import json
import pickle
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

from proveout import torch_ttnn, ttnn
from proveout.compat.torch_ttnn import mem_utils, metrics, stat_models, utils
from proveout.compat.torch_ttnn.torchvision_model import shapes
from proveout.errors import UsageError

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "torch_ttnn.md").read_text()
DEVICE = ttnn.open_device(device_id=0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1


def compiled(model, **fields):
    torch._dynamo.reset()
    option = torch_ttnn.TorchTtnnOption(device=DEVICE, **fields)
    return torch.compile(model, backend=torch_ttnn.backend, options=option), option


def targets(option, index=0):
    return [node.target for node in option._out_fx_graphs[index].nodes]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)


# ---- README: Quickstart, Basic Usage ------------------------------------------------------------------------------


def test_the_quickstart_runs_inference_and_training():
    """README.md, Quickstart."""
    model = Net()
    run, option = compiled(model)
    x = torch.randn(2, 8)
    torch.testing.assert_close(run(x), model(x))
    run(x).sum().backward()
    assert model.linear.weight.grad is not None
    assert len(option._out_fx_graphs) >= 2  # forward and backward


def test_compilation_mode_over_two_chips():
    """README.md, Option 2: a mesh of 1 x 2 and data_parallel=2."""
    torch._dynamo.reset()
    device = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
    model, x = Net(), torch.randn(4, 8)
    option = torch_ttnn.TorchTtnnOption(device=device, data_parallel=2)
    with torch.no_grad():
        run = torch.compile(model, backend=torch_ttnn.backend, options=option)
        torch.testing.assert_close(run(x), model(x))
    assert option.proveout_options["settings"].parallel == "data"
    ttnn.close_mesh_device(device)


def test_eager_mode_is_refused_with_what_to_write():
    """README.md, Option 1."""
    with pytest.raises(UsageError, match=r"torch\.compile\(model, backend=torch_ttnn\.backend"):
        torch_ttnn.ttnn_device_as_torch_device(DEVICE)


def test_the_backend_has_a_name():
    """torch_ttnn/__init__.py registers `ttnn`."""
    torch._dynamo.reset()
    option = torch_ttnn.TorchTtnnOption(device=DEVICE)
    with torch.no_grad():
        torch.compile(Net(), backend="ttnn", options=option)(torch.randn(2, 8))
    assert ttnn.linear in targets(option)


def test_a_configured_backend():
    """tools/run_transformers.py: torch_ttnn.backend(option)."""
    torch._dynamo.reset()
    option = torch_ttnn.TorchTtnnOption(device=DEVICE)
    with torch.no_grad():
        torch.compile(Net(), backend=torch_ttnn.backend(option))(torch.randn(2, 8))
    assert len(option._out_fx_graphs) == 1


def test_without_an_option_the_device_is_sim():
    torch._dynamo.reset()
    with torch.no_grad():
        assert torch.compile(Net(), backend=torch_ttnn.backend)(torch.randn(2, 8)).shape == (2, 4)


PLAIN = """
import torch
import torch_ttnn
import ttnn
import torch_ttnn.metrics as metrics
from torch_ttnn import mem_utils
from torch_ttnn.utils import get_opname

device = ttnn.open_device(device_id=0, l1_small_size=16384)
device.enable_program_cache()
ttnn.SetDefaultDevice(device)
assert torch_ttnn.ttnn is ttnn and not ttnn.device.is_grayskull(device)
option = torch_ttnn.TorchTtnnOption(device=device, gen_graphviz=False, metrics_path="m", verbose=True)
m = torch.compile(torch.nn.Linear(4, 4), backend=torch_ttnn.backend, options=option)
with torch.no_grad():
    m(torch.ones(2, 4))
target = [node.target for node in option._out_fx_graphs[0].nodes]
assert target.count(ttnn.linear) == 1 and target.index(ttnn.from_torch) < target.index(ttnn.linear)
ttnn.synchronize_device(device)
ttnn.close_device(device)
print("done")
"""


def test_a_plain_script_after_compat_on(tmp_path):
    """tests/conftest.py and tests/lowering: what its tests import and look at, in `python script.py`."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    here = [entry for entry in sys.path if Path(entry, "torch").is_dir() or Path(entry, "typer").is_dir()]
    Path(packages, "here.pth").write_text("\n".join([str(ROOT / "src"), *here]) + "\n")
    python = str(folder / "bin" / "python")
    switch = "import sys; from proveout.cli import main; sys.exit(main(['compat', 'on']))"
    subprocess.run([python, "-c", switch], check=True, capture_output=True)
    script = tmp_path / "script.py"
    script.write_text(PLAIN)
    done = subprocess.run([python, str(script)], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


# ---- TorchTtnnOption: torch_ttnn/backend.py -----------------------------------------------------------------------


def test_the_fields_stand_in_the_originals_order():
    """torch_ttnn/backend.py, TorchTtnnOption.__init__; gen_op_accuracy_tests is of older versions."""
    names = list(inspect.signature(torch_ttnn.TorchTtnnOption).parameters)
    assert names == [
        "device", "gen_graphviz", "run_mem_analysis", "run_eviction_opt", "verbose", "metrics_path", "tracer_option",
        "bypass_compile", "use_less_ttnn_op_types", "export_code", "total_num_iterations", "data_parallel",
        "load_params_once", "native_integration", "gen_op_accuracy_tests", "settings",
    ]  # fmt: skip


def test_gen_graphviz():
    run, option = compiled(Net(), metrics_path="net")
    option.gen_graphviz = True  # as its tests set it
    with torch.no_grad():
        run(torch.randn(2, 8))
    drawn = sorted(path.name for path in Path("metrics/net").iterdir())
    assert drawn[:2] == ["00.origin.dot", "00.origin.dot.svg"]
    text = Path("metrics/net/00.origin.dot").read_text()
    assert text.startswith("digraph {")
    assert "aten.addmm.default" in text
    assert " -> " in text
    assert "<svg" in Path("metrics/net/00.origin.dot.svg").read_text()


class Wide(torch.nn.Module):
    """tests/memory/eviction/test_eviction.py."""

    def forward(self, t1):
        t2 = torch.relu(t1)
        t3, t4 = torch.nn.functional.silu(t2), torch.nn.functional.gelu(t2)
        return t2 + t3 + torch.tanh(t4)


def test_run_mem_analysis_and_run_eviction_opt():
    """tests/memory/eviction/test_eviction.py, at its size and without running it."""
    big = torch.rand(100, 3, 224, 224, dtype=torch.bfloat16)
    found = []
    for evict in (False, True):
        run, option = compiled(Wide(), run_mem_analysis=True, run_eviction_opt=evict, verbose=False)
        with torch.no_grad():
            run(big)
        mm = option.memory_manager
        assert (mm.used_sram, mm.tensors_on_device) == (0, [])
        assert mm.free_sram == mm.usable_sram_limit
        assert mm.data_points
        assert mm.logs
        assert mem_utils.check_sram_overflow(mm) == mm.has_sram_overflow()
        found.append(mm)
    before, after = found
    assert before.has_sram_overflow()
    assert before.max_evictions_required() > 0
    assert not after.has_sram_overflow()
    assert after.peak_sram_usage < before.peak_sram_usage


def test_run_eviction_opt_depends_on_the_analysis():
    run, _ = compiled(Net(), run_eviction_opt=True)
    with pytest.raises(Exception, match="run_eviction_opt depends on run_mem_analysis"):
        run(torch.randn(2, 8))


@pytest.mark.parametrize("verbose", [True, False])
def test_verbose(verbose, capsys):
    run, option = compiled(Net(), run_mem_analysis=True, verbose=verbose)
    with torch.no_grad():
        run(torch.randn(2, 8))
    assert ("bytes of SRAM" in capsys.readouterr().out) == verbose
    assert "bytes of SRAM" in option.memory_manager.logs


def test_metrics_path():
    """tests/conftest.py: the two lists, and the pickles made of them."""
    run, option = compiled(Net(), metrics_path="net")
    with torch.no_grad():
        run(torch.randn(2, 8))
    before = [v.dict_for_pickle() for v in option.original_schema_list]
    (addmm,) = [v for v in before if v["opname"] == "aten.addmm.default"]
    assert addmm["inputs"] == ["Tensor<[4]> self = ?", "Tensor<[2, 8]> mat1 = ?", "Tensor<[8, 4]> mat2 = ?"]
    assert addmm["tensor_infos"][1]["shape"] == [2, 8]
    assert "Tensor<[4]> self = ?, Tensor<[2, 8]> mat1 = ?" in str(option.original_schema_list)
    assert "ttnn.add --> aten.add.Tensor:" in str(option.compiled_schema_list)
    after = [v.dict() for v in option.compiled_schema_list]
    add = next(v for v in after if v["opname"] == "ttnn.add")
    assert add["original_inputs"] == {
        "opname": "aten.add.Tensor",
        "inputs": ["Tensor<[2, 4]> self = ?", "Tensor other = 1"],
    }
    metrics.save_pickle(after, option.metrics_path, "compiled-schema_list")
    assert pickle.loads(Path("metrics/net/compiled-schema_list.pickle").read_bytes()) == after


def test_tracer_option():
    """torch_ttnn/backend.py and tests/tools/test_stats.py: one file a graph, a node an entry."""
    run, _ = compiled(Net(), tracer_option={"model_name": "net", "out_folder": "stat", "trace_modi": True})
    run(torch.randn(2, 8)).sum().backward()
    names = {path.name for path in Path("stat/raw").iterdir()}
    assert {"fw_net_orig_0.json", "fw_net_modi_0.json", "bw_net_orig_0.json", "bw_net_modi_0.json"} == names
    (first, *_) = (n for n in json.loads(Path("stat/raw/fw_net_orig_0.json").read_text()) if "addmm" in n["op_type"])
    assert first["op_type"] == "aten.addmm.default"
    assert first["outputs"] == [{"shape": [2, 4], "dtype": "torch.float32"}]
    assert "ttnn.linear" in [n["op_type"] for n in json.loads(Path("stat/raw/fw_net_modi_0.json").read_text())]


def test_a_wrong_tracer_option_is_refused():
    run, _ = compiled(Net(), tracer_option={"name": "net"})
    with pytest.raises(Exception, match="unknown key of tracer_option 'name'"):
        run(torch.randn(2, 8))


def test_bypass_compile_and_reset_containers():
    """tests/conftest.py runs a model again so when it did not compile."""
    run, option = compiled(Net(), bypass_compile=True, metrics_path="net")
    model, x = Net(), torch.randn(2, 8)
    assert run(x).shape == model(x).shape
    assert torch.ops.aten.addmm.default in targets(option)
    assert option.original_schema_list
    option.reset_containers()
    assert (option._out_fx_graphs, option.original_schema_list) == ([], [])


@pytest.mark.parametrize(
    "field",
    [{"use_less_ttnn_op_types": False}, {"load_params_once": False}, {"total_num_iterations": 3}],
    ids=lambda field: next(iter(field)),
)
def test_fields_that_change_nothing(field):
    run, option = compiled(Net(), **field)
    with torch.no_grad():
        run(torch.randn(2, 8))
    assert ttnn.linear in targets(option)
    assert {name: getattr(option, name) for name in field} == field


@pytest.mark.parametrize(
    "field", [{"export_code": "accuracy"}, {"export_code": "profiling"}, {"gen_op_accuracy_tests": True}]
)
def test_export_code(field):
    """tools/export_code.py: a script for each graph, which reproduces its outputs."""
    run, option = compiled(Net(), metrics_path="net", **field)
    with torch.no_grad():
        run(torch.randn(2, 8))
        run(torch.randn(2, 8))
    (script,) = option.exported
    assert script == Path("exported/net/program0/model.py")
    assert "ttnn.linear(" in script.read_text()
    assert len(option._aten_fx_graphs[0]) == len(option._ttnn_fx_graphs[0]) == 1


def test_an_unknown_export_is_refused():
    run, _ = compiled(Net(), export_code="all")
    with pytest.raises(Exception, match="unknown value for export_code 'all'"):
        run(torch.randn(2, 8))


@pytest.mark.parametrize("chips", [True, 2])
def test_data_parallel_on_one_chip_is_refused(chips):
    run, _ = compiled(Net(), data_parallel=chips)
    with pytest.raises(Exception, match=r"this one has 1\. Open one: ttnn\.open_mesh_device"):
        run(torch.randn(2, 8))


def test_native_integration_is_refused():
    run, _ = compiled(Net(), native_integration=True)
    with pytest.raises(Exception, match=r"needs the original's C\+\+ extension"):
        run(torch.randn(2, 8))


def test_settings_go_beside_the_fields():
    option = torch_ttnn.TorchTtnnOption(DEVICE, precision="bfloat16")
    assert option.proveout_options["settings"].precision == "bfloat16"
    with pytest.raises(ValueError, match="unknown setting 'precison'"):
        torch_ttnn.TorchTtnnOption(DEVICE, precison="bfloat16")


# ---- graphs, as tests/lowering and tests/pattern read them --------------------------------------------------------


class Lambda(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


BF16 = torch.bfloat16
LOWERINGS = {
    "tests/lowering/eltwise/binary/test_add.py": (lambda a, b: a + b, ((4, 4), (4, 4)), ttnn.add),
    "tests/lowering/eltwise/binary/test_sub.py": (lambda a, b: a - b, ((4, 4), (4, 4)), ttnn.sub),
    "tests/lowering/eltwise/binary/test_mul.py": (lambda a, b: a * b, ((4, 4), (4, 4)), ttnn.mul),
    "tests/lowering/eltwise/unary/test_gelu.py": (torch.nn.functional.gelu, ((4, 4),), ttnn.gelu),
    "tests/lowering/matmul/test_matmul.py": (torch.matmul, ((32, 64), (64, 32)), ttnn.matmul),
    "tests/lowering/tensor_manipulation/test_repeat.py": (
        lambda a: a.repeat(2, 3), ((5, 16),), torch_ttnn.target_wrappers.repeat,
    ),
    "tests/lowering/normalization/test_softmax.py": (lambda a: torch.softmax(a, -1), ((4, 16),), ttnn.softmax),
    "tests/lowering/tensor_manipulation/test_permute.py": (lambda a: a.permute(1, 0), ((4, 8),), ttnn.permute),
}  # fmt: skip


@pytest.mark.parametrize("source", LOWERINGS)
def test_a_lowering(source):
    function, sizes, wanted = LOWERINGS[source]
    inputs = [torch.rand(size).to(BF16) for size in sizes]
    run, option = compiled(Lambda(function))
    with torch.no_grad():
        found = run(*inputs)
    assert targets(option).count(wanted) == 1
    torch.testing.assert_close(found, function(*inputs), rtol=0.02, atol=0.02)


def test_nodes_hold_their_operands_and_values():
    """tests/lowering/matmul/test_only_add_matmul.py and test_addmm.py: args and meta["val"]."""
    run, option = compiled(Lambda(lambda a, b: (a + 1) @ (b + 2)))
    with torch.no_grad():
        run(torch.rand(4, 4).to(BF16), torch.rand(4, 4).to(BF16))
    (product,) = (node for node in option._out_fx_graphs[0].nodes if node.target == ttnn.matmul)
    assert [operand.target for operand in product.args] == [ttnn.add, ttnn.add]
    assert product.meta["val"].size() == (4, 4)
    assert product.meta["val"].dtype == BF16


def test_an_op_on_the_host_is_the_aten_op():
    run, option = compiled(Lambda(lambda a: torch.linalg.det(a) + 1))
    with torch.no_grad():
        run(torch.rand(4, 4))
    assert torch.ops.aten._linalg_det.default in targets(option)


def test_repeated_operands_cross_once():
    """tests/optimization/test_cse.py and tests/pattern/test_data_move_reuse_pattern.py."""
    run, option = compiled(Lambda(lambda a: a + a))
    with torch.no_grad():
        run(torch.rand(4, 4).to(BF16))
    found = targets(option)
    assert (found.count(ttnn.from_torch), found.count(ttnn.add)) == (1, 1)
    assert found.index(ttnn.from_torch) < found.index(ttnn.add)


def test_a_graph_prints_itself(capsys):
    run, option = compiled(Net())
    with torch.no_grad():
        run(torch.randn(2, 8))
    option._out_fx_graphs[0].print_tabular()
    told = capsys.readouterr().out
    assert "ttnn.linear" in told
    assert "'device': device, " in told
    assert "ttnn.CoreCoord(8, 8)" in told
    assert "Name(" not in told
    assert "Construct(" not in told


def test_utils():
    """torch_ttnn/utils.py, as tools/export_code.py uses it."""
    run, option = compiled(Net())
    with torch.no_grad():
        run(torch.randn(2, 8))
    graph = option._out_fx_graphs[0]
    linear = next(node for node in graph.nodes if node.target == ttnn.linear)
    assert (utils.get_opname(linear), utils.is_operation(linear), utils.users_have_getitem(linear)) == (
        "linear",
        True,
        None,
    )
    assert len(utils.get_input_nodes(graph)) == 3
    assert [utils.get_node_name(node) for node in utils.get_output_nodes(graph)] == ["to_torch"]


def test_ttnn_names_of_its_conftest_and_demo():
    """tests/conftest.py, demo/utils.py."""
    config = ttnn.DispatchCoreConfig(ttnn.device.DispatchCoreType.ETH, ttnn.DispatchCoreAxis.ROW)
    device = ttnn.open_device(device_id=0, dispatch_core_config=config, l1_small_size=65536)
    ttnn.enable_program_cache(device)
    device.disable_and_clear_program_cache()
    ttnn.SetDefaultDevice(device)
    assert ttnn.GetDefaultDevice() is device
    assert (ttnn.device.is_wormhole_b0(device), ttnn.device.is_blackhole(device), ttnn.device.is_grayskull(device)) == (
        True, False, False,
    )  # fmt: skip
    ttnn.SetDefaultDevice(None)
    ttnn.synchronize_device(device)
    ttnn.close_device(device)


@pytest.mark.parametrize(
    "name", ["add", "mul", "floor_div", "xlogy", "tril", "experimental.view", "target_wrappers.clone"]
)
def test_a_function_is_one_object(name):
    home, _, last = name.rpartition(".")
    owner = {"": ttnn, "experimental": ttnn.experimental, "target_wrappers": torch_ttnn.target_wrappers}[home]
    assert getattr(owner, last) is getattr(owner, last)


def test_functions_of_its_lowerings_compute():
    """torch_ttnn/passes/lowering/to_tt_pass.py calls these."""
    x, y = torch.tensor([[0.0, 2.0], [-7.0, 9.0]]), torch.tensor([[1.0, 4.0], [2.0, 2.0]])

    def on(tensor):
        return ttnn.from_torch(tensor, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=DEVICE)

    torch.testing.assert_close(ttnn.to_torch(ttnn.xlogy(on(x), on(y))), torch.xlogy(x, y))
    torch.testing.assert_close(ttnn.to_torch(ttnn.floor_div(on(x), on(y))), torch.floor_divide(x, y))
    torch.testing.assert_close(ttnn.to_torch(ttnn.tril(on(x))), x.tril())
    torch.testing.assert_close(ttnn.to_torch(ttnn.triu(on(x), diagonal=1)), x.triu(1))
    assert list(ttnn.experimental.view(on(x), (4, 1)).shape) == [4, 1]


# ---- tools/stat_models.py -----------------------------------------------------------------------------------------


def commands(*flags):
    return stat_models.traces(stat_models.parser().parse_args(flags))


def test_the_default_list():
    (command,) = commands()
    assert [Path(name).stem for name in command[:5]] == ["dinov2_small", "alexnet", "googlenet", "resnet18", "vgg11"]
    assert command[5:] == ["--orig", "-o", "stat"]


def test_the_flags():
    assert [c[-5:] for c in commands("--trace_orig", "--backward", "--profile", "-o", "out")] == [
        ["--orig", "--backward", "--profile", "-o", "out"]
    ]
    assert ["--orig" in c for c in commands("--trace_orig", "--trace_modi", "--use_torch_ttnn")] == [True, False]
    assert ["--orig" in c for c in commands("--use_torch_ttnn", "--graphviz")] == [False]
    with pytest.raises(UsageError, match="--graphviz is of --use_torch_ttnn"):
        commands("--graphviz")
    (second,) = commands("--model_sow2_list1")
    assert [Path(name).stem for name in second[:3]] == ["detr", "retinanet_resnet50_fpn", "mobilenet_v2"]
    assert len([name for name in second if name.endswith(".py")]) == 9
    (one,) = commands("--out_folder", "out", "--model", "resnet18")
    assert one == ["out/scripts/resnet18.py", "--orig", "-o", "out"]
    with pytest.raises(UsageError, match="'lenet' is not in this list"):
        commands("--model", "lenet")
    more = pytest.importorskip("torchvision").models.list_models()
    assert len(commands("--model_more")[0]) == 1 + len(more) + len(["--orig", "-o", "stat"])


def test_inputs_are_the_tools():
    """tools/utils.py, model_example_inputs."""
    assert shapes("raft_small") == [(1, 3, 224, 224)] * 2
    assert shapes("mvit_v2_s") == [(1, 3, 16, 224, 224)]
    assert shapes("s3d") == [(1, 3, 224, 224, 224)]
    assert shapes("alexnet") == [(1, 3, 224, 224)]


# ---- the page -----------------------------------------------------------------------------------------------------


def rows(title):
    part = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return {
        name
        for line in part.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_the_page_lists_every_field():
    fields = set(inspect.signature(torch_ttnn.TorchTtnnOption).parameters) - {"settings"}
    option = torch_ttnn.TorchTtnnOption(DEVICE)
    listed = rows("`TorchTtnnOption`")
    assert fields <= listed
    assert all(hasattr(option, name.removesuffix("()")) for name in listed)
    defaults = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", PAGE, re.M))
    assert {
        n: str(p.default) for n, p in inspect.signature(torch_ttnn.TorchTtnnOption).parameters.items() if n in fields
    } == {name: defaults[name].strip('"') for name in fields}


def test_the_page_lists_every_flag():
    flags = {flag for action in stat_models.parser()._actions for flag in action.option_strings}
    assert rows("`stat_models`") == flags - {"-h", "--help"}


def test_the_page_lists_every_name():
    listed = {name.removeprefix("torch_ttnn.") for name in rows("Names") if name.startswith("torch_ttnn.")}
    assert set(torch_ttnn.__all__) <= listed
    assert {name for name in listed if not hasattr(torch_ttnn, name)} == {"passes", "cpp_extension"}
    for name in (n.removeprefix("ttnn.") for n in rows("Names") if n.startswith("ttnn.")):
        owner, _, last = name.rpartition(".")
        assert hasattr(getattr(ttnn, owner) if owner else ttnn, last), name


def test_arguments_in_a_graph_are_ttnns_objects() -> None:
    """tests/lowering looks into `node.kwargs`: a dtype is `ttnn.bfloat16`, as its users write it."""
    option = torch_ttnn.TorchTtnnOption(device=ttnn.open_device(device_id=0))
    torch.compile(torch.relu, backend=torch_ttnn.backend, options=option)(torch.ones(2, 2, dtype=torch.bfloat16))
    nodes = {node.target: node for node in option._out_fx_graphs[0].nodes if node.op == "call_function"}
    assert nodes[ttnn.from_torch].kwargs["dtype"] is ttnn.bfloat16
    assert nodes[ttnn.from_torch].kwargs["layout"] is ttnn.TILE_LAYOUT
    assert nodes[ttnn.to_torch].kwargs.get("dtype", torch.bfloat16) is torch.bfloat16

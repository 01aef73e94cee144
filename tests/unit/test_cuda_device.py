"""The device `cuda` on a GPU: four modes with the same numbers, weights that change, models that live on the GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_cuda_rewrite import Cached, Images, Layer, Parallel, compiled
from torch import nn

import proveout
from proveout.devices.cuda import Form, OnCuda
from proveout.devices.cuda.choose import Choices
from proveout.devices.cuda.decode import Decoding
from proveout.settings import Settings

pytestmark = pytest.mark.cuda
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU in this machine")
MODES = {"none": {}, "trace": {"trace": True}, "2cq": {"queues": 2}, "trace+2cq": {"trace": True, "queues": 2}}


def close(given: torch.Tensor, expected: torch.Tensor) -> bool:
    return float((given.float() - expected.float()).norm() / expected.float().norm()) < 0.02


@needs_gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:eager"])
def test_the_four_modes_give_the_same_bits(device: str) -> None:
    for model, x in (
        (Layer(), torch.randn(1, 40, 128)),
        (Parallel(), torch.randn(1, 40, 128)),
        (Images(), torch.randn(1, 3, 16, 16)),
    ):
        model, inputs = model.eval().bfloat16(), [x.bfloat16(), (x * 0.5).bfloat16(), x.bfloat16()]
        expected = [model(t) for t in inputs]
        made = {}
        for name, settings in MODES.items():
            compiled = proveout.compile(model, inputs[0], device=device, settings=settings)
            made[name] = [compiled(t) for t in inputs]
        for name, outputs in made.items():
            assert all(torch.equal(a, b) for a, b in zip(outputs, made["none"])), name
            assert all(close(a, b) for a, b in zip(outputs, expected)), name


@needs_gpu
@pytest.mark.parametrize("form", ["joined", "joined and folded"])
@pytest.mark.parametrize("shape", [(1, 7, 128), (3, 33, 128), (2, 129, 128)], ids=str)
def test_branches_joined_over_odd_shapes(shape: tuple[int, ...], form: Form) -> None:
    model, x = nn.Sequential(Parallel(), Parallel(shared=4)).eval().bfloat16(), torch.randn(shape).bfloat16()
    program, inputs, weights = compiled(model, x)
    on_gpu = OnCuda(program, Settings(), torch.device("cuda", 0), "eager", form)
    on_gpu.set_weights({name: tensor.cuda() for name, tensor in weights.items()})
    assert close(on_gpu.run(inputs).outputs[0], model(x))


@needs_gpu
def test_a_weight_that_changes_is_seen_by_a_captured_graph() -> None:
    model, x = nn.Linear(64, 64).eval().bfloat16(), torch.randn(8, 64).bfloat16()
    compiled = proveout.compile(model, x, device="cuda:eager", settings={"trace": True})
    compiled(x)
    with torch.no_grad():
        model.weight.mul_(2)
    assert close(compiled(x), model(x))


@needs_gpu
@pytest.mark.parametrize("settings", [{}, {"trace": True}, {"precision": "bfloat16", "trace": True}], ids=str)
def test_torch_compile_of_a_model_on_the_gpu(settings: dict) -> None:
    model, x = Layer().eval().cuda(), torch.randn(1, 40, 128).cuda()
    compiled = torch.compile(model, backend=backend(), options={"device": "cuda", "settings": settings})
    with torch.no_grad():
        for inputs in (x, x * 0.5, x + 1):
            made = compiled(inputs)
            assert made.is_cuda
            assert close(made, model(inputs))


def backend() -> Any:
    """The name that users write, where the package is installed; from a plain source tree the function itself."""
    if "proveout" in torch._dynamo.list_backends():
        return "proveout"
    from proveout.engine.backend import backend

    return backend


@needs_gpu
@pytest.mark.parametrize("shape", [(1, 7, 128), (3, 33, 128), (2, 129, 128)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_odd_shapes_and_dtypes(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    model, x = Layer(after=True).eval().to(dtype), torch.randn(shape).to(dtype)
    compiled = proveout.compile(model, x, device="cuda:eager", settings={"trace": True})
    assert close(compiled(x), model(x))


@needs_gpu
def test_inputs_that_lie_in_strides() -> None:
    model, x = nn.Sequential(nn.Linear(48, 80), nn.GELU(), nn.Linear(80, 24)).eval().bfloat16(), torch.randn(96, 40)
    inputs = x.bfloat16()[::2].t()  # columns lie one after another, with others between them
    for device in ("cuda", "cuda:eager"):
        compiled = proveout.compile(model, inputs, device=device)
        assert close(compiled(inputs), model(inputs)), device


@needs_gpu
def test_shapes_that_change_are_compiled_again() -> None:
    model = Layer().eval().bfloat16()
    compiled = torch.compile(model, backend=backend(), options={"device": "cuda:eager"}, dynamic=False)
    with torch.no_grad():
        for length in (16, 24, 16):
            x = torch.randn(1, length, 128).bfloat16()
            assert close(compiled(x), model(x))


@needs_gpu
def test_a_saved_model_of_proveout_cuda_compile_is_benchmarked(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")  # a Record's samples are written by it
    model, x = Layer().eval().bfloat16(), torch.randn(1, 40, 128).bfloat16()
    index = proveout.cuda.compile(model, x, models_dir=tmp_path, filename=str(tmp_path / "index.json"), verbosity=0)
    reports = proveout.cuda.benchmark(index, x, duration=0.5, n_models=1, workers_per_model=1, verbosity=0)
    assert reports[0]["total_infs"] > 10


@needs_gpu
@pytest.mark.parametrize(
    ("settings", "low", "high"),
    [
        ({}, 0.0, 1e-5),
        ({"precision": "tf32"}, 1e-5, 3e-3),
        ({"precision": "float16"}, 1e-5, 3e-3),
        ({"precision": "bfloat16"}, 1e-4, 2e-2),
        ({"precision": "bfloat16", "weights": "float8"}, 1e-3, 8e-2),
    ],
    ids=str,
)
def test_the_precision_ladder_does_what_it_says(settings: dict, low: float, high: float) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).eval(), torch.randn(64, 256)
    made = proveout.compile(model, x, device="cuda", settings=settings)(x)
    assert low <= float((made.float() - model(x)).norm() / made.float().norm()) < high


@needs_gpu
def test_weights_in_int8_serve_a_few_rows() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).eval().bfloat16(), torch.randn(1, 256)
    made = proveout.compile(model, x.bfloat16(), device="cuda", settings={"weights": "int8"})(x.bfloat16())
    exact = model(x.bfloat16()).float()
    assert 1e-3 < float((made.float() - exact).norm() / exact.norm()) < 3e-2


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_captured_decoding_step_gives_the_tokens_of_the_step_itself(dtype: torch.dtype) -> None:
    place = torch.device("cuda", 0)
    made = {}
    for trace in (False, True):
        torch.manual_seed(0)
        step = Cached().eval().to(dtype).to(place)
        decoding = Decoding(step, 2, place, trace)
        decoding.start(torch.tensor([[3], [5]]), 0)
        made[trace] = decoding.generate(12).cpu()
    assert torch.equal(made[True], made[False])


def test_choices_are_kept_and_another_gpu_does_not_see_them(tmp_path: object) -> None:
    path = tmp_path / "choices.json"
    candidates = [("library", {}), ("product", {"BM": 64})]
    Choices("one", path, shipped=path).put("call", candidates[1], {"library": 2.0, "product BM64": 1.0})
    assert Choices("one", path, shipped=path).get("call", candidates) == candidates[1]
    assert Choices("one", path, shipped=path).get("call", candidates[:1]) is None
    assert Choices("another", path, shipped=path).get("call", candidates) is None


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{", "[" * 100_000, '{"one": []}', '{"one": {"call": 3}}', '{"one": {"call": {"kernel": "library"}}}',
        '{"one": {"call": {"kernel": "library", "numbers": {}, "us": []}}}',
        '{"one": {"call": {"kernel": ["library"], "numbers": {}, "us": {"library": 1.0}}}}',
        '{"one": {"call": {"kernel": "other", "numbers": {}, "us": {"a": 1%s}, "failed": {"x": 3}}}}' % ("0" * 400),
    ],
    ids=range(9),
)  # fmt: skip
def test_a_damaged_file_of_choices_costs_a_measurement_and_no_more(tmp_path: object, text: str) -> None:
    path = tmp_path / "choices.json"
    path.write_text(text)
    kept = Choices("one", path, shipped=path)
    assert kept.get("call", [("library", {})]) is None
    kept.outcomes("call")
    kept.put("call", ("library", {}), {"library": 2.0})
    assert Choices("one", path, shipped=path).outcomes("call") == {"library": "2.0 us"}


@needs_gpu
@pytest.mark.parametrize("settings", [{}, {"trace": True}], ids=str)
def test_a_decoder_on_the_host_generates_on_the_gpu_in_pages(settings: dict) -> None:
    transformers = pytest.importorskip("transformers")
    from proveout.generation import Generator
    from proveout.generation.agreement import eager_tokens

    torch.manual_seed(0)
    sizes = {"vocab_size": 128, "n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 128}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()
    ids = torch.randint(0, 128, (2, 21))
    generator = Generator.compile(model, device="cuda:eager", settings=settings, max_length=64, batch=2, page_size=16)
    ours = torch.stack(list(generator.generate(ids, 40)), 1)
    assert torch.equal(ours, eager_tokens(model, ids, torch.ones_like(ids), 40))
    assert next(model.parameters()).device.type == "cpu"

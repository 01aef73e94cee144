"""Models written by hand in ttnn: against torch, untraced, traced, with two queues, and both; recorded as Programs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from ttnn_text import unbound

from proveout import ttnn
from proveout.check.compare import pearson
from proveout.check.steps import replay
from proveout.program import Program
from proveout.report.script import write_script

TILES = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT}
ROWS = {"dtype": ttnn.bfloat16, "layout": ttnn.ROW_MAJOR_LAYOUT}


class TorchDownsample(torch.nn.Module):
    """Two convolutions as in YOLOv4's first stage, each with batch norm and mish; the second halves the image."""

    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            [torch.nn.Conv2d(3, 32, 3, 1, 1, bias=False), torch.nn.Conv2d(32, 64, 3, 2, 1, bias=False)]
        )
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(32), torch.nn.BatchNorm2d(64)])

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = F.mish(norm(conv(x)))
        return x


def fold(conv, norm):
    """Batch norm into the convolution before it."""
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return conv.weight * scale.view(-1, 1, 1, 1), norm.bias - norm.running_mean * scale


class Downsample:
    """The same block in ttnn. The first call prepares the weights, as real ttnn does."""

    def __init__(self, device, model, batch, size):
        self.device, self.batch, self.size = device, batch, size
        self.convs = []
        for conv, norm in zip(model.convs, model.norms):
            weight, bias = fold(conv, norm)
            self.convs.append(
                {
                    "weight": ttnn.from_torch(weight, dtype=ttnn.bfloat16),
                    "bias": ttnn.from_torch(bias.view(1, 1, 1, -1), dtype=ttnn.bfloat16),
                    "stride": conv.stride,
                }
            )
        self.config = ttnn.Conv2dConfig(
            weights_dtype=ttnn.bfloat16, shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED
        )
        self.compute = ttnn.init_device_compute_kernel_config(
            device.arch(), math_fidelity=ttnn.MathFidelity.HiFi2, fp32_dest_acc_en=True
        )

    def __call__(self, x):
        height = width = self.size
        for conv in self.convs:
            x, [height, width], [conv["weight"], conv["bias"]] = ttnn.conv2d(
                input_tensor=x,
                weight_tensor=conv["weight"],
                bias_tensor=conv["bias"],
                device=self.device,
                in_channels=x.shape[-1],
                out_channels=32 if conv["stride"] == (1, 1) else 64,
                batch_size=self.batch,
                input_height=height,
                input_width=width,
                kernel_size=(3, 3),
                stride=conv["stride"],
                padding=(1, 1),
                conv_config=self.config,
                compute_config=self.compute,
                return_output_dim=True,
                return_weights_and_bias=True,
            )
            x = ttnn.mish(x)
            x = ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)
        return x


class Encoder:
    """One layer of a BERT-like encoder in ttnn."""

    def __init__(self, device, layer):
        self.heads = layer.self_attn.num_heads

        def send(tensor):
            return ttnn.from_torch(tensor.detach(), device=device, **TILES)

        attention = layer.self_attn
        self.qkv = send(attention.in_proj_weight.T), send(attention.in_proj_bias)
        self.out = send(attention.out_proj.weight.T), send(attention.out_proj.bias)
        self.up, self.down = ((send(w.weight.T), send(w.bias)) for w in (layer.linear1, layer.linear2))
        self.norms = [(send(n.weight), send(n.bias), n.eps) for n in (layer.norm1, layer.norm2)]
        self.grid = device.core_grid

    def norm(self, x, index):
        weight, bias, epsilon = self.norms[index]
        return ttnn.layer_norm(x, weight=weight, bias=bias, epsilon=epsilon)

    def __call__(self, x):
        fused = ttnn.linear(x, self.qkv[0], bias=self.qkv[1], core_grid=self.grid)
        q, k, v = ttnn.transformer.split_query_key_value_and_split_heads(
            fused, num_heads=self.heads, transpose_key=False
        )
        ttnn.deallocate(fused)
        context = ttnn.transformer.scaled_dot_product_attention(q, k, v, is_causal=False)
        context = ttnn.transformer.concatenate_heads(context)
        x = self.norm(x + ttnn.linear(context, self.out[0], bias=self.out[1]), 0)
        hidden = ttnn.linear(x, self.up[0], bias=self.up[1], activation="gelu", memory_config=ttnn.L1_MEMORY_CONFIG)
        return self.norm(x + ttnn.linear(hidden, self.down[0], bias=self.down[1]), 1)


def downsample(device):
    torch.manual_seed(0)
    model = TorchDownsample().eval()
    for norm in model.norms:
        torch.nn.init.uniform_(norm.running_mean, -0.2, 0.2)
        torch.nn.init.uniform_(norm.running_var, 0.5, 1.5)

    def host(x):
        return ttnn.from_torch(x.permute(0, 2, 3, 1).reshape(1, 1, -1, 3), **ROWS)

    def back(y):
        return ttnn.to_torch(y).float().view(2, 8, 8, 64).permute(0, 3, 1, 2)

    return model, Downsample(device, model, 2, 16), [torch.randn(2, 3, 16, 16) for _ in range(3)], host, back


def encoder(device):
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, activation="gelu", batch_first=True).eval()
    xs = [torch.randn(2, 32, 128) for _ in range(3)]
    return layer, Encoder(device, layer), xs, lambda x: ttnn.from_torch(x, **TILES), lambda y: ttnn.to_torch(y).float()


def untraced(device, model, xs, host, back):
    return [back(model(ttnn.to_device(host(x), device))) for x in xs]


def capture(device, model, x):
    """Warm the program cache, then capture the same calls."""
    model(x)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    y = model(x)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    return trace, y


def traced(device, model, xs, host, back):
    x = ttnn.to_device(host(xs[0]), device)
    trace, y = capture(device, model, x)
    outputs = []
    for new in xs:
        ttnn.copy_host_to_device_tensor(host(new), x)
        ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
        outputs.append(back(y))
    ttnn.release_trace(device, trace)
    return outputs


def two_queues(device, model, xs, host, back):
    """Writes on queue 1, the model on queue 0, an event each way."""
    x = ttnn.allocate_tensor_on_device(host(xs[0]).spec, device)
    done = ttnn.record_event(device, 0)
    outputs = []
    for new in xs:
        ttnn.wait_for_event(1, done)
        ttnn.copy_host_to_device_tensor(host(new), x, 1)
        written = ttnn.record_event(device, 1)
        ttnn.wait_for_event(0, written)
        y = model(x)
        done = ttnn.record_event(device, 0)
        outputs.append(back(y))
    ttnn.synchronize_device(device)
    return outputs


def both(device, model, xs, host, back, write_queue=1):
    """The next input is written on queue 1 while queue 0 still runs the trace on the one before."""
    staged = ttnn.to_device(host(xs[0]), device)
    x = ttnn.clone(staged)
    trace, y = capture(device, model, x)
    taken = ttnn.record_event(device, 0)
    outputs = []
    for new in xs:
        ttnn.wait_for_event(write_queue, taken)
        ttnn.copy_host_to_device_tensor(host(new), staged, write_queue)
        written = ttnn.record_event(device, write_queue)
        ttnn.wait_for_event(0, written)
        ttnn.copy(staged, x)
        taken = ttnn.record_event(device, 0)
        ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
        outputs.append(y.cpu(blocking=False))
    ttnn.synchronize_device(device)
    return [back(output) for output in outputs]


WAYS = {"untraced": untraced, "traced": traced, "two queues": two_queues, "both": both}
MODELS = {"downsample": downsample, "encoder": encoder}


def opened(**more):
    return ttnn.open_device(device_id=0, l1_small_size=16384, trace_region_size=1 << 20, num_command_queues=2, **more)


def pcc(found, wanted):
    return pearson(found.double().flatten(), wanted.double().flatten())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_hand_written_model_computes_what_torch_computes(name, way):
    device = opened()
    reference, model, xs, host, back = MODELS[name](device)
    with torch.no_grad():
        wanted = [reference(x) for x in xs]
    found = WAYS[way](device, model, xs, host, back)
    assert [pcc(f, w) >= 0.99 for f, w in zip(found, wanted)] == [True] * 3
    ttnn.close_device(device)


@pytest.mark.parametrize("name", MODELS)
def test_with_the_chips_own_numbers_too(name):
    device = opened(numerics="faithful")
    reference, model, xs, host, back = MODELS[name](device)
    with torch.no_grad():
        wanted = reference(xs[0])
    (found,) = traced(device, model, xs[:1], host, back)
    assert pcc(found, wanted) >= 0.99


@pytest.mark.parametrize("name", MODELS)
def test_each_way_gives_the_same_numbers(name):
    outputs = {}
    for way in WAYS:
        device = opened()
        _, model, xs, host, back = MODELS[name](device)
        outputs[way] = torch.stack(WAYS[way](device, model, xs, host, back))
    assert all(torch.equal(o, outputs["untraced"]) for o in outputs.values())


@pytest.mark.parametrize("name", MODELS)
def test_a_second_queue_hides_writes_on_the_modelled_clock(name):
    took = {}
    for write_queue in (0, 1):
        device = opened()
        _, model, xs, host, back = MODELS[name](device)
        both(device, model, xs, host, back, write_queue)
        took[write_queue] = device.modelled_ns
    assert took[1] < took[0]


@pytest.mark.parametrize("way", ["untraced", "traced"])
@pytest.mark.parametrize("name", MODELS)
def test_a_recorded_model_is_a_program(name, way, tmp_path):
    device = opened()
    _, model, xs, host, _ = MODELS[name](device)
    x = ttnn.to_device(host(xs[0]), device)
    trace, y = capture(device, model, x)
    ttnn.copy_host_to_device_tensor(host(xs[1]), x)
    with ttnn.record(name, inputs=[x]) as recording:
        if way == "traced":
            ttnn.execute_trace(device, trace, cq_id=0)
            found = ttnn.to_torch(y)
        else:
            found = ttnn.to_torch(model(x))
    program = recording.program
    assert recording.settings.trace == (way == "traced")
    assert program.num_transfers == 2
    assert len(program.inputs) == 1
    calls = [step for step in program.body if not step.is_transfer and step.kernel != "ttnn.deallocate"]
    assert all(step.origin.source.rpartition(":")[0] == __file__ for step in calls)

    loaded = recording.load()
    (again,) = loaded.run(list(recording.inputs.values())).outputs
    assert torch.equal(again, found)
    assert all(c.passed for c in replay(loaded, list(recording.inputs.values()), 0.99))

    time, memory = recording.time(), recording.memory()
    assert time.low_ns <= time.ns <= time.high_ns
    assert time.ns > 0
    assert memory.fits
    assert memory.weight_bytes > 0

    folder = recording.save(tmp_path)
    assert Program.load(folder) == program
    text = write_script(folder).read_text()
    assert unbound(text) == []


def test_a_recorded_model_runs_as_a_script(tmp_path, capsys):
    device = opened()
    _, model, xs, host, _ = encoder(device)
    x = ttnn.to_device(host(xs[0]), device)
    with ttnn.record("encoder", inputs=[x]) as recording:
        ttnn.to_torch(model(x))
    script = write_script(recording.save(tmp_path))
    runpy.run_path(str(script), run_name="__main__")
    assert "as compiled" in capsys.readouterr().out


def test_the_same_calls_take_less_when_traced():
    device = opened()
    _, model, xs, host, _ = encoder(device)
    x = ttnn.to_device(host(xs[0]), device)
    trace, y = capture(device, model, x)
    times = {}
    for way in ("untraced", "traced"):
        with ttnn.record(inputs=[x]) as recording:
            if way == "traced":
                ttnn.execute_trace(device, trace)
            ttnn.to_torch(y if way == "traced" else model(x))
        times[way] = recording.time().ns
    assert times["traced"] < times["untraced"]


# ---- the same text on real ttnn ------------------------------------------------------------------------------------


def test_this_files_own_calls_are_valid_for_real_ttnn():
    ours = ("ttnn.record(",)
    with open(__file__) as file:
        text = file.read()
    assert [call for call in unbound(text) if not call.startswith(ours) and "numerics" not in call] == []
    assert unbound("ttnn.softmax(x, axis=-1)") == ["ttnn.softmax(x, axis=-1)"]
    assert unbound("ttnn.linear(x)") == ["ttnn.linear(x)"]
    assert unbound("ttnn.linear(x, y, z)") == ["ttnn.linear(x, y, z)"]


def test_the_guides_example_runs(capsys):
    guide = Path(__file__).parents[2] / "docs" / "guides" / "hand-written-ttnn.md"
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.S)
    assert len(blocks) == 4
    code = "\n".join(blocks)
    ours = [call for call in unbound(code) if not call.startswith("ttnn.record(")]
    assert ours == []
    exec(compile(code, str(guide), "exec"), {})
    assert "ms on the modelled clock" in capsys.readouterr().out

"""What Programs become for a GPU, run by the fused calls' meanings on the CPU: the same numbers in fewer calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import proveout
from proveout.devices import cuda
from proveout.devices.cuda.decode import with_one, written
from proveout.devices.cuda.modes import Places, copy_on_host
from proveout.devices.cuda.rewrite import rewrite
from proveout.devices.resident import Resident
from proveout.errors import EnvironmentFault, UsageError
from proveout.program import Program, Ref
from proveout.settings import Settings


class Layer(nn.Module):
    """A transformer's layer, its norms before or after, on heads of 32."""

    def __init__(self, width: int = 128, after: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 256), nn.Linear(256, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.after = after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.after:
            x = self.first(x + self.attend(x))
            return self.second(x + self.down(nn.functional.gelu(self.up(x))))
        x = x + self.attend(self.first(x))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (p(x).unflatten(-1, (4, 32)).transpose(1, 2) for p in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Turned(nn.Module):
    """Attention with rotary embeddings by one of two ways to find partners, from one product whose columns lie in
    `groups`, each with its queries, values and keys."""

    def __init__(self, turn: str, angles: int, groups: int = 1, width: int = 128) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=groups > 1), nn.Linear(width, width)
        self.turn, self.angles, self.groups = turn, angles, groups
        angle = torch.arange(24.0)[:, None] / 10 ** torch.linspace(0, 2, angles // 2)[None]
        table = angle.repeat_interleave(2, 1) if turn == "pairs" else torch.cat((angle, angle), 1)
        self.register_buffer("table", table)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        head, rest = x[..., : self.angles], x[..., self.angles :]
        if self.turn == "pairs":
            partner = torch.stack((-head[..., 1::2], head[..., ::2]), -1).flatten(-2)
        else:
            half = self.angles // 2
            partner = torch.cat((-head[..., half:], head[..., :half]), -1)
        cos, sin = (t[None, :, None] for t in (self.table.cos(), self.table.sin()))
        head = head * cos + partner * sin
        return torch.cat((head, rest), -1) if rest.shape[-1] else head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(x).unflatten(-1, (self.groups, -1)).chunk(3, -1)
        q, v, k = (part.reshape(batch, length, 4, 32) for part in parts)
        q, k, v = (t.transpose(1, 2) for t in (self.turned(q), self.turned(k), v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Parallel(nn.Module):
    """A layer as GPT-J has it: attention, with `shared` heads of keys and values, beside its feed-forward."""

    def __init__(self, width: int = 128, shared: int = 2, out_bias: bool = True) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, width + 2 * shared * 32, bias=False)
        self.out, self.up, self.down = (
            nn.Linear(width, width, bias=out_bias),
            nn.Linear(width, 192),
            nn.Linear(192, width),
        )
        self.shared = shared
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.norm(x)
        mixed, hidden = self.attend(n), nn.functional.gelu(self.up(n))
        return self.out(mixed) + self.down(hidden) + x

    def attend(self, n: torch.Tensor) -> torch.Tensor:
        sizes = [128, self.shared * 32, self.shared * 32]
        q, k, v = (t.unflatten(-1, (-1, 32)).transpose(1, 2) for t in self.qkv(n).split(sizes, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.shared < 4)
        return mixed.transpose(1, 2).flatten(2)


class Cached(nn.Module):
    """One layer of a language model with a static cache: from tokens and a position to logits."""

    def __init__(self, batch: int = 2, length: int = 16, width: int = 64, written_out: bool = False) -> None:
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(50, width), nn.LayerNorm(width), nn.Linear(width, 50)
        self.qkv, self.out, self.up = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, width)
        self.written_out = written_out
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, 4, length, width // 4), persistent=False)

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        return self.rest(x, attend(q, k, v, self.keys, self.values, position, self.written_out))

    def rest(self, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        x = x + nn.functional.gelu(self.up(x))
        return self.head(x)[:, -1]


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    position: torch.Tensor,
    written_out: bool,
) -> torch.Tensor:
    keys.index_copy_(2, position, k)
    values.index_copy_(2, position, v)
    seen = torch.arange(keys.shape[2], device=q.device) <= position
    if not written_out:
        return nn.functional.scaled_dot_product_attention(q, keys, values, seen[None, None, None])
    hidden = torch.where(seen, 0.0, torch.finfo(q.dtype).min).to(q.dtype)
    scores = q.float() @ keys.float().transpose(-1, -2) + hidden
    return torch.softmax(scores / q.shape[-1] ** 0.5, -1).to(values.dtype) @ values


class WithCache(nn.Module):
    """The same with its cache given, so that it is an input of the Program."""

    def __init__(self, inside: Cached) -> None:
        super().__init__()
        self.inside = inside

    def forward(
        self, tokens: torch.Tensor, position: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        c = self.inside
        x = c.embed(tokens)
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in c.qkv(c.norm(x)).chunk(3, -1))
        return c.rest(x, attend(q, k, v, keys, values, position, c.written_out))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(16), nn.BatchNorm2d(16)
        for norm in (self.bn1, self.bn2):
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)) + x)


class Stages(nn.Module):
    """A pool, a block whose shortcut changes the size of the image, and a head on the mean of its positions."""

    def __init__(self, channels: int, shortcut_first: bool) -> None:
        super().__init__()
        self.pool, self.shortcut_first = nn.MaxPool2d(3, 2, 1), shortcut_first
        self.conv1 = nn.Conv2d(channels, 64, 3, 2, 1, bias=False)
        self.conv2 = nn.Conv2d(64, 64, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(channels, 64, 1, 2, bias=False)
        self.bn1, self.bn2, self.bn3 = (nn.BatchNorm2d(64) for _ in range(3))
        for norm in (self.bn1, self.bn2, self.bn3):
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2.0)
        self.head = nn.Linear(64, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(x)
        beside = self.bn3(self.shortcut(x)) if self.shortcut_first else None
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        y = torch.relu(y + beside) if beside is not None else torch.relu(y + self.bn3(self.shortcut(x)))
        return self.head(y.mean((2, 3)) if self.shortcut_first else nn.functional.adaptive_avg_pool2d(y, 1).flatten(1))


def compiled(model: nn.Module, *x: torch.Tensor) -> tuple[Program, list[torch.Tensor], Mapping[str, torch.Tensor]]:
    made = proveout.compile(model, *x, device="cpu") if len(x) == 1 else proveout.compile(model, x, device="cpu")
    seen: list[tuple] = []
    with made.watching(lambda variant, arguments: seen.append((variant, list(arguments)))):
        made(*x)
    variant, arguments = seen[0]
    graph = variant.compiled
    weights = {n: arguments[i] for n, i in zip(graph.program.weights, graph.weight_positions)}
    return graph.program, [arguments[i] for i in graph.input_positions], weights


def outputs(program: Program, inputs: list[torch.Tensor], weights: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    loaded = Resident(program)
    loaded.set_weights(weights)
    return loaded.run(inputs).outputs


def calls(program: Program) -> Counter[str]:
    return Counter(s.kernel.split(".")[1] for s in program.body if s.kernel.startswith("proveout."))


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "apart"])
@pytest.mark.parametrize("after", [False, True], ids=["norms before", "norms after"])
def test_a_transformer_layer_is_four_products_and_one_attention(after: bool, fold: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Layer(after=after), Layer(after=after)).eval().bfloat16()
    program, inputs, weights = compiled(model, torch.randn(1, 40, 128).bfloat16())
    made = rewrite(program, fold)
    found = calls(made)
    assert (found["product"], found["attention"]) == (8, 2)
    norms = sum(s.kernel == "ttnn.layer_norm" for s in made.body) + found["norm"]
    assert norms == (1 if fold else 4)  # of the first layer's input, or of the result that the caller gets
    (expected,), (given,) = outputs(program, inputs, weights), outputs(made, inputs, weights)
    assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01


@pytest.mark.parametrize(("columns", "norms"), [(16384, 0), (16392, 1)])
def test_a_norm_before_a_vocabulary_is_a_call_of_its_own(columns: int, norms: int) -> None:
    torch.manual_seed(0)
    head = nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, columns, bias=False)
    program, inputs, weights = compiled(nn.Sequential(*head).eval().bfloat16(), torch.randn(8, 64).bfloat16())
    made = rewrite(program)
    assert calls(made) == {"product": 2} | ({"norm": 1} if norms else {})
    (expected,), (given,) = outputs(program, inputs, weights), outputs(made, inputs, weights)
    assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "apart"])
@pytest.mark.parametrize(("shared", "out_bias"), [(4, False), (2, True)])
def test_attention_and_a_feed_forward_beside_each_other_share_two_products(
    shared: int, out_bias: bool, fold: bool
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Parallel(shared=shared, out_bias=out_bias) for _ in range(2))).eval().bfloat16()
    program, inputs, weights = compiled(model, torch.randn(2, 24, 128).bfloat16())
    made = rewrite(program, fold, join=True)
    assert calls(made) == {"branches": 2, "product": 2} | ({} if fold else {"norm": 1})
    assert not {"ttnn.add", "ttnn.gelu", "ttnn.linear", "ttnn.matmul"} & {s.kernel for s in made.body}
    (expected,), (given,) = outputs(program, inputs, weights), outputs(made, inputs, weights)
    assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01


@pytest.mark.parametrize(
    ("layer", "forms"), [(Layer, ["folded", "apart"]), (Parallel, ["joined and folded", "joined", "folded", "apart"])]
)
def test_forms_that_are_the_same_program_are_measured_once(
    layer: type[nn.Module], forms: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, inputs, _ = compiled(nn.Sequential(layer(), layer()).eval().bfloat16(), torch.randn(1, 8, 128).bfloat16())
    seen: list[tuple[str, dict[str, int]]] = []

    def first(key: str, candidates: list[tuple[str, dict[str, int]]], *rest: object, **named: object) -> object:
        seen.extend(candidates)
        return candidates[0]

    monkeypatch.setattr(cuda, "best", first)
    monkeypatch.setattr(cuda, "choices", lambda: SimpleNamespace(outcomes=lambda key: {}))
    on_gpu = cuda.OnCuda(program, Settings(), torch.device("cpu"), "eager")
    assert on_gpu._fastest("norms", cuda.OURS, inputs, None) == forms[0]
    assert [name for name, _ in seen] == forms


def test_branches_stay_apart_where_their_parts_are_read_elsewhere() -> None:
    class Keeping(Parallel):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            n = self.norm(x)
            rows = self.qkv(n)
            q, k, v = (t.unflatten(-1, (4, 32)).transpose(1, 2) for t in rows.chunk(3, -1))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            return self.out(mixed) + self.down(torch.relu(self.up(n))) + x, k

    torch.manual_seed(0)
    program, inputs, weights = compiled(Keeping(shared=4).eval().bfloat16(), torch.randn(1, 24, 128).bfloat16())
    made = rewrite(program, join=True)
    assert calls(made)["branches"] == 0
    assert made == rewrite(program)
    for given, expected in zip(outputs(made, inputs, weights), outputs(program, inputs, weights), strict=True):
        assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01


@pytest.mark.parametrize(("turn", "angles", "groups"), [("pairs", 16, 2), ("pairs", 32, 1), ("halves", 32, 4)], ids=str)
def test_attention_takes_in_rotary_embeddings_and_reads_a_product_by_slices(
    turn: str, angles: int, groups: int
) -> None:
    torch.manual_seed(0)
    model = Turned(turn, angles, groups).eval().bfloat16()
    program, inputs, weights = compiled(model, torch.randn(1, 24, 128).bfloat16())
    made = rewrite(program)
    (attention,) = (s for s in made.body if s.kernel == "proveout.attention.default")
    assert attention.attr("turn") == turn
    views = {"ttnn.reshape", "ttnn.slice", "ttnn.permute"}
    assert {s.kernel for s in made.body} - views == {"proveout.product.default", "proveout.attention.default"}
    (expected,), (given,) = outputs(program, inputs, weights), outputs(made, inputs, weights)
    assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01
    product = made.body[[s.kernel for s in made.body].index("proveout.product.default")]
    assert (product.attr("w") == Ref("t")) == (groups == 1)  # columns in groups are put into order


def test_half_of_a_head_turned_by_halves_is_left_as_it_is() -> None:
    torch.manual_seed(0)
    program, inputs, weights = compiled(Turned("halves", 16).eval().bfloat16(), torch.randn(1, 24, 128).bfloat16())
    made = rewrite(program)
    assert [s.attr("turn") for s in made.body if s.kernel == "proveout.attention.default"] == [""]
    (expected,), (given,) = outputs(program, inputs, weights), outputs(made, inputs, weights)
    assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01


def test_a_convolution_takes_in_its_batch_norm_residual_and_relu() -> None:
    torch.manual_seed(0)
    program, inputs, weights = compiled(Images().eval().bfloat16(), torch.randn(2, 3, 16, 16).bfloat16())
    made = rewrite(program)
    assert calls(made) == {"conv": 2}
    assert not {"ttnn.batch_norm", "ttnn.relu", "ttnn.add"} & {s.kernel for s in made.body}
    (expected,), (given,) = outputs(program, inputs, weights), outputs(made, inputs, weights)
    assert given.shape == expected.shape
    assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01


@pytest.mark.parametrize("shortcut_first", [False, True])
@pytest.mark.parametrize("size", [24, 5], ids=["positions", "one position"])
@pytest.mark.parametrize("channels", [32, 24], ids=["slices", "channels that are not taken in slices"])
def test_a_shortcut_is_part_of_a_convolution_and_a_mean_of_the_head(
    channels: int, size: int, shortcut_first: bool
) -> None:
    torch.manual_seed(0)
    model = Stages(channels, shortcut_first).eval().bfloat16()
    program, inputs, weights = compiled(model, torch.randn(1, channels, size, size).bfloat16())
    made = rewrite(program)
    found = calls(made)
    assert found == {"pool": 1, "conv": 2 if channels == 32 else 3, "vector": 1}
    views = {"ttnn.reshape", "ttnn.permute"}
    assert {s.kernel for s in made.body if not s.kernel.startswith("proveout.")} <= views
    (expected,), (given,) = outputs(program, inputs, weights), outputs(made, inputs, weights)
    assert given.shape == expected.shape
    assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01


def test_float32_is_left_as_it_is() -> None:
    torch.manual_seed(0)
    program, inputs, weights = compiled(Layer().eval(), torch.randn(1, 8, 128))
    made = rewrite(program)
    assert calls(made) == {}
    assert torch.equal(*outputs(made, inputs, weights), *outputs(program, inputs, weights))


def test_a_value_that_somebody_else_reads_is_still_made() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.linear(x)
            return y, torch.relu(y) + x

    torch.manual_seed(0)
    program, inputs, weights = compiled(Both().eval().bfloat16(), torch.randn(8, 64).bfloat16())
    expected, given = outputs(program, inputs, weights), outputs(rewrite(program), inputs, weights)
    for a, b in zip(given, expected, strict=True):
        assert (a.float() - b.float()).norm() / b.float().norm() < 0.01


@pytest.mark.parametrize("written_out", [False, True], ids=["sdpa", "written out"])
@pytest.mark.parametrize("weights", ["same", "int8"])
def test_a_decoding_step_joins_its_cache_inside_attention(written_out: bool, weights: str) -> None:
    torch.manual_seed(0)
    model = WithCache(Cached(written_out=written_out)).eval()
    keys, values = torch.randn(2, 4, 16, 16), torch.randn(2, 4, 16, 16)
    given = torch.tensor([[3], [5]]), torch.tensor([6]), keys, values
    program, inputs, held = compiled(model, *(t.clone() for t in given))
    made = rewrite(program, weights=weights)
    assert calls(made) == {"vector": 4, "append": 1}
    assert written(made) == {n for n, spec in program.specs.items() if n in program.inputs and len(spec.shape) == 4}
    again = [t.clone() for t in inputs]  # the one before this was written to
    expected, (logits, *_) = model(*(t.clone() for t in given)), outputs(made, again, held)
    error = (logits.float() - expected).norm() / expected.norm()
    assert error < 1e-5 if weights == "same" else 1e-4 < error < 0.03
    fresh = {t.data_ptr(): t for t in again if t.dim() == 4}
    assert all(not torch.equal(t[:, :, 6], original[:, :, 6]) for t, original in zip(fresh.values(), (keys, values)))


def test_weights_in_float8_serve_products_of_many_rows() -> None:
    torch.manual_seed(0)
    program, inputs, held = compiled(Layer().eval().bfloat16(), torch.randn(1, 40, 128).bfloat16())
    made = rewrite(program, weights="float8")
    assert calls(made)["scaled"] == 4
    (expected,), (given,) = outputs(program, inputs, held), outputs(made, inputs, held)
    assert 1e-3 < (given.float() - expected.float()).norm() / expected.float().norm() < 0.08


def test_one_input_stands_for_those_that_always_hold_the_same() -> None:
    class Sum(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return (a + 1) * c + (b + 1)

    program, _, held = compiled(Sum(), torch.ones(2), torch.ones(2), torch.full((2,), 3.0))
    one = rewrite(with_one(program, [program.inputs[0], program.inputs[2]]))  # a and b: c is read before b
    assert sum(s.kernel == "ttnn.add" for s in one.body) == 2
    assert outputs(one, [torch.ones(2), torch.full((2,), 3.0), torch.zeros(2)], held)[0].tolist() == [8.0, 8.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precision": "float16"}, "device 'cpu' does not compute in 'float16': use model, bfloat16"),
        ({"precision": "tf32"}, "device 'cpu' does not compute in 'tf32'"),
        ({"weights": "int8"}, "device 'cpu' does not keep weights in 'int8': use one of same"),
    ],
)
def test_a_rung_that_a_device_does_not_have_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        proveout.compile(nn.Linear(2, 2), torch.ones(1, 2), device="cpu", settings=settings)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_says_so_in_one_sentence() -> None:
    with pytest.raises(EnvironmentFault, match="device 'cuda' cannot be used here: there is no NVIDIA GPU"):
        proveout.compile(nn.Linear(2, 2), torch.ones(1, 2), device="cuda")


@pytest.mark.parametrize(
    "value",
    [torch.randn(3, 5).bfloat16(), torch.randn(5, 3).t(), torch.zeros(0), torch.tensor(3.0), torch.randn(600_000)],
    ids=["bfloat16", "transposed", "empty", "scalar", "above a megabyte"],
)
def test_a_copy_on_the_host_is_the_same_by_one_thread_and_by_many(value):
    buffer = torch.empty(value.shape, dtype=value.dtype)
    copy_on_host(buffer, value)
    assert torch.equal(buffer, value)
    wider = torch.empty(value.shape, dtype=torch.float64)
    copy_on_host(wider, value)
    assert torch.equal(wider, value.double())


def test_large_inputs_that_stay_where_they_are_need_no_copies() -> None:
    places, (cache, one, other), small = Places(), torch.zeros(3, 1 << 18), torch.zeros(4)
    assert not places.saw([cache, small, one, 3])
    assert places.saw([cache, small, other, 3]), "known from the second call on"
    assert places.lasting == {0}
    assert not places.saw([other, small, one, 3]), "and once"

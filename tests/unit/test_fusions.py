"""Every fusion: the Program before and after as text with equal numbers, and the near misses that it leaves alone."""

from __future__ import annotations

import math
import runpy
from dataclasses import replace

import pytest
import torch
from program_text import FETCH, SDPA, expect, parse, run
from torch import nn

import proveout
from proveout.chip.specs import CHIPS
from proveout.compiler.program_passes import Policy, fusions, hoist, lift_matmul, prune
from proveout.compiler.program_passes.match import Fusion, fuse
from proveout.engine.snapshot import save_calls
from proveout.kernels.table import infer
from proveout.program import Constant, Ref, Step, verify
from proveout.report.script import write_script
from proveout.types import Settings

N150 = CHIPS["n150"]
PASSES = {f.__name__: f for f in (*fusions("formulas"), *fusions("products"), lift_matmul)}
WIDE = "dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device"
HALF = "dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device"


def binary(kernel, a, b):
    second = f"%{b}" if isinstance(b, str) else b
    return f"ttnn.{kernel}(input_tensor_a=%{a}, input_tensor_b={second})"


def source(text, send=WIDE, fetch="y"):
    """A Program's text from its calls: `x f (2, 3)` is an input on the device, `w = (3,)` a weight."""
    head, body, returned = [], [], []
    for line in filter(str.strip, text.splitlines()):
        kind, _, rest = line.strip().partition(" ")
        if kind in ("input", "weight", "constant"):
            name, shape = rest.split(" ", 1)
            head.append(f"{kind} {name}_ float32 {shape}")
            body.append(f"%{name} = ttnn.from_torch(tensor=%{name}_, {send})")
        else:
            body.append(line.strip())
    for name in fetch.split():
        body.append(f"%{name}_ = ttnn.to_torch(tensor=%{name}, {FETCH})")
        returned.append(f"%{name}_")
    return parse("\n".join([*head, *body, "return " + ", ".join(returned)]))


def apply(name, program, precision="bfloat16", chip=N150):
    fused = PASSES[name](hoist(program), Policy(chip, Settings(precision=precision)))
    verify(fused, infer)
    return prune(fused)


def inputs_of(program):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(program.specs[n].shape, generator=generator) for n in program.inputs]


def calls(program):
    return [s.kernel for s in program.body if not s.is_transfer]


def becomes(name, text, wanted, send=WIDE, precision="bfloat16", tolerance=1e-5, **given):
    """The pass turns the calls into those wanted, and the numbers are the same."""
    program = source(text, send)
    after = apply(name, program, precision, **given)
    assert calls(after) == wanted
    values = inputs_of(program)
    torch.testing.assert_close(run(after, *values), run(program, *values), rtol=tolerance, atol=tolerance)
    return after


def comes_nearer(name, text, wanted):
    """The pass turns bfloat16 calls into those wanted, and the result is nearer to float32's than it was."""
    program = source(text, HALF)
    after = apply(name, program)
    assert calls(after) == wanted
    values = [v.bfloat16().float() for v in inputs_of(program)]
    truth = run(source(text, WIDE), *values)[0]
    before, now = (float((run(p, *values)[0] - truth).abs().max()) for p in (program, after))
    assert now <= before
    assert now < 2e-2
    return after


def stays(name, text, send=WIDE, precision="bfloat16", fetch="y"):
    program = source(text, send, fetch)
    assert calls(apply(name, program, precision)) == calls(prune(hoist(program)))


# ---- what every fusion obeys -------------------------------------------------------------------------------------

TWICE = """
    input x (32, 32)
    %a = ttnn.relu(input_tensor=%x)
    %y = ttnn.relu(input_tensor=%a)
"""


def once(body, step):
    """relu(relu(x)) is relu(x): the smallest fusion there is."""
    before = body.maker(step.attr("input_tensor"), "ttnn.relu") if step.kernel == "ttnn.relu" else None
    return Fusion((before, step), (replace(step, attrs=before.attrs),)) if before else None


def test_a_fusion_takes_the_place_name_and_origin_of_its_last_step():
    program = source(TWICE)
    after = fuse(program, once, Policy(N150))
    expect(
        after,
        f"""
        body:
        %x = ttnn.from_torch(tensor=%x_, {WIDE})
        %y = ttnn.relu(input_tensor=%x)
        %y_ = ttnn.to_torch(tensor=%y, {FETCH})
        return %y_
        """,
    )


def test_a_chain_is_fused_to_its_end():
    chain = TWICE.replace("%y = ttnn.relu(input_tensor=%a)", "%b = ttnn.relu(input_tensor=%a)")
    program = source(chain + "    %y = ttnn.relu(input_tensor=%b)")
    assert calls(fuse(program, once, Policy(N150))) == ["ttnn.relu"]


def test_a_value_that_somebody_else_reads_is_not_fused_away():
    text = TWICE.replace("%y =", "%b =") + "    %y = " + binary("add", "a", "b")
    assert calls(fuse(source(text), once, Policy(N150))) == ["ttnn.relu", "ttnn.relu", "ttnn.add"]


def test_a_value_that_the_caller_gets_is_not_fused_away():
    assert calls(fuse(source(TWICE, fetch="a y"), once, Policy(N150))) == ["ttnn.relu", "ttnn.relu"]


def test_a_rounding_of_eagers_is_kept_under_model_and_only_there():
    program = source(TWICE, HALF)
    strict, loose = (Policy(N150, Settings(precision=p)) for p in ("model", "bfloat16"))
    assert calls(fuse(program, once, strict)) == ["ttnn.relu", "ttnn.relu"]
    assert calls(fuse(program, once, loose)) == ["ttnn.relu"]
    assert calls(fuse(source(TWICE, WIDE), once, strict)) == ["ttnn.relu"]


@pytest.mark.parametrize(
    "kernel",
    ["ttnn.exp2", SDPA],
    ids=["a result of another dtype or shape", "a call that ttnn refuses"],
)
def test_what_is_not_the_same_tensor_or_not_accepted_is_not_fused(kernel):
    def wrong(body, step):
        found = once(body, step)
        if found is None:
            return None
        x = found.steps[0].attrs[0][1]
        attrs = (("input_tensor", x),)
        if kernel == SDPA:
            attrs = tuple((f"input_tensor_{n}", x) for n in "qkv")
        else:
            attrs = (("input_tensor", x), ("dim", (0,)), ("keepdim", True))
        name = SDPA if kernel == SDPA else "ttnn.sum"
        return Fusion(found.removed, (Step(name, attrs, step.outputs),))

    assert calls(fuse(source(TWICE), wrong, Policy(N150))) == ["ttnn.relu", "ttnn.relu"]


def test_what_the_model_of_time_calls_slower_is_not_fused():
    def slower(body, step):
        found = once(body, step)
        if found is None:
            return None
        names = [body.fresh(f"extra{i}") for i in range(3)]
        steps, value = [], found.steps[0].attrs[0][1]
        for name in (*names, step.outputs[0]):
            steps.append(Step("ttnn.relu", (("input_tensor", value),), (name,)))
            value = Ref(name)
        return Fusion(found.removed, tuple(steps))

    assert calls(fuse(source(TWICE), slower, Policy(N150))) == ["ttnn.relu", "ttnn.relu"]


# ---- GELU --------------------------------------------------------------------------------------------------------


SLOPE = math.sqrt(2 / math.pi)


def gelu_new(slope=SLOPE, cubic=0.044715, power=3.0, half=0.5, one=1.0):
    return f"""
    input x (32, 64)
    %h = {binary("multiply", "x", half)}
    %p = ttnn.pow(input_tensor=%x, exponent={power})
    %c = {binary("multiply", "p", cubic)}
    %s = {binary("add", "x", "c")}
    %i = {binary("multiply", "s", slope)}
    %t = ttnn.tanh(input_tensor=%i)
    %o = {binary("add", "t", one)}
    %y = {binary("multiply", "h", "o")}
    """


def test_gelu_as_hugging_face_writes_it():
    after = becomes("fuse_gelu", gelu_new(), ["ttnn.gelu"])
    expect(
        after,
        f"""
        body:
        %x = ttnn.from_torch(tensor=%x_, {WIDE})
        %y = ttnn.gelu(input_tensor=%x, variant=ttnn.GeluVariant.Tanh)
        %y_ = ttnn.to_torch(tensor=%y, {FETCH})
        return %y_
        """,
    )


def test_gelu_bracketed_otherwise_and_with_fewer_digits():
    """x · 0.7978845608 · (1 + 0.044715 x x), as in `gelu_fast`."""
    text = f"""
    input x (32, 64)
    %a = {binary("multiply", "x", 0.7978845608)}
    %b = {binary("multiply", "x", 0.044715)}
    %c = {binary("multiply", "b", "x")}
    %d = {binary("add", "c", 1.0)}
    %e = {binary("multiply", "a", "d")}
    %t = ttnn.tanh(input_tensor=%e)
    %o = {binary("add", "t", 1.0)}
    %h = {binary("multiply", "x", 0.5)}
    %y = {binary("multiply", "h", "o")}
    """
    becomes("fuse_gelu", text, ["ttnn.gelu"])


def test_gelu_with_erf_is_the_accurate_variant():
    text = f"""
    input x (32, 64)
    %a = ttnn.div(input_tensor_a=%x, value={math.sqrt(2)})
    %t = ttnn.erf(input_tensor=%a)
    %o = {binary("add", "t", 1.0)}
    %h = {binary("multiply", "x", 0.5)}
    %y = {binary("multiply", "o", "h")}
    """
    after = becomes("fuse_gelu", text, ["ttnn.gelu"])
    assert "Accurate" in str(after)


@pytest.mark.parametrize(
    "text",
    [
        gelu_new(cubic=0.0447),
        gelu_new(slope=0.7978),
        gelu_new(power=2.0),
        gelu_new(half=1.0),
        gelu_new(one=2.0),
        gelu_new().replace("%t = ttnn.tanh", "%t = ttnn.sigmoid"),
        gelu_new()
        .replace("input x (32, 64)", "input x (32, 64)\n    input z (32, 64)")
        .replace("a=%x, input_tensor_b=0.5", "a=%z, input_tensor_b=0.5"),
    ],
    ids=["0.0447", "0.7978", "a square", "not halved", "2 + tanh", "sigmoid", "another tensor outside"],
)
def test_what_is_nearly_gelu_stays(text):
    stays("fuse_gelu", text)


def test_gelu_keeps_its_roundings_under_model():
    stays("fuse_gelu", gelu_new(), HALF, "model")
    becomes("fuse_gelu", gelu_new(), ["ttnn.gelu"], HALF, tolerance=2e-2)


# ---- norms -------------------------------------------------------------------------------------------------------


def rms(square="ttnn.pow(input_tensor=%x, exponent=2.0)", dim="(2,)", keepdim=True, epsilon=1e-6, weight="(64,)"):
    return f"""
    input x (2, 32, 64)
    weight w {weight}
    %q = {square}
    %m = ttnn.mean(input_tensor=%q, dim={dim}, keepdim={keepdim})
    %e = {binary("add", "m", epsilon)}
    %r = ttnn.rsqrt(input_tensor=%e)
    %n = {binary("multiply", "x", "r")}
    %y = {binary("multiply", "w", "n")}
    """


def test_rms_norm_with_its_weight():
    after = becomes("fuse_norm", rms(), ["ttnn.rms_norm"])
    expect(
        after,
        f"""
        setup:
        %w = ttnn.from_torch(tensor=%w_, {WIDE})
        body:
        %x = ttnn.from_torch(tensor=%x_, {WIDE})
        %y = ttnn.rms_norm(input_tensor=%x, epsilon=1e-06, weight=%w)
        %y_ = ttnn.to_torch(tensor=%y, {FETCH})
        return %y_
        """,
    )


@pytest.mark.parametrize("square", ["ttnn.square(input_tensor=%x)", binary("multiply", "x", "x")])
def test_rms_norm_however_it_squares(square):
    becomes("fuse_norm", rms(square), ["ttnn.rms_norm"])


@pytest.mark.parametrize(
    "text",
    [
        rms("ttnn.pow(input_tensor=%x, exponent=3.0)"),
        rms("ttnn.exp(input_tensor=%x)"),
        rms(dim="(1,)"),
        rms(dim="(1, 2)"),
        rms(epsilon=0.0),
        rms().replace("ttnn.rsqrt", "ttnn.sqrt"),
        rms().replace("a=%x, input_tensor_b=%r", "a=%q, input_tensor_b=%r"),
    ],
    ids=["a cube", "exp", "of columns", "of two dimensions", "no epsilon", "sqrt", "of another tensor"],
)
def test_what_is_nearly_an_rms_norm_stays(text):
    stays("fuse_norm", text)


@pytest.mark.parametrize("weight", ["(32, 64)", "(2, 1, 64)", "(1,)"], ids=["a row each", "a batch each", "a number"])
def test_a_weight_that_is_not_one_row_is_multiplied_apart(weight):
    becomes("fuse_norm", rms(weight=weight), ["ttnn.rms_norm", "ttnn.multiply"])


def test_a_weight_that_changes_at_every_call_is_the_kernels_too():
    """Apart, the norm would be rounded before it is multiplied, and eager's is not."""
    becomes("fuse_norm", rms().replace("weight w", "input w"), ["ttnn.rms_norm"])


def test_an_epsilon_may_be_negative():
    becomes("fuse_norm", rms(epsilon=-1e-6), ["ttnn.rms_norm"])


LLAMA_NORM = f"""
    input x (2, 32, 64)
    weight w (64,)
    %f = ttnn.typecast(input_tensor=%x, dtype=ttnn.float32)
    %q = ttnn.pow(input_tensor=%f, exponent=2.0)
    %m = ttnn.mean(input_tensor=%q, dim=(2,), keepdim=True)
    %e = {binary("add", "m", 1e-6)}
    %r = ttnn.rsqrt(input_tensor=%e)
    %n = {binary("multiply", "f", "r")}
    %b = ttnn.typecast(input_tensor=%n, dtype=ttnn.bfloat16)
    %y = {binary("multiply", "w", "b")}
"""


def test_rms_norm_through_float32_gives_every_bit_of_eagers_under_model():
    """The cast back rounds before the weight; so the weight stays outside, and the numbers are equal."""
    after = becomes("fuse_norm", LLAMA_NORM, ["ttnn.rms_norm", "ttnn.multiply"], HALF, "model", tolerance=0)
    assert "typecast" not in str(after)


def test_rms_norm_through_float32_takes_its_weight_under_bfloat16():
    becomes("fuse_norm", LLAMA_NORM, ["ttnn.rms_norm"], HALF, tolerance=2e-2)


def test_a_norm_that_stays_in_float32_keeps_its_cast():
    text = LLAMA_NORM.replace(
        "%b = ttnn.typecast(input_tensor=%n, dtype=ttnn.bfloat16)", "%b = ttnn.relu(input_tensor=%n)"
    )
    becomes("fuse_norm", text, ["ttnn.typecast", "ttnn.rms_norm", "ttnn.relu", "ttnn.multiply"], HALF)


LAYER_NORM = f"""
    input x (2, 32, 64)
    weight w (64,)
    weight b (64,)
    %m = ttnn.mean(input_tensor=%x, dim=(2,), keepdim=True)
    %d = ttnn.subtract(input_tensor_a=%x, input_tensor_b=%m)
    %q = ttnn.square(input_tensor=%d)
    %v = ttnn.mean(input_tensor=%q, dim=(2,), keepdim=True)
    %e = {binary("add", "v", 1e-5)}
    %s = ttnn.sqrt(input_tensor=%e)
    %n = {binary("div", "d", "s")}
    %g = {binary("multiply", "n", "w")}
    %y = {binary("add", "g", "b")}
"""


def test_layer_norm_with_weight_and_bias():
    after = becomes("fuse_norm", LAYER_NORM, ["ttnn.layer_norm"])
    assert "ttnn.layer_norm(input_tensor=%x, epsilon=1e-05, weight=%w, bias=%b)" in str(after)


def test_a_shift_by_another_mean_is_no_layer_norm():
    other = LAYER_NORM.replace("mean(input_tensor=%x, dim=(2,)", "mean(input_tensor=%x, dim=(1,)")
    wanted = ["ttnn.mean", "ttnn.subtract", "ttnn.rms_norm", "ttnn.add"]
    becomes("fuse_norm", other, wanted)


def test_a_shift_by_another_tensors_mean_is_no_layer_norm():
    other = LAYER_NORM.replace("mean(input_tensor=%x", "mean(input_tensor=%z").replace(
        "input x (2, 32, 64)", "input x (2, 32, 64)\n    input z (2, 32, 64)"
    )
    becomes("fuse_norm", other, ["ttnn.mean", "ttnn.subtract", "ttnn.rms_norm", "ttnn.add"])


def test_a_norm_shifted_before_it_is_weighted_keeps_both():
    swapped = LAYER_NORM.replace(
        "%g = ttnn.multiply(input_tensor_a=%n, input_tensor_b=%w)", "%g = " + binary("add", "n", "b")
    )
    swapped = swapped.replace("%y = " + binary("add", "g", "b"), "%y = " + binary("multiply", "g", "w"))
    becomes("fuse_norm", swapped, ["ttnn.layer_norm", "ttnn.multiply"])


# ---- rotary positions --------------------------------------------------------------------------------------------


def rotary(shape=(1, 2, 32, 64), table=None, middle=None, sign="neg", swapped=False):
    b, h, s, d = shape
    cut = d // 2 if middle is None else middle
    low, high = ("l", "n") if swapped else ("n", "l")
    ones = "slice_step=(1, 1, 1, 1)"
    return f"""
    input x {shape}
    input cos {table or (1, 1, s, d)}
    input sin {table or (1, 1, s, d)}
    %a = {binary("multiply", "x", "cos")}
    %l = ttnn.slice(input_tensor=%x, slice_start=(0, 0, 0, 0), slice_end=({b}, {h}, {s}, {cut}), {ones})
    %u = ttnn.slice(input_tensor=%x, slice_start=(0, 0, 0, {cut}), slice_end=({b}, {h}, {s}, {d}), {ones})
    %n = ttnn.{sign}(input_tensor=%u)
    %c = ttnn.concat(tensors=(%{low}, %{high}), dim=3)
    %z = {binary("multiply", "c", "sin")}
    %y = {binary("add", "a", "z")}
    """


ROTARY = "ttnn.experimental.rotary_embedding_hf"


@pytest.mark.parametrize("send", [WIDE, HALF])
@pytest.mark.parametrize("precision", ["model", "bfloat16"])
def test_rotary_embedding_gives_every_bit(send, precision):
    after = becomes("fuse_rotary", rotary(), [ROTARY], send, precision, tolerance=0)
    assert f"{ROTARY}(input_tensor=%x, cos_cache=%cos, sin_cache=%sin)" in str(after)


@pytest.mark.parametrize(
    "text",
    [
        rotary((2, 2, 32, 64)),
        rotary((1, 2, 32, 96)),
        rotary(table=(1, 2, 32, 64)),
        rotary(middle=16).replace("input sin (1, 1, 32, 64)", "input sin (1, 1, 32, 64)"),
        rotary(sign="abs"),
        rotary(swapped=True),
        rotary()
        .replace("slice_step=(1, 1, 1, 1)", "slice_step=(1, 1, 1, 2)")
        .replace("32, 32), slice", "32, 64), slice")
        .replace("(0, 0, 0, 32)", "(0, 0, 0, 1)"),
        rotary().replace("%y = ttnn.add", "%y = ttnn.subtract"),
    ],
    ids=[
        "two batches",
        "a head size of 96",
        "a table a head",
        "cut elsewhere",
        "no sign",
        "the other half",
        "every second number",
        "a difference",
    ],
)
def test_what_is_nearly_a_rotary_embedding_stays(text):
    stays("fuse_rotary", text)


# ---- attention ---------------------------------------------------------------------------------------------------


def attention(mask=None, scale=0.25, on_query=False, dim=3, key="permute", kernel="multiply", given="input"):
    mask_line = f"{given} m {mask}" if mask else ""
    query = f"%qs = {binary('multiply', 'q', scale)}" if on_query else ""
    scores = "p" if on_query or scale is None else "s"
    scaled = (
        ""
        if scores == "p"
        else f"%s = ttnn.{kernel}(input_tensor_a=%p, {'input_tensor_b' if kernel == 'multiply' else 'value'}={scale})"
    )
    total = f"%t = {binary('add', scores, 'm')}" if mask else ""
    text = f"""
    input q (2, 4, 32, 64)
    input k (2, 4, 32, 64)
    input v (2, 4, 32, 64)
    {mask_line}
    {query}
    %kt = ttnn.permute(input_tensor=%k, dims=(0, 1, 3, 2))
    %p = {binary("matmul", "qs" if on_query else "q", "kt")}
    {scaled}
    {total}
    %w = ttnn.softmax(input_tensor=%{"t" if mask else scores}, dim={dim})
    %y = {binary("matmul", "w", "v")}
    """
    return "\n".join(line for line in text.splitlines() if line.strip())


def test_attention_written_out():
    after = comes_nearer("fuse_attention", attention(), [SDPA])
    expect(
        after,
        f"""
        body:
        %q = ttnn.from_torch(tensor=%q_, {HALF})
        %k = ttnn.from_torch(tensor=%k_, {HALF})
        %v = ttnn.from_torch(tensor=%v_, {HALF})
        %y = {SDPA}(input_tensor_q=%q, input_tensor_k=%k, input_tensor_v=%v, is_causal=False, scale=0.25)
        %y_ = ttnn.to_torch(tensor=%y, {FETCH})
        return %y_
        """,
    )


@pytest.mark.parametrize(
    ("text", "scale"),
    [(attention(kernel="div", scale=8.0), 0.125), (attention(on_query=True), 0.25), (attention(scale=None), 1.0)],
    ids=["divided", "on the query", "none"],
)
def test_attention_scaled_anywhere(text, scale):
    assert f"scale={scale}" in str(comes_nearer("fuse_attention", text, [SDPA]))


@pytest.mark.parametrize("shape", ["(2, 1, 32, 32)", "(1, 4, 32, 32)", "(2, 4, 32, 32)"])
def test_attention_with_a_mask(shape):
    after = comes_nearer("fuse_attention", attention(shape), [SDPA])
    assert "attn_mask=%m, is_causal=False" in str(after)


@pytest.mark.parametrize("shape", ["(2, 1, 1, 32)", "(32, 32)", "(1, 32)"])
def test_a_mask_that_is_broadcast_is_grown_to_its_full_size(shape):
    comes_nearer("fuse_attention", attention(shape), ["ttnn.expand", SDPA])


def with_mask(mask, text=None):
    program = source(text or attention("(1, 1, 32, 32)", given="constant"), HALF)
    data = mask.reshape(1, 1, 32, 32).float().numpy().tobytes()
    return replace(program, constants=(Constant("m_", data),))


CAUSAL = torch.full((32, 32), -math.inf).triu(1)


@pytest.mark.parametrize("lowest", [-math.inf, torch.finfo(torch.float32).min, torch.finfo(torch.bfloat16).min])
def test_a_constant_mask_that_is_causal_is_said_to_be(lowest):
    program = with_mask(torch.full((32, 32), lowest).triu(1))
    after = apply("fuse_attention", program)
    assert "is_causal=True" in str(after)
    assert "attn_mask" not in str(after)
    values = inputs_of(program)
    torch.testing.assert_close(run(after, *values), run(program, *values), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "mask",
    [CAUSAL.triu(2), torch.full((32, 32), -math.inf).tril(-1), torch.full((32, 32), -9.0).triu(1), CAUSAL + 0.5],
    ids=["one key ahead", "the future only", "only discouraged", "shifted"],
)
def test_a_constant_mask_that_is_nearly_causal_stays_a_mask(mask):
    after = apply("fuse_attention", with_mask(mask))
    assert "attn_mask=%m, is_causal=False" in str(after)


def test_a_mask_that_hides_every_key_of_a_query_stays_written_out():
    """Written out such a query gives NaN, the kernel 0."""
    hidden = CAUSAL.clone()
    hidden[3] = -math.inf
    assert SDPA not in calls(apply("fuse_attention", with_mask(hidden)))


def test_keys_that_were_moved_in_one_permute_get_their_own():
    text = (
        attention()
        .replace("input k (2, 4, 32, 64)", "input k (2, 32, 4, 64)")
        .replace("dims=(0, 1, 3, 2)", "dims=(0, 2, 3, 1)")
    )
    after = comes_nearer("fuse_attention", text, ["ttnn.permute", SDPA])
    assert "dims=(0, 2, 1, 3)" in str(after)


def test_keys_and_values_repeated_for_groups_of_queries_are_shared():
    repeat = """
    input {0}g (2, 2, 32, 64)
    %{0}a = ttnn.reshape(input_tensor=%{0}g, shape=(2, 2, 1, 32, 64))
    %{0}b = ttnn.expand(input_tensor=%{0}a, output_shape=(2, 2, 2, 32, 64))
    %{0} = ttnn.reshape(input_tensor=%{0}b, shape=(2, 4, 32, 64))"""
    text = attention()
    for name in "kv":
        text = text.replace(f"    input {name} (2, 4, 32, 64)", repeat.format(name))
    after = comes_nearer("fuse_attention", text, [SDPA])
    assert "input_tensor_k=%kg, input_tensor_v=%vg" in str(after)


@pytest.mark.parametrize(
    "text",
    [
        attention(dim=2),
        attention()
        .replace("%w = ttnn.softmax", "%r = ttnn.relu(input_tensor=%s)\n    %w = ttnn.softmax")
        .replace("softmax(input_tensor=%s", "softmax(input_tensor=%r"),
        attention().replace("%y = ", "%wd = ttnn.relu(input_tensor=%w)\n    %y = ").replace("a=%w, ", "a=%wd, "),
        attention().replace(", 64)", ", 48)"),
    ],
    ids=["over queries", "scores changed", "weights changed", "a head size of 48"],
)
def test_what_is_nearly_attention_stays(text):
    stays("fuse_attention", text, HALF)


def test_attention_is_left_alone_in_float32_and_where_eager_rounds():
    stays("fuse_attention", attention(), WIDE)
    stays("fuse_attention", attention(), HALF, "model")


def test_attention_written_as_einsums_is_attention():
    class Einsums(torch.nn.Module):
        def forward(self, q, k, v):
            weights = torch.softmax(torch.einsum("bhlk,bhtk->bhlt", q, k) * 0.25, -1)
            return torch.einsum("bhlt,bhtv->bhlv", weights, v)

    operands = tuple(torch.randn(2, 3, 40, 32) for _ in range(3))
    compiled = proveout.compile(Einsums(), operands, device="sim", settings={"precision": "bfloat16"})
    kernels = [s.kernel for s in compiled.program.body if s.kernel not in ("ttnn.deallocate", "ttnn.from_torch")]
    assert kernels == [SDPA, "ttnn.to_torch"]
    torch.testing.assert_close(compiled(*operands), Einsums()(*operands), rtol=0.05, atol=0.02)


def test_attention_whose_weights_are_asked_for_stays():
    stays("fuse_attention", attention(), HALF, fetch="y w")


# ---- softmax -----------------------------------------------------------------------------------------------------


def softmax(mask="(2, 1, 1, 64)", dim=3, scale=0.5):
    scaled = f"%s = {binary('multiply', 'x', scale)}\n" if scale else ""
    return f"""
    input x (2, 4, 32, 64)
    input m {mask}
    {scaled}
    %t = {binary("add", "s" if scale else "x", "m")}
    %y = ttnn.softmax(input_tensor=%t, dim={dim})
    """


def test_softmax_takes_a_scale_and_one_row_of_mask_a_batch():
    after = becomes("fuse_softmax", softmax(), ["ttnn.scale_mask_softmax"])
    assert "ttnn.scale_mask_softmax(input_tensor=%x, mask=%m, scale=0.5)" in str(after)
    becomes("fuse_softmax", softmax(scale=None), ["ttnn.scale_mask_softmax"])


@pytest.mark.parametrize(
    "text",
    [softmax("(1, 1, 1, 64)"), softmax("(2, 1, 32, 64)"), softmax("(2, 4, 32, 64)"), softmax("(64,)"), softmax(dim=2)],
    ids=["one for all batches", "a row a query", "a row a head", "one dimension", "over rows"],
)
def test_softmax_with_another_mask_stays(text):
    stays("fuse_softmax", text)


def test_softmax_keeps_its_roundings_under_model():
    stays("fuse_softmax", softmax(), HALF, "model")
    becomes("fuse_softmax", softmax(), ["ttnn.scale_mask_softmax"], WIDE, "model")


# ---- products ----------------------------------------------------------------------------------------------------


def product(bias="(64,)", given="weight", weight="(32, 64)"):
    return f"""
    input x (2, 32, 32)
    weight w {weight}
    {given} b {bias}
    %p = {binary("matmul", "x", "w")}
    %y = {binary("add", "b", "p")}
    """


def test_a_row_added_to_a_product_is_its_bias():
    after = becomes("fuse_bias", product(), ["ttnn.linear"])
    assert "ttnn.linear(input_tensor_a=%x, input_tensor_b=%w, bias=%b)" in str(after)
    becomes("fuse_bias", product("(1, 1, 64)"), ["ttnn.linear"])


@pytest.mark.parametrize(
    "text",
    [
        product("(2, 32, 64)"),
        product("(32, 64)"),
        product("(2, 1, 64)"),
        product(given="input"),
        product(weight="(2, 32, 64)"),
    ],
    ids=["a residual", "a row each", "a batch each", "a value of each call", "a stack of weights"],
)
def test_what_is_no_bias_is_added_apart(text):
    stays("fuse_bias", text)


def test_a_bias_keeps_the_products_rounding_under_model():
    stays("fuse_bias", product(), HALF, "model")
    becomes("fuse_bias", product(), ["ttnn.linear"], HALF, tolerance=3e-2)


@pytest.mark.parametrize("act", ["relu", "silu", "sigmoid", "tanh", "gelu"])
@pytest.mark.parametrize("send", [WIDE, HALF])
def test_an_activation_is_the_products_with_every_bit(act, send):
    text = f"""
    input x (32, 32)
    weight w (32, 64)
    weight b (64,)
    %p = ttnn.linear(input_tensor_a=%x, input_tensor_b=%w, bias=%b)
    %y = ttnn.{act}(input_tensor=%p{", variant=ttnn.GeluVariant.Accurate" if act == "gelu" else ""})
    """
    after = becomes("fuse_activation", text, ["ttnn.linear"], send, "model", tolerance=0)
    assert f"activation='{act}'" in str(after)


def test_the_two_gelus_have_two_names():
    text = """
    input x (32, 32)
    weight w (32, 64)
    %p = ttnn.matmul(input_tensor_a=%x, input_tensor_b=%w)
    %y = ttnn.gelu(input_tensor=%p, variant=ttnn.GeluVariant.Tanh)
    """
    assert "activation='gelu_tanh'" in str(becomes("fuse_activation", text, ["ttnn.matmul"], tolerance=0))


@pytest.mark.parametrize(
    "last",
    ["ttnn.relu6(input_tensor=%p)", "ttnn.elu(input_tensor=%p, alpha=0.5)", "ttnn.exp(input_tensor=%p)"],
)
def test_an_activation_that_ttnn_does_not_name_or_approximates_stays(last):
    stays("fuse_activation", f"input x (32, 32)\nweight w (32, 64)\n%p = {binary('matmul', 'x', 'w')}\n%y = {last}")


def test_a_second_activation_stays():
    text = f"""
    input x (32, 32)
    weight w (32, 64)
    %p = {binary("matmul", "x", "w")}
    %r = ttnn.relu(input_tensor=%p)
    %y = ttnn.tanh(input_tensor=%r)
    """
    becomes("fuse_activation", text, ["ttnn.matmul", "ttnn.tanh"])


def lifted(a="(2, 4, 32, 64)", flat="(8, 32, 64)", back="(2, 4, 32, 16)"):
    return f"""
    input a {a}
    input b (2, 4, 64, 16)
    %u = ttnn.reshape(input_tensor=%a, shape={flat})
    %v = ttnn.reshape(input_tensor=%b, shape=(8, 64, 16))
    %p = {binary("matmul", "u", "v")}
    %y = ttnn.reshape(input_tensor=%p, shape={back})
    """


def test_a_product_of_four_dimensions_comes_back_whole():
    after = becomes("lift_matmul", lifted(), ["ttnn.matmul"], WIDE, "model")
    assert "%y = ttnn.matmul(input_tensor_a=%a, input_tensor_b=%b)" in str(after).replace(
        ": f32[2,4,32,16] tile dram", ""
    )


@pytest.mark.parametrize(
    "text",
    [
        lifted(back="(4, 2, 32, 16)"),
        lifted(a="(4, 2, 32, 64)"),
        lifted(back="(2, 4, 16, 32)"),
        lifted(a="(8, 64, 32)"),
        lifted(back="(8, 512)"),
    ],
    ids=["other batches out", "other batches in", "rows and columns mixed", "a real reshape in", "two dimensions out"],
)
def test_a_product_that_was_reshaped_otherwise_stays(text):
    stays("lift_matmul", text)


@pytest.mark.parametrize("side", "ab")
def test_a_transposed_operand_is_read_transposed(side):
    shapes = {"a": "(2, 64, 32)", "b": "(2, 64, 16)"} if side == "a" else {"a": "(2, 32, 64)", "b": "(2, 16, 64)"}
    operands = ("t", "b") if side == "a" else ("a", "t")
    text = f"""
    input a {shapes["a"]}
    input b {shapes["b"]}
    %t = ttnn.permute(input_tensor=%{side}, dims=(0, 2, 1))
    %y = {binary("matmul", *operands)}
    """
    assert f"transpose_{side}=True" in str(becomes("fuse_transpose", text, ["ttnn.matmul"]))


def test_another_permutation_and_a_shared_transpose_stay():
    text = f"""
    input a (32, 2, 64)
    input b (2, 64, 32)
    %t = ttnn.permute(input_tensor=%a, dims=(1, 0, 2))
    %y = {binary("matmul", "t", "b")}
    """
    stays("fuse_transpose", text)
    shared = f"""
    input a (2, 64, 64)
    %t = ttnn.permute(input_tensor=%a, dims=(0, 2, 1))
    %p = {binary("matmul", "a", "t")}
    %y = {binary("add", "p", "t")}
    """
    stays("fuse_transpose", shared)
    becomes(
        "fuse_transpose",
        shared.replace("%y = " + binary("add", "p", "t"), "%y = ttnn.relu(input_tensor=%p)"),
        ["ttnn.matmul", "ttnn.relu"],
    )


def test_a_product_with_a_bias_reads_its_first_operand_as_it_lies():
    """With both, ttnn 0.81.1 gives the result as many rows as the operand has before it is transposed."""
    text = """
    input a (64, 32)
    weight w (64, 96)
    weight c (96,)
    %t = ttnn.permute(input_tensor=%a, dims=(1, 0))
    %y = ttnn.linear(input_tensor_a=%t, input_tensor_b=%w, bias=%c)
    """
    stays("fuse_transpose", text)
    turned = f"""
    input a (64, 32)
    weight w (64, 96)
    weight c (96,)
    %p = ttnn.matmul(input_tensor_a=%a, input_tensor_b=%w, transpose_a=True)
    %y = {binary("add", "p", "c")}
    """
    stays("fuse_bias", turned)


# ---- queries, keys and values ------------------------------------------------------------------------------------

SPLIT = "ttnn.transformer.split_query_key_value_and_split_heads"


def projections(widths=(128, 128, 128), size=32, key=(0, 2, 1, 3), bias=True, weights="weight"):
    text = ["input x (64, 128)"]
    for name, width in zip("qkv", widths):
        dims = key if name == "k" else (0, 2, 1, 3)
        text += [f"{weights} w{name} (128, {width})"] + [f"weight b{name} ({width},)"] * bias
        kernel, more = ("linear", f", bias=%b{name}") if bias else ("matmul", "")
        text += [
            f"%p{name} = ttnn.{kernel}(input_tensor_a=%x, input_tensor_b=%w{name}{more})",
            f"%s{name} = ttnn.reshape(input_tensor=%p{name}, shape=(2, 32, {width // size}, {size}))",
            f"%{name} = ttnn.permute(input_tensor=%s{name}, dims={dims})",
        ]
    return "\n".join(text)


def becomes_heads(text, wanted, **policy):
    program = source(text, HALF, fetch="q k v")
    after = apply("fuse_heads", program, **policy)
    assert calls(after) == wanted
    values = inputs_of(program)
    torch.testing.assert_close(run(after, *values), run(program, *values), rtol=2e-2, atol=2e-2)
    return after


JOINED = ["ttnn.linear", "ttnn.reshape", SPLIT]


def test_queries_keys_and_values_come_from_one_product():
    after = becomes_heads(projections(), JOINED)
    expect(
        after,
        f"""
        setup:
        %wq = ttnn.from_torch(tensor=%wq_, {HALF})
        %bq = ttnn.from_torch(tensor=%bq_, {HALF})
        %wk = ttnn.from_torch(tensor=%wk_, {HALF})
        %bk = ttnn.from_torch(tensor=%bk_, {HALF})
        %wv = ttnn.from_torch(tensor=%wv_, {HALF})
        %bv = ttnn.from_torch(tensor=%bv_, {HALF})
        %pq.joined.input_tensor_b = ttnn.concat(tensors=(%wq, %wk, %wv), dim=1)
        %pq.joined.bias = ttnn.concat(tensors=(%bq, %bk, %bv), dim=0)
        body:
        %x = ttnn.from_torch(tensor=%x_, {HALF})
        %pq.joined = ttnn.linear(input_tensor_a=%x, input_tensor_b=%pq.joined.input_tensor_b, bias=%pq.joined.bias)
        %pq.joined.rows = ttnn.reshape(input_tensor=%pq.joined, shape=(2, 32, 384))
        %q, %k, %v = {SPLIT}(input_tensor=%pq.joined.rows, num_heads=4, transpose_key=False)
        %q_ = ttnn.to_torch(tensor=%q, {FETCH})
        %k_ = ttnn.to_torch(tensor=%k, {FETCH})
        %v_ = ttnn.to_torch(tensor=%v, {FETCH})
        return %q_, %k_, %v_
        """,
    )


def test_a_transposed_key_is_transposed_by_the_kernel():
    assert "transpose_key=True" in str(becomes_heads(projections(key=(0, 2, 3, 1)), JOINED))


def test_fewer_heads_of_keys_than_of_queries():
    after = becomes_heads(projections((128, 64, 64), bias=False), ["ttnn.matmul", *JOINED[1:]])
    assert "num_heads=4, transpose_key=False, num_kv_heads=2" in str(after)


@pytest.mark.parametrize(
    "text",
    [
        projections(size=16),
        projections((128, 128, 64)),
        projections(weights="input"),
        projections(key=(0, 3, 1, 2)),
        projections().replace(
            "%pk = ttnn.linear(input_tensor_a=%x,",
            "%r = ttnn.relu(input_tensor=%x)\n%pk = ttnn.linear(input_tensor_a=%r,",
        ),
    ],
    ids=["heads of 16", "other values than keys", "weights of each call", "another permutation", "another input"],
)
def test_what_is_nearly_queries_keys_and_values_stays(text):
    program = source(text, HALF, fetch="q k v")
    assert SPLIT not in calls(apply("fuse_heads", program))


def slices(order=(0, 1, 2), size=32):
    text = ["input x (2, 32, 384)"]
    for name, i in zip("qkv", order):
        bounds = f"slice_start=(0, 0, {128 * i}), slice_end=(2, 32, {128 * (i + 1)}), slice_step=(1, 1, 1)"
        text += [
            f"%p{name} = ttnn.slice(input_tensor=%x, {bounds})",
            f"%s{name} = ttnn.reshape(input_tensor=%p{name}, shape=(2, 32, {128 // size}, {size}))",
            f"%{name} = ttnn.permute(input_tensor=%s{name}, dims=(0, 2, 1, 3))",
        ]
    return "\n".join(text)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_heads_cut_from_one_product_in_any_order(order):
    becomes_heads(slices(order), [SPLIT])


@pytest.mark.parametrize(
    "text",
    [slices((0, 1, 1)), slices(size=64).replace("shape=(2, 32, 2, 64)", "shape=(2, 32, 4, 32)", 1), slices(size=16)],
    ids=["one part twice", "heads of two sizes", "heads of 16"],
)
def test_other_parts_of_one_product_stay(text):
    program = source(text, HALF, fetch="q k v")
    assert SPLIT not in calls(apply("fuse_heads", program))


def test_products_are_joined_with_slices_only_where_that_is_faster():
    """Two small products cost less than one and two slices; without a model of time both are joined."""
    text = "input x (64, 128)\nweight a (128, 64)\nweight b (128, 64)\n"
    text += f"%p = {binary('matmul', 'x', 'a')}\n%q = {binary('matmul', 'x', 'b')}\n%y = {binary('multiply', 'p', 'q')}"
    stays("fuse_products", text)
    becomes("fuse_products", text, ["ttnn.matmul", "ttnn.slice", "ttnn.slice", "ttnn.multiply"], chip=None)


# ---- whole models ------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Llama's parts in few lines: RMS norm, rotary positions, attention written out, a gated feed-forward."""

    def __init__(self, width=128, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.Parameter(1 + 0.1 * torch.randn(width))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(width, 256), nn.Linear(width, 256), nn.Linear(256, width)
        angle = torch.outer(torch.arange(32.0), 100.0 ** -(torch.arange(32) / 32)).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("mask", torch.full((32, 32), torch.finfo(torch.float32).min).triu(1))

    def normed(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.norm * wide.to(x.dtype)

    def rotated(self, x):
        low, high = x.chunk(2, -1)
        cos, sin = (t[None, None].to(x.dtype) for t in (self.cos, self.sin))
        return x * cos + torch.cat((-high, low), -1) * sin

    def forward(self, x):
        y = self.normed(x)
        q, k, v = (p(y).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = self.rotated(q) @ self.rotated(k).transpose(-1, -2) * q.shape[-1] ** -0.5
        weights = torch.softmax(scores + self.mask.to(x.dtype), -1)
        x = x + self.o((weights @ v).transpose(1, 2).reshape(x.shape))
        y = self.normed(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


def compiled_block(precision, dtype=torch.float32):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Block().eval().to(dtype), torch.randn(1, 32, 128).to(dtype)
    compiled = proveout.compile(model, (x,), settings={"precision": precision, "verify": True})
    with torch.no_grad():
        return compiled, compiled(x), model(x)


@pytest.mark.slow
def test_a_block_of_llama_is_a_few_kernels():
    compiled, found, wanted = compiled_block("bfloat16")
    kernels = calls(compiled.program)
    for kernel, times in (
        (SDPA, 1),
        ("ttnn.rms_norm", 2),
        (ROTARY, 2),
        (SPLIT, 1),
        ("ttnn.softmax", 0),
        ("ttnn.pow", 0),
    ):
        assert kernels.count(kernel) == times, kernel
    assert torch.corrcoef(torch.stack((found.flatten(), wanted.flatten())))[0, 1] > 0.999


@pytest.mark.slow
def test_what_was_fused_says_into_what_and_by_which_pass():
    compiled, _, _ = compiled_block("bfloat16")
    gone = {op.aten: op.reason for op in compiled.coverage.ops if op.state == "removed"}
    assert gone["aten._softmax.default"] == f"fused into {SDPA} by fuse attention"
    assert gone["aten.rsqrt.default"] == "fused into ttnn.rms_norm by fuse norm"
    assert gone["aten.neg.default"] == f"fused into {ROTARY} by fuse rotary"
    assert len(compiled.coverage.ops) == compiled.coverage.before
    assert not compiled.coverage.on_host


@pytest.mark.slow
def test_a_bfloat16_block_under_model_rounds_where_eager_rounds():
    """Only fusions that round as eager does: attention stays written out, norms keep their weight outside."""
    compiled, found, wanted = compiled_block("model", torch.bfloat16)
    kernels = calls(compiled.program)
    assert SDPA not in kernels
    assert "ttnn.rms_norm" in kernels
    assert (found == wanted).float().mean() > 0.99


@pytest.mark.slow
def test_a_float32_block_under_model_computes_what_eager_computes():
    _, found, wanted = compiled_block("model")
    torch.testing.assert_close(found, wanted)


@pytest.mark.slow
def test_an_exported_block_reproduces_its_outputs(tmp_path, capsys):
    compiled, _, _ = compiled_block("bfloat16")
    (folder,) = save_calls(compiled, (torch.randn(1, 32, 128),), {}, tmp_path)
    runpy.run_path(str(write_script(folder)), run_name="__main__")
    assert "as compiled" in capsys.readouterr().out


def test_products_of_products_are_no_gelu_and_end_soon():
    """A chain of squares doubles its degree at each Step: expanding it must stop."""
    squares = "".join(f"%s{i + 1} = {binary('multiply', f's{i}', f's{i}')}\n" for i in range(60))
    text = f"input s0 (32, 32)\n{squares}%t = ttnn.tanh(input_tensor=%s60)\n%o = {binary('add', 't', 1.0)}\n"
    stays("fuse_gelu", text + f"%y = {binary('multiply', 's60', 'o')}")

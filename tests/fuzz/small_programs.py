"""Random small functions of tensors, as source text: views, aliases, dtype views, writes in place, complex numbers,
integers, dictionaries. The function so far is run in eager whenever a line is added, so each function runs."""

from __future__ import annotations

import functools
import random
import warnings
from typing import Any

import torch

VALUES = {
    "float": (
        "{f} * 2 + 1", "{f} + {f}", "{f} * {f}", "{f} - 0.5", "torch.relu({f})", "torch.tanh({f})", "{f}.abs()",
        "{f} @ {f}.mT", "{f}.sum(-1)", "{f}.mean(0)", "{f}.amax(-1, keepdim=True)", "{f}.cumsum(0)",
        "{f}.softmax(-1)", "{f}.to(torch.float64)", "{f}.half().float()", "torch.where({b}, {f}, {f})",
        "{f}.masked_fill({b}, 0.25)", "torch.complex({f}, {f})", "torch.fft.rfft({f})", "{f}.view(torch.int32)",
        "{f} > 0", "{f}.to(torch.int64)", "{f}.round()", "{f}.clamp(-1, 1)", "{f}.sort(-1)[0]", "{f}.argmax(-1)",
        "{f} / 3", "{f}.square()", "{f}.neg()", "torch.full_like({f}, 0.5)", "torch.zeros_like({f})",
        "torch.view_as_complex({f}.unflatten(-1, (-1, 2)))", "{f}.view(torch.int16)", "{f}.bfloat16()",
        "{f} * {f}.shape[0]",
        "{f}.addmm({f}, {f})", "{f}.gather(0, {i})", "{f}.index_select(0, {i}.flatten().clamp(0, 1))", "{f}.topk(2)[1]",
        "{f}.scatter(0, {i}.clamp(0, 1), 0.5)", "{f}.index_put(({i}.flatten().clamp(0, 1),), {f}.mean())",
        "{f}.std(-1)",
        "torch.nn.functional.pad({f}, (1, 0))", "torch.nn.functional.layer_norm({f}, {f}.shape[-1:])",
    ),
    "complex": (
        "{c}.real", "{c}.imag", "{c}.conj()", "{c}.abs()", "{c} * {c}.conj()", "torch.view_as_real({c})", "{c} * 2j",
        "{c} + {f}", "{c}.conj().imag", "{c}.resolve_conj()", "{c}.sum(-1)", "{c}.mT", "-{c}.imag",
        "torch.fft.ifft({c})", "{c}.conj().mT @ {c}", "torch.polar({f}.abs(), {f})", "{c}.angle() * 0",
        "{c}.view(torch.float32)",
    ),
    "int": (
        "{i} + 1", "{i} * {i}", "{i} // 3", "{i} % 3", "{i}.float()", "{i} == 0", "{i}.sum()", "{i} & 7", "{i} << 1",
        "{i}.to(torch.int32)", "{i}.to(torch.uint8)", "{i}.clamp(0, 2)", "-{i}", "{i}.abs()", "{i} > 1",
        "{i}.view(torch.int32)", "{i} ^ 3", "{i} >> 1", "{i}.cumsum(0)", "{i}.to(torch.int8)", "{i}.argsort(-1)",
        "{i}.amax(-1)", "torch.bincount({i}.flatten().clamp(0, 3), minlength=4)", "torch.arange({i}.shape[0])",
    ),
    "bool": ("~{b}", "{b} & {b}", "{b}.float()", "{b}.any()", "{b}.sum()", "{b}.view(torch.uint8)", "{b}.long()",
        "{b} ^ {b}", "{b}.all(-1)"),
    "any": (
        "{x}[1:]", "{x}[..., ::2]", "{x}.view(-1)", "{x}.reshape(-1)", "{x}.t()", "{x}.unsqueeze(0)", "{x}.squeeze()",
        "{x}.flatten()", "{x}.expand(2, *{x}.shape)", "{x}.transpose(0, -1)", "{x}[0]", "{x}.clone()", "{x}.detach()",
        "{x}.unfold(0, 2, 1)", "{x}.unbind(0)[-1]", "{x}.movedim(0, -1)", "{x}.select(-1, 1)",
        "{x}.unflatten(-1, (2, -1))",
        "{x}.flip(0)", "{x}.roll(1, 0)", "torch.cat([{x}, {x}])", "torch.stack([{x}, {x}], -1)", "{x}.diagonal()",
        "{x}.chunk(2)[-1]", "{x}.contiguous()", "{x}.repeat(2, 1)", "{x}.narrow(0, 0, 1)", "{x}.permute(1, 0)",
    ),
}  # fmt: skip
WRITES = (
    "{f}.add_(1)", "{f}.mul_({f})", "{f}[0] = 0", "{f}[..., 0].fill_(2)", "{f}.copy_({f})", "{i}.add_(3)",
    "{f}.zero_()",
    "{f}[{b}] = 1", "{f}.relu_()", "{c}.mul_(2)", "{i}[0] = 5", "{f}.t_()", "{f}.masked_fill_({b}, 3)",
    "{c}.real.add_(1)", "{f}.diagonal().zero_()", "{b}.logical_not_()",
        "{f}.index_fill_(0, {i}.flatten().clamp(0, 1), 2)",
    "{f}.unsqueeze_(0)", "{i}.bitwise_xor_(3)", "{c}.imag[0] = 2", "{f}.view(torch.int32)[0].zero_()", "{f}.copy_({i})",
)  # fmt: skip
ROUNDS = (
    "@", "sum(", "mean(", "std(", "softmax(", "tanh(", "fft(", "addmm(", "layer_norm(", "polar(", "angle(", "/ 3",
        "conj(",
)  # fmt: skip
"""What may be rounded otherwise, in another order or by another formula."""
BITS = ("view(torch.int32)", "view(torch.int16)")
SHAPES = ((4, 6), (4, 6), (6,), (2, 4, 6), (1, 6))


def kind_of(value: torch.Tensor) -> str:
    if value.dtype == torch.bool:
        return "b"
    return "c" if value.is_complex() else "f" if value.is_floating_point() else "i"


def arguments(seed: int, first: int | None = None) -> list[Any]:
    """A function's arguments; `first` is another size for their first dimensions. Some are views, some look at one and
    the same memory, and the last may be a dictionary."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    given: list[Any] = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        shape = rng.choice(SHAPES)
        shape = shape if first is None or shape[0] != 4 else (first, *shape[1:])
        kind = rng.random()
        if kind < 0.25:
            given.append(torch.randint(0, 5, shape, generator=generator))
        elif kind < 0.32:
            given.append(torch.randn(shape[::-1], generator=generator).permute(*reversed(range(len(shape)))))
        elif kind < 0.37:
            given.append(torch.randn(shape, generator=generator, dtype=torch.complex64))
        elif kind < 0.42 and given and isinstance(given[0], torch.Tensor):
            given.append(rng.choice((given[0], given[0][:1], given[0].detach())))
        else:
            given.append(torch.randn(shape, generator=generator))
    if rng.random() < 0.15:
        given[-1] = {"x": given[-1], "y": torch.randn(4, 6, generator=generator)[: first or 4], "n": 2}
    return given


@functools.lru_cache(maxsize=256)
def source(seed: int, length: int = 7) -> str:
    """The text of `def f(a0, a1, …)`."""
    rng = random.Random(seed + 1)
    given = arguments(seed)
    inputs = [f"a{i}" for i in range(len(given))]
    names = [n for i, v in zip(inputs, given) for n in ([f"{i}['x']", f"{i}['y']"] if isinstance(v, dict) else [i])]
    lines: list[str] = []
    values = _run(lines, seed, names)
    assert values is not None
    tries = 0
    while len(lines) < length and tries < 200:
        tries += 1
        writes = rng.random() < 0.15
        text = rng.choice(WRITES if writes else VALUES[rng.choice(tuple(VALUES))])
        line = _filled(text, values, rng)
        if line is None:
            continue
        name = f"v{len(lines)}"
        longer = [*lines, line if writes else f"{name} = {line}"]
        made = None if _mixes(longer) else _run(longer, seed, names if writes else [*names, name])
        if made is not None:  # otherwise this line does not fit these values: another one will
            values = made
            lines = longer
            names += [] if writes else [name]
    made_here = [n for n in names if n.startswith("v")] or names
    some = rng.sample(made_here, min(len(made_here), rng.choice((1, 2, 3)))) + rng.sample(names, rng.choice((0, 0, 1)))
    result = rng.choice(("{0}", "({0},)", "[{0}]", "{{'out': ({0},), 'n': 3}}")).format(", ".join(some))
    body = "\n".join(f"    {line}" for line in (*lines, f"return {result}"))
    return f"def f({', '.join(inputs)}):\n{body}\n"


def _run(lines: list[str], seed: int, names: list[str]) -> dict[str, torch.Tensor] | None:
    """What the names hold after these lines in eager, from arguments of their own; None where a line cannot be run or
    gives something that is no small, tame tensor."""
    scope: dict[str, Any] = {"torch": torch, **{f"a{i}": v for i, v in enumerate(arguments(seed))}}
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            exec("\n".join(lines), scope)
            values = {name: eval(name, scope) for name in names}
    except Exception:
        return None
    tame = all(isinstance(v, torch.Tensor) and v.numel() < 500 and _is_tame(v) for v in values.values())
    return values if tame else None


def _mixes(lines: list[str]) -> bool:
    """Whether a function rounds and also looks at a number's bits: then the last of them may differ."""
    text = "\n".join(lines)
    return any(word in text for word in BITS) and any(word in text for word in ROUNDS)


def _filled(text: str, values: dict[str, torch.Tensor], rng: random.Random) -> str | None:
    out = text
    for kind in "fcibx":
        while f"{{{kind}}}" in out:
            fitting = [n for n, v in values.items() if kind in ("x", kind_of(v))]
            if not fitting:
                return None
            # The newest values are the likeliest: chains rather than stars.
            out = out.replace(f"{{{kind}}}", rng.choice(fitting[-3:] if rng.random() < 0.7 else fitting), 1)
    return out


def function(seed: int) -> Any:
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(source(seed), f"<seed {seed}>", "exec"), scope)
    return scope["f"]


def _is_tame(value: torch.Tensor) -> bool:
    """No infinity, no NaN, nothing that another order of additions would change a lot."""
    if not (value.is_floating_point() or value.is_complex()):
        return True
    return bool((value.to(torch.complex128).abs() < 1e4).all())

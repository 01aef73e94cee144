"""Random small functions of tensors, as source text: views, aliases, dtype views, writes in place, complex numbers,
integers, dictionaries. Every line is tried in eager while the text is made, so each function runs."""

from __future__ import annotations

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
    ),
    "complex": (
        "{c}.real", "{c}.imag", "{c}.conj()", "{c}.abs()", "{c} * {c}.conj()", "torch.view_as_real({c})", "{c} * 2j",
        "{c} + {f}", "{c}.conj().imag", "{c}.resolve_conj()", "{c}.sum(-1)", "{c}.mT", "-{c}.imag",
        "torch.fft.ifft({c})",
    ),
    "int": (
        "{i} + 1", "{i} * {i}", "{i} // 3", "{i} % 3", "{i}.float()", "{i} == 0", "{i}.sum()", "{i} & 7", "{i} << 1",
        "{i}.to(torch.int32)", "{i}.to(torch.uint8)", "{i}.clamp(0, 2)", "-{i}", "{i}.abs()", "{i} > 1",
    ),
    "bool": ("~{b}", "{b} & {b}", "{b}.float()", "{b}.any()", "{b}.sum()", "{b}.view(torch.uint8)", "{b}.long()"),
    "any": (
        "{x}[1:]", "{x}[..., ::2]", "{x}.view(-1)", "{x}.reshape(-1)", "{x}.t()", "{x}.unsqueeze(0)", "{x}.squeeze()",
        "{x}.flatten()", "{x}.expand(2, *{x}.shape).contiguous()", "{x}.transpose(0, -1)", "{x}[0]", "{x}.clone()",
        "{x}.detach()",
        "{x}.flip(0)", "{x}.roll(1, 0)", "torch.cat([{x}, {x}])", "torch.stack([{x}, {x}], -1)", "{x}.diagonal()",
        "{x}.chunk(2)[-1]", "{x}.contiguous()", "{x}.repeat(2, 1)", "{x}.narrow(0, 0, 1)", "{x}.permute(1, 0)",
    ),
}  # fmt: skip
WRITES = (
    "{f}.add_(1)", "{f}.mul_({f})", "{f}[0] = 0", "{f}[..., 0].fill_(2)", "{f}.copy_({f})", "{i}.add_(3)",
    "{f}.zero_()",
    "{f}[{b}] = 1", "{f}.relu_()", "{c}.mul_(2)", "{i}[0] = 5", "{f}.t_()", "{f}.masked_fill_({b}, 3)",
)  # fmt: skip
SHAPES = ((4, 6), (4, 6), (6,), (2, 4, 6), (1, 6))


def kind_of(value: torch.Tensor) -> str:
    if value.dtype == torch.bool:
        return "b"
    return "c" if value.is_complex() else "f" if value.is_floating_point() else "i"


def arguments(seed: int, first: int | None = None) -> list[torch.Tensor]:
    """A function's arguments; `first` is another size for their first dimensions."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    given = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        shape = rng.choice(SHAPES)
        shape = shape if first is None or shape[0] != 4 else (first, *shape[1:])
        if rng.random() < 0.25:
            given.append(torch.randint(0, 5, shape, generator=generator))
        else:
            given.append(torch.randn(shape, generator=generator))
    return given


def source(seed: int, length: int = 7) -> str:
    """The text of `def f(a0, a1, …)`."""
    rng = random.Random(seed + 1)
    values: dict[str, torch.Tensor] = {f"a{i}": v for i, v in enumerate(arguments(seed))}
    inputs = list(values)
    lines: list[str] = []
    tries = 0
    while len(lines) < length and tries < 200:
        tries += 1
        writes = rng.random() < 0.15
        text = rng.choice(WRITES if writes else VALUES[rng.choice(tuple(VALUES))])
        line = _filled(text, values, rng)
        if line is None:
            continue
        name = f"v{len(lines)}"
        scope: dict[str, Any] = {"torch": torch, **{n: v.clone() for n, v in values.items()}}
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                exec(line if writes else f"{name} = {line}", scope)
        except Exception:  # this line does not fit these values: another one will
            continue
        if writes:
            lines.append(line)
            continue
        made = scope[name]
        if isinstance(made, torch.Tensor) and made.numel() < 500 and _is_tame(made):
            values[name] = made
            lines.append(f"{name} = {line}")
    left = [n for n in values if n not in inputs] or inputs
    some = rng.sample(left, min(len(left), rng.choice((1, 2, 3)))) + rng.sample(inputs, rng.choice((0, 0, 1)))
    result = rng.choice(("{0}", "({0},)", "[{0}]", "{{'out': ({0},), 'n': 3}}")).format(", ".join(some))
    body = "\n".join(f"    {line}" for line in (*lines, f"return {result}"))
    return f"def f({', '.join(inputs)}):\n{body}\n"


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

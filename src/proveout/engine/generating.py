"""`torch.compile(model, backend="proveout").generate(…)` by compiled calls.

torch looks `generate` up in the model inside, which would then call itself uncompiled, and nothing would say so.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch._dynamo.eval_frame import OptimizedModule, innermost_backend

log = logging.getLogger(__name__)

GROWS = (
    "generate keeps keys and values in a cache that grows, and each length is compiled anew."
    " Give it cache_implementation='static', so that two graphs serve all tokens."
)


def compile_generate(is_ours: Callable[[Any], bool]) -> None:
    """Let what torch.compile returns generate with its own compiled calls, where the backend `is_ours`."""

    def generate(compiled: OptimizedModule) -> Callable[..., Any]:
        used = innermost_backend(compiled.dynamo_ctx.callback)
        if not is_ours(getattr(used, "compiler_fn", used)):
            raise AttributeError("generate")  # torch then looks in the model inside
        inside: Callable[..., Any] = compiled._orig_mod.generate
        return functools.wraps(inside)(functools.partial(_generated, compiled, inside))

    OptimizedModule.generate = property(generate)  # type: ignore[attr-defined]


def _generated(compiled: OptimizedModule, inside: Callable[..., Any], *args: Any, **options: Any) -> Any:
    model: Any = compiled._orig_mod
    if hasattr(model, "generation_config"):  # transformers, which on a GPU would compile for Inductor itself
        options.setdefault("disable_compile", True)
        configs = (options.get("generation_config"), model.generation_config)
        kept = [options.get("past_key_values"), options.get("cache_implementation")]
        if not any([*kept, *(getattr(config, "cache_implementation", None) for config in configs)]):
            log.warning(GROWS)
    with _called_compiled(model, compiled.dynamo_ctx(model._call_impl)):
        return inside(*args, **options)


@contextlib.contextmanager
def _called_compiled(model: nn.Module, call: Callable[..., Any]) -> Iterator[None]:
    """While open, whoever calls the model calls the compiled one: torch's own place for that."""
    before = model._compiled_call_impl
    model._compiled_call_impl = call
    try:
        yield
    finally:
        model._compiled_call_impl = before

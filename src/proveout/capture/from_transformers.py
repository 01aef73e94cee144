"""Builds a model that transformers knows by name and calls it once: what `proveout run --model bert` runs.

The first argument is an architecture (`bert`), a class (`BertForMaskedLM`), both with random weights, or the hub id
of a cached checkpoint. Then settings of the config may follow (`num_hidden_layers=2`), `batch_size`, `max_seq_length`.
"""

from __future__ import annotations

import difflib
import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers

from proveout.errors import UsageError

SIZES = {"batch_size": 1, "max_seq_length": 128}
AUDIO_SAMPLES = 25600


def main(name: str, *pairs: str) -> None:
    options = {key: _value(text) for key, _, text in (pair.partition("=") for pair in pairs)}
    sizes = SIZES | {key: options.pop(key) for key in SIZES if key in options}
    torch.manual_seed(0)
    model = build(name, options).eval()
    with torch.no_grad():
        model(**inputs_of(model, **sizes))


def build(name: str, settings: dict[str, Any]) -> Any:
    """The model; a name that means nothing is refused with the nearest ones, a model too large with its size."""
    if name in transformers.CONFIG_MAPPING:
        config = transformers.AutoConfig.for_model(name, **settings)
        return _checked(name, lambda: transformers.AutoModel.from_config(config))
    kind: Any = getattr(transformers, name, None) if name.isidentifier() else None
    if getattr(kind, "config_class", None):
        return _checked(name, lambda: kind(kind.config_class(**settings)))
    try:
        config = transformers.AutoConfig.from_pretrained(name, local_files_only=True, **settings)
        architecture = getattr(transformers, (config.architectures or ["AutoModel"])[0])
        return architecture.from_pretrained(name, config=config, local_files_only=True)
    except (OSError, ValueError, AttributeError):
        near = difflib.get_close_matches(name, list(transformers.CONFIG_MAPPING), n=3)
        hint = f" Similar names: {', '.join(near)}." if near else ""
        raise UsageError(
            f"{name!r} is not a script in the corpora, an architecture of transformers {transformers.__version__} or a "
            f"checkpoint cached on this machine.{hint} List scripts: proveout models list"
        ) from None


def _checked(name: str, make: Callable[[], Any]) -> Any:
    """Build a model that has room here twice: compiling it needs copies of its weights."""
    with torch.device("meta"):
        size = sum(p.numel() * p.element_size() for p in make().parameters())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 2 * size > memory:
        raise UsageError(
            f"{name} at its published size has {size / 1e9:.0f} GB of parameters, and this machine"
            f" {memory / 1e9:.0f} GB of memory. Make it smaller: --script-args num_hidden_layers=2"
        )
    return make()


def inputs_of(model: Any, batch_size: int, max_seq_length: int) -> dict[str, torch.Tensor]:
    """Inputs of the sizes that the config speaks of, for what the model's forward needs."""
    config, text = model.config, model.config.get_text_config()
    vision = getattr(config, "vision_config", config)
    accepted = inspect.signature(model.forward).parameters
    positions = getattr(text, "max_position_embeddings", None) or 0
    length = min(max_seq_length, positions) if positions > 0 else max_seq_length
    inputs = {model.main_input_name: _input(model.main_input_name, config, text, vision, batch_size, length)}
    if vision is not config and {"pixel_values", "input_ids"} <= accepted.keys():
        for name in ("input_ids", "pixel_values"):
            inputs[name] = _input(name, config, text, vision, batch_size, length)
    if config.is_encoder_decoder and "decoder_input_ids" in accepted:
        inputs["decoder_input_ids"] = _input("input_ids", config, text, vision, batch_size, length)
    return inputs


def _input(name: str, config: Any, text: Any, vision: Any, batch: int, length: int) -> torch.Tensor:
    if name == "pixel_values":
        size = getattr(vision, "image_size", None) or 224
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return torch.randn(batch, getattr(vision, "num_channels", 3), height, width)
    if name == "input_values":
        bins = getattr(config, "num_mel_bins", None)
        return torch.randn(batch, config.max_length, bins) if bins else torch.randn(batch, AUDIO_SAMPLES)
    if name == "input_features":
        if hasattr(config, "input_feat_per_channel"):
            return torch.randn(batch, length, config.input_feat_per_channel * config.input_channels)
        frames = 2 * config.max_source_positions if hasattr(config, "max_source_positions") else length
        return torch.randn(batch, config.num_mel_bins, frames)
    return torch.randint(0, text.vocab_size, (batch, length))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Builds a checkpoint of the table: at its published sizes or small, with random weights or its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from proveout.parser import Arguments, smaller

import torch
import transformers
from _checkpoints import CHECKPOINTS
from torch import Tensor, nn
from transformers import PretrainedConfig

Inputs = dict[str, Any]


def build(hub_id: str, args: Arguments) -> tuple[nn.Module, Inputs]:
    """The model and inputs for it. `--weights pretrained` downloads it; a folder is loaded; `meta` has shapes alone;
    else weights are seeded."""
    checkpoint = CHECKPOINTS[hub_id]
    model_class = getattr(transformers, checkpoint.model)
    torch.manual_seed(0)
    if args.weights in ("random", "meta"):
        config = _config(model_class.config_class, checkpoint.sizes, args.small)
        model = model_class(config)
    else:
        model = model_class.from_pretrained(hub_id if args.weights == "pretrained" else _folder(args.weights, hub_id))
        config = model.config
    return model.eval(), INPUTS[type(config).__name__](config, args)


def _folder(weights: str, hub_id: str) -> Path:
    """A folder of many checkpoints holds each under its id; otherwise the folder is the checkpoint."""
    own = Path(weights, hub_id)
    return own if own.is_dir() else Path(weights)


def _config(config_class: type[PretrainedConfig], sizes: dict[str, Any], small: bool) -> PretrainedConfig:
    return config_class(**(small_sizes(config_class.__name__, sizes) if small else sizes))


def small_sizes(architecture: str, sizes: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's sizes under --small: scaled by the rule for all, then what the architecture needs besides."""
    small = _merged(_merged(sizes, smaller(sizes)), SMALL[architecture])
    if "attention_types" in small:  # one kind for each layer, by turns
        kinds = [["global"], ["local"]]
        small["attention_types"] = [[kinds[layer % 2], 1] for layer in range(small["num_layers"])]
    if architecture in ("CLIPConfig", "SiglipConfig"):  # a text's end is the vocabulary's last token
        small["text_config"]["eos_token_id"] = small["text_config"]["vocab_size"] - 1
    return small


def _merged(sizes: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """The second before the first; configs within them are merged too."""
    return sizes | {k: _merged(sizes.get(k, {}), v) if isinstance(v, dict) else v for k, v in others.items()}


_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_GPT = {"n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
_SOUND = {"conv_dim": [32] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
_STAGES = {"embed_dim": 32, "depths": [2, 2], "num_heads": [1, 2]}
_CLIP_TEXT = {"max_position_embeddings": 16, "bos_token_id": 2, "pad_token_id": 1}
_IMAGE = {"image_size": 64}

SMALL: dict[str, dict[str, Any]] = {
    "BertConfig": {},
    "RobertaConfig": {},
    "XLMRobertaConfig": {},
    "MPNetConfig": {},
    "AlbertConfig": {},
    "ElectraConfig": {},
    "DebertaV2Config": {"position_buckets": 16, "max_position_embeddings": 64},
    "DistilBertConfig": {},
    "EsmConfig": {},
    "GPT2Config": _GPT,
    "CodeGenConfig": {**_GPT, "n_ctx": 64, "n_embd": 128, "n_head": 4},  # its heads come in fours
    "GPTNeoConfig": {**_TOKENS, "window_size": 16},
    "GPTNeoXConfig": {},
    "OPTConfig": {"max_position_embeddings": 64},
    "BloomConfig": {},
    "LlamaConfig": _TOKENS,
    "Qwen2Config": _TOKENS,
    "Qwen3Config": _TOKENS,
    "PhiConfig": _TOKENS,
    "T5Config": {},
    "BartConfig": {},
    "MarianConfig": {"pad_token_id": 1, "decoder_start_token_id": 1},
    "M2M100Config": {},
    "ViTConfig": _IMAGE,
    "BeitConfig": _IMAGE,
    "Dinov2Config": {"mlp_ratio": 2, "image_size": 56},
    "SwinConfig": {**_STAGES, "image_size": 56},
    "ResNetConfig": {"embedding_size": 32, "hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 1, 1]},
    "ConvNextConfig": {"hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 2, 1]},
    "MobileNetV2Config": {"depth_multiplier": 0.35},
    "SegformerConfig": {
        "hidden_sizes": [32, 64, 96, 128],
        "depths": [1, 1, 1, 1],
        "num_attention_heads": [1, 2, 3, 4],
        "decoder_hidden_size": 64,
    },
    "YolosConfig": {"image_size": [64, 96], "num_detection_tokens": 10},
    "WhisperConfig": {
        **_TOKENS,
        "num_mel_bins": 20,
        "max_source_positions": 50,
        "max_target_positions": 64,
        "decoder_start_token_id": 1,
    },
    "Wav2Vec2Config": _SOUND,
    "HubertConfig": _SOUND,
    "WavLMConfig": _SOUND,
    "ASTConfig": {"max_length": 64, "num_mel_bins": 32},
    "CLIPConfig": {"text_config": _CLIP_TEXT, "vision_config": _IMAGE},
    "SiglipConfig": {"text_config": _CLIP_TEXT, "vision_config": _IMAGE},
    "BlipConfig": {"text_config": {**_TOKENS, "sep_token_id": 2}, "vision_config": _IMAGE},
}
"""What an architecture needs under --small beside scaled sizes: shorter inputs, and tokens within the vocabulary."""


def _tokens(vocabulary: int, *shape: int) -> Tensor:
    return torch.randint(3, vocabulary, shape)


def _text(config: Any, args: Arguments) -> Inputs:
    ids = _tokens(config.vocab_size, args.batch_size, args.max_seq_length)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _prompt(config: Any, args: Arguments) -> Inputs:
    return {**_text(config, args), "use_cache": False}


def _text_to_text(config: Any, args: Arguments) -> Inputs:
    text = _text(config, args)
    text["input_ids"][:, -1] = config.eos_token_id  # BART classifies by the place of the end
    return {**text, "decoder_input_ids": _tokens(config.vocab_size, *text["input_ids"].shape), "use_cache": False}


def _image(config: Any, args: Arguments) -> Inputs:
    size = config.image_size
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return {"pixel_values": torch.randn(args.batch_size, config.num_channels, height, width)}


def _image_of(full: int, small: int) -> Callable[[Any, Arguments], Inputs]:
    """For networks that take images of any size: the size that the checkpoint's own processing gives."""

    def inputs(config: Any, args: Arguments) -> Inputs:
        size = small if args.small else full
        return {"pixel_values": torch.randn(args.batch_size, config.num_channels, size, size)}

    return inputs


def _sound(config: Any, args: Arguments) -> Inputs:
    return {"input_values": torch.randn(args.batch_size, args.max_audio_seq_length)}


def _spectrogram(config: Any, args: Arguments) -> Inputs:
    return {"input_values": torch.randn(args.batch_size, config.max_length, config.num_mel_bins)}


def _speech_to_text(config: Any, args: Arguments) -> Inputs:
    sound = torch.randn(args.batch_size, config.num_mel_bins, 2 * config.max_source_positions)
    words = _tokens(config.vocab_size, args.batch_size, 16)
    return {"input_features": sound, "decoder_input_ids": words, "use_cache": False}


def _image_and_texts(config: Any, args: Arguments) -> Inputs:
    text = config.text_config
    ids = _tokens(text.vocab_size, 2 * args.batch_size, text.max_position_embeddings)
    ids[:, -1] = text.eos_token_id
    return {"input_ids": ids, **_image(config.vision_config, args)}


def _image_and_caption(config: Any, args: Arguments) -> Inputs:
    size = config.vision_config.image_size
    pixels = torch.randn(args.batch_size, 3, size, size)
    return {"input_ids": _tokens(config.text_config.vocab_size, args.batch_size, 16), "pixel_values": pixels}


INPUTS: dict[str, Callable[[Any, Arguments], Inputs]] = {
    **dict.fromkeys(
        [
            "BertConfig",
            "RobertaConfig",
            "XLMRobertaConfig",
            "MPNetConfig",
            "AlbertConfig",
            "ElectraConfig",
            "DebertaV2Config",
            "DistilBertConfig",
        ],
        _text,
    ),
    "EsmConfig": lambda config, args: {"input_ids": torch.randint(4, 24, (args.batch_size, args.max_seq_length))},
    **dict.fromkeys(
        [
            "GPT2Config",
            "CodeGenConfig",
            "GPTNeoConfig",
            "GPTNeoXConfig",
            "OPTConfig",
            "BloomConfig",
            "LlamaConfig",
            "Qwen2Config",
            "Qwen3Config",
            "PhiConfig",
        ],
        _prompt,
    ),
    **dict.fromkeys(["T5Config", "BartConfig", "MarianConfig", "M2M100Config"], _text_to_text),
    **dict.fromkeys(["ViTConfig", "BeitConfig", "SwinConfig", "YolosConfig"], _image),
    "Dinov2Config": _image_of(224, 56),
    "ResNetConfig": _image_of(224, 64),
    "ConvNextConfig": _image_of(224, 64),
    "MobileNetV2Config": _image_of(224, 224),
    "SegformerConfig": _image_of(512, 64),
    **dict.fromkeys(["Wav2Vec2Config", "HubertConfig", "WavLMConfig"], _sound),
    "ASTConfig": _spectrogram,
    "WhisperConfig": _speech_to_text,
    **dict.fromkeys(["CLIPConfig", "SiglipConfig"], _image_and_texts),
    "BlipConfig": _image_and_caption,
}

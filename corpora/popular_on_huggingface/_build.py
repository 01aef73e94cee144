"""Builds a checkpoint of the table: at its published sizes or small, with random weights or its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from proveout.parser import Arguments

import torch
import transformers
from _checkpoints import CHECKPOINTS
from torch import Tensor, nn
from transformers import PretrainedConfig

Inputs = dict[str, Any]


def build(hub_id: str, args: Arguments) -> tuple[nn.Module, Inputs]:
    """The model and inputs for it. `--weights pretrained` downloads it; a folder is loaded; else weights are seeded."""
    checkpoint = CHECKPOINTS[hub_id]
    model_class = getattr(transformers, checkpoint.model)
    torch.manual_seed(0)
    if args.weights == "random":
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
    if not small:
        return config_class(**sizes)
    smaller = dict(SMALL[config_class.__name__])
    for part in ("text_config", "vision_config"):  # keep what is not a size: the activation, the patch
        if part in smaller:
            smaller[part] = sizes.get(part, {}) | smaller[part]
    return config_class(**sizes | smaller)


_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_VOCABULARY = {"vocab_size": 1000}
_LAYERS = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
_ENCODER = {**_VOCABULARY, **_LAYERS}
_DECODER = {**_ENCODER, **_TOKENS, "num_key_value_heads": 2}
_HEADS_OF_32 = {**_DECODER, "head_dim": 32}
_GPT = {
    **_VOCABULARY,
    "n_embd": 128,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_BART = {
    **_VOCABULARY,
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
_SOUND = {**_LAYERS, "conv_dim": [32] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
_STAGES = {"embed_dim": 32, "depths": [2, 2], "num_heads": [1, 2]}
_CLIP_TEXT = {**_ENCODER, "max_position_embeddings": 16, "bos_token_id": 998, "eos_token_id": 999, "pad_token_id": 1}
_CLIP_IMAGE = {**_LAYERS, "image_size": 64}

SMALL: dict[str, dict[str, Any]] = {
    "BertConfig": _ENCODER,
    "RobertaConfig": _ENCODER,
    "XLMRobertaConfig": _ENCODER,
    "MPNetConfig": _ENCODER,
    "AlbertConfig": {**_ENCODER, "embedding_size": 64},
    "ElectraConfig": {**_ENCODER, "embedding_size": 64},
    "DebertaV2Config": {**_ENCODER, "position_buckets": 16, "max_position_embeddings": 64},
    "DistilBertConfig": {**_VOCABULARY, "dim": 128, "n_layers": 2, "n_heads": 4, "hidden_dim": 256},
    "EsmConfig": _LAYERS,
    "GPT2Config": _GPT,
    "CodeGenConfig": {**_GPT, "n_ctx": 64, "rotary_dim": 16},
    "GPTNeoConfig": {
        **_VOCABULARY,
        **_TOKENS,
        "hidden_size": 128,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 16,
    },
    "GPTNeoXConfig": _ENCODER,
    "OPTConfig": {
        **_VOCABULARY,
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "ffn_dim": 256,
        "num_attention_heads": 4,
        "word_embed_proj_dim": 64,
        "max_position_embeddings": 64,
    },
    "BloomConfig": {**_VOCABULARY, "hidden_size": 128, "n_layer": 2, "n_head": 4},
    "LlamaConfig": _HEADS_OF_32,
    "Qwen2Config": _DECODER,
    "Qwen3Config": _HEADS_OF_32,
    "PhiConfig": {**_ENCODER, **_TOKENS, "num_key_value_heads": 4},
    "T5Config": {
        **_VOCABULARY,
        "d_model": 128,
        "d_kv": 32,
        "d_ff": 256,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "num_heads": 4,
    },
    "BartConfig": _BART,
    "MarianConfig": {**_BART, "decoder_vocab_size": 1000, "pad_token_id": 1, "decoder_start_token_id": 1},
    "M2M100Config": _BART,
    "ViTConfig": {**_LAYERS, "image_size": 64},
    "BeitConfig": {**_LAYERS, "image_size": 64},
    "Dinov2Config": {**_LAYERS, "mlp_ratio": 2, "image_size": 56},
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
    "YolosConfig": {**_LAYERS, "image_size": [64, 96], "num_detection_tokens": 10},
    "WhisperConfig": {
        **_BART,
        **_TOKENS,
        "num_mel_bins": 20,
        "max_source_positions": 50,
        "max_target_positions": 64,
        "decoder_start_token_id": 1,
    },
    "Wav2Vec2Config": _SOUND,
    "HubertConfig": _SOUND,
    "WavLMConfig": _SOUND,
    "ASTConfig": {**_LAYERS, "max_length": 64, "num_mel_bins": 32},
    "CLIPConfig": {"text_config": _CLIP_TEXT, "vision_config": _CLIP_IMAGE, "projection_dim": 64},
    "SiglipConfig": {"text_config": {**_CLIP_TEXT, "projection_size": 128}, "vision_config": _CLIP_IMAGE},
    "BlipConfig": {
        "text_config": {**_ENCODER, **_TOKENS, "sep_token_id": 2, "encoder_hidden_size": 128},
        "vision_config": _CLIP_IMAGE,
        "projection_dim": 64,
    },
}
"""What each architecture's config is under --small: a few narrow layers; what is no size stays as published."""


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

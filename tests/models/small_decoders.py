"""Small decoders of transformers with random weights: what generation is tested with."""

from __future__ import annotations

from typing import Any

import torch
import transformers

SIZES = dict(
    vocab_size=128,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=96,
    max_position_embeddings=128,
)
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES, head_dim=32),
    "mistral": lambda: transformers.MistralConfig(**SIZES, sliding_window=16),
    "phi3": lambda: transformers.Phi3Config(**SIZES, pad_token_id=0),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **SIZES, head_dim=32, sliding_window=16, layer_types=["sliding_attention", "full_attention"]
    ),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=128, n_embd=128, n_layer=2, n_head=4, n_positions=128),
    "falcon": lambda: transformers.FalconConfig(
        vocab_size=128, hidden_size=128, num_hidden_layers=2, num_attention_heads=4
    ),
    "mixtral": lambda: transformers.MixtralConfig(**SIZES, num_local_experts=4, sliding_window=None),
}
MORE = {
    "gemma2": lambda: transformers.Gemma2Config(
        **SIZES, head_dim=32, sliding_window=16, attn_implementation="eager", attn_logit_softcapping=5.0
    ),
    "codegen": lambda: transformers.CodeGenConfig(
        vocab_size=128, n_embd=128, n_layer=2, n_head=4, rotary_dim=8, n_positions=128, n_ctx=128
    ),
    "falcon, alibi": lambda: transformers.FalconConfig(
        vocab_size=128,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        alibi=True,
        multi_query=False,
        parallel_attn=False,
    ),
    "bloom": lambda: transformers.BloomConfig(vocab_size=128, hidden_size=128, n_layer=2, n_head=4),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES),
    "olmoe": lambda: transformers.OlmoeConfig(**SIZES, num_experts=4, num_experts_per_tok=2),
}


def small(name: str, **changed: Any) -> Any:
    """Weights are large enough for the tokens to differ from each other."""
    torch.manual_seed(0)
    config = (CONFIGS | MORE)[name]()
    for key, value in changed.items():
        setattr(config, key, value)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    return model


def without_weights(name: str) -> Any:
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config((CONFIGS | MORE)[name]()).eval()

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
    "gpt_neo": lambda: transformers.GPTNeoConfig(
        vocab_size=128,
        hidden_size=64,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
        max_position_embeddings=128,
    ),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES),
    "stablelm": lambda: transformers.StableLmConfig(**SIZES, partial_rotary_factor=0.25, use_parallel_residual=True),
    "mamba": lambda: transformers.MambaConfig(
        vocab_size=128, hidden_size=64, state_size=16, num_hidden_layers=2, time_step_rank=32, intermediate_size=128
    ),
    "xglm": lambda: transformers.XGLMConfig(
        vocab_size=128, d_model=64, ffn_dim=96, num_layers=2, attention_heads=4, max_position_embeddings=128
    ),
    "opt": lambda: transformers.OPTConfig(
        vocab_size=128,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=96,
        max_position_embeddings=128,
        word_embed_proj_dim=64,
        do_layer_norm_before=False,
    ),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **SIZES, head_dim=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=16
    ),
    "deepseek_v3": lambda: transformers.DeepseekV3Config(
        **SIZES | {"num_key_value_heads": 4},
        moe_intermediate_size=64,
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        first_k_dense_replace=1,
        kv_lora_rank=32,
        q_lora_rank=48,
        qk_rope_head_dim=16,
        v_head_dim=32,
        qk_nope_head_dim=32,
    ),
    "phi3, long": lambda: transformers.Phi3Config(
        **SIZES | {"num_key_value_heads": 4},
        pad_token_id=0,
        original_max_position_embeddings=64,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "short_factor": [1 + i / 10 for i in range(16)],
            "long_factor": [2 + i / 5 for i in range(16)],
            "original_max_position_embeddings": 64,
        },
    ),
    "olmoe": lambda: transformers.OlmoeConfig(**SIZES, num_experts=4, num_experts_per_tok=2),
}


def configured(name: str, changed: dict[str, Any]) -> Any:
    config = (CONFIGS | MORE)[name]()
    for key, value in changed.items():
        setattr(config, key, value)
    return config


def small(name: str, **changed: Any) -> Any:
    """Weights are large enough for the tokens to differ from each other."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(configured(name, changed)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(1.5 if name == "mamba" else 3)
    return model


def without_weights(name: str, **changed: Any) -> Any:
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(configured(name, changed)).eval()

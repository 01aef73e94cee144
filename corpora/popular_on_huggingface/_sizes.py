"""What published configs of each architecture have in common: sizes in, a config's arguments out."""

from typing import Any

Sizes = dict[str, Any]


def layers(hidden: int, num_layers: int, num_heads: int, feed_forward: int) -> Sizes:
    return dict(
        hidden_size=hidden,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        intermediate_size=feed_forward,
    )


LAYERS = layers(768, 12, 12, 3072)
LARGE_LAYERS = layers(1024, 24, 16, 4096)


def bert(
    vocabulary: int,
    hidden: int = 768,
    num_layers: int = 12,
    num_heads: int = 12,
    feed_forward: int = 3072,
    **others: Any,
) -> Sizes:
    return dict(vocab_size=vocabulary, **layers(hidden, num_layers, num_heads, feed_forward), **others)


def distilbert(vocabulary: int, **others: Any) -> Sizes:
    return dict(vocab_size=vocabulary, dim=768, n_layers=6, n_heads=12, hidden_dim=3072, **others)


def roberta(vocabulary: int, *sizes: int, **others: Any) -> Sizes:
    return bert(
        vocabulary, *sizes, **dict(max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5) | others
    )


def albert(*sizes: int, **others: Any) -> Sizes:
    return bert(30000, *sizes, embedding_size=128, **others)


def deberta_v3(*sizes: int, **others: Any) -> Sizes:
    return bert(
        128100,
        *sizes,
        type_vocab_size=0,
        relative_attention=True,
        max_relative_positions=-1,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        position_biased_input=False,
        pos_att_type=["p2c", "c2p"],
        **others,
    )


def esm2(*sizes: int) -> Sizes:
    return bert(
        33,
        *sizes,
        max_position_embeddings=1026,
        position_embedding_type="rotary",
        token_dropout=True,
        emb_layer_norm_before=False,
        layer_norm_eps=1e-5,
        pad_token_id=1,
        mask_token_id=32,
    )


def gpt2(hidden: int, num_layers: int, num_heads: int) -> Sizes:
    return dict(vocab_size=50257, n_positions=1024, n_embd=hidden, n_layer=num_layers, n_head=num_heads)


def codegen(hidden: int, num_layers: int, num_heads: int, rotary_dim: int) -> Sizes:
    sizes = dict(n_embd=hidden, n_layer=num_layers, n_head=num_heads, rotary_dim=rotary_dim)
    return dict(vocab_size=51200, n_positions=2048, n_ctx=2048, **sizes)


def gpt_neo(hidden: int, num_layers: int, num_heads: int) -> Sizes:
    turns = [[["global", "local"], num_layers // 2]]
    return dict(vocab_size=50257, hidden_size=hidden, num_layers=num_layers, num_heads=num_heads, attention_types=turns)


def pythia(*sizes: int) -> Sizes:
    return bert(50304, *sizes, max_position_embeddings=2048, rope_parameters=rotary(10000, partial_rotary_factor=0.25))


def opt(hidden: int, num_layers: int, num_heads: int, feed_forward: int, embedding: int, **others: Any) -> Sizes:
    return dict(
        vocab_size=50272,
        hidden_size=hidden,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        ffn_dim=feed_forward,
        word_embed_proj_dim=embedding,
        max_position_embeddings=2048,
        **others,
    )


def rotary(theta: float, **others: Any) -> Sizes:
    return dict(rope_type="default", rope_theta=float(theta), **others)


def llama(
    vocabulary: int,
    hidden: int,
    num_layers: int,
    num_heads: int,
    feed_forward: int,
    num_key_heads: int,
    theta: float,
    **others: Any,
) -> Sizes:
    sizes = layers(hidden, num_layers, num_heads, feed_forward)
    others = dict(num_key_value_heads=num_key_heads, rms_norm_eps=1e-5, rope_parameters=rotary(theta), **others)
    return dict(vocab_size=vocabulary, head_dim=hidden // num_heads, **sizes, **others)


def qwen2(*sizes: int) -> Sizes:
    return bert(
        151936,
        *sizes,
        num_key_value_heads=2,
        rope_parameters=rotary(1e6),
        tie_word_embeddings=True,
        max_position_embeddings=32768,
    )


def qwen3(*sizes: int) -> Sizes:
    return bert(
        151936,
        *sizes,
        num_key_value_heads=8,
        head_dim=128,
        rope_parameters=rotary(1e6),
        tie_word_embeddings=True,
        max_position_embeddings=40960,
    )


def phi(*sizes: int, rotary: float) -> Sizes:
    positions = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=rotary)
    return bert(51200, *sizes, max_position_embeddings=2048, rope_parameters=positions)


def t5(hidden: int, feed_forward: int, num_layers: int, num_heads: int, **others: Any) -> Sizes:
    depth = dict(num_layers=num_layers, num_decoder_layers=num_layers, num_heads=num_heads)
    return dict(vocab_size=32128, d_model=hidden, d_kv=64, d_ff=feed_forward, **depth, **others)


def flan_t5(*sizes: int) -> Sizes:
    return t5(*sizes, feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def bart(
    vocabulary: int,
    hidden: int = 1024,
    num_encoder_layers: int = 12,
    num_decoder_layers: int = 12,
    num_heads: int = 16,
    feed_forward: int = 4096,
    **others: Any,
) -> Sizes:
    return dict(
        vocab_size=vocabulary,
        d_model=hidden,
        encoder_layers=num_encoder_layers,
        decoder_layers=num_decoder_layers,
        encoder_attention_heads=num_heads,
        decoder_attention_heads=num_heads,
        encoder_ffn_dim=feed_forward,
        decoder_ffn_dim=feed_forward,
        **others,
    )


def marian(vocabulary: int) -> Sizes:
    others = dict(max_position_embeddings=512, scale_embedding=True, activation_function="swish")
    return bart(
        vocabulary, 512, 6, 6, 8, 2048, pad_token_id=vocabulary - 1, decoder_start_token_id=vocabulary - 1, **others
    )


def vit(hidden: int = 768, num_layers: int = 12, num_heads: int = 12, feed_forward: int = 3072, **others: Any) -> Sizes:
    return dict(**layers(hidden, num_layers, num_heads, feed_forward), image_size=224, patch_size=16, **others)


def dinov2(hidden: int, num_layers: int, num_heads: int) -> Sizes:
    sizes = dict(hidden_size=hidden, num_hidden_layers=num_layers, num_attention_heads=num_heads)
    return dict(**sizes, mlp_ratio=4, image_size=518, patch_size=14)


def resnet(widths: list[int], depths: list[int], layer_type: str) -> Sizes:
    return dict(embedding_size=64, hidden_sizes=widths, depths=depths, layer_type=layer_type, num_labels=1000)


def convnext(widths: list[int], depths: list[int]) -> Sizes:
    # Training starts from scales of 1e-6, which would make random blocks vanish; trained ones do not.
    return dict(hidden_sizes=widths, depths=depths, layer_scale_init_value=1.0, num_labels=1000)


def segformer(widths: list[int], depths: list[int], decoder: int) -> Sizes:
    return dict(hidden_sizes=widths, depths=depths, decoder_hidden_size=decoder, num_labels=150)


def yolos(hidden: int, num_layers: int, num_heads: int, feed_forward: int, image: list[int], **others: Any) -> Sizes:
    return dict(**layers(hidden, num_layers, num_heads, feed_forward), image_size=image, num_labels=91, **others)


def whisper(hidden: int, num_layers: int, num_heads: int, feed_forward: int) -> Sizes:
    return bart(51865, hidden, num_layers, num_layers, num_heads, feed_forward, num_mel_bins=80)


def speech(**others: Any) -> Sizes:
    """Seven convolutions, the first with a norm over groups, before twelve layers."""
    return dict(**LAYERS, feat_extract_norm="group", **others)


def speech_large(**others: Any) -> Sizes:
    """A norm after each of the seven convolutions, and before each block."""
    return dict(**LARGE_LAYERS, feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True, **others)


def clip(text: Sizes, vision: Sizes, projection: int) -> Sizes:
    return dict(text_config=text, vision_config=vision, projection_dim=projection)


CLIP_TEXT = bert(49408, 512, 12, 8, 2048, max_position_embeddings=77)
CLIP_TEXT_LARGE = bert(49408, 768, 12, 12, 3072, max_position_embeddings=77)
SIGLIP_TEXT = bert(32000, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=1)
BLIP_TEXT = bert(30524, max_position_embeddings=512)

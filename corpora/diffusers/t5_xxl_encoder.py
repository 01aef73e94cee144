# labels: name::t5_xxl_encoder author::google task::feature-extraction domain::nlp license::apache-2.0
"""The T5 v1.1 XXL encoder of Stable Diffusion 3, FLUX.1 and PixArt, 4.76 B parameters: 256 words.

Sizes of https://huggingface.co/google/t5-v1_1-xxl/blob/main/config.json
Paper: https://arxiv.org/abs/1910.10683
With --small 2 layers, 64 wide, 1,000 words of vocabulary and 32 words of text.
"""

from proveout.parser import parse

import torch
from transformers import T5Config, T5EncoderModel

PUBLISHED = dict(
    d_model=4096,
    d_ff=10240,
    d_kv=64,
    num_layers=24,
    num_heads=64,
    vocab_size=32128,
    feed_forward_proj="gated-gelu",
)
SMALL = dict(d_model=64, d_ff=128, d_kv=16, num_layers=2, num_heads=4, vocab_size=1000)

torch.manual_seed(0)

args = parse(["batch_size"])
words = 32 if args.small else 256
config = T5Config(**PUBLISHED | (SMALL if args.small else {}))

model = T5EncoderModel(config).eval()
input_ids = torch.randint(3, config.vocab_size, (args.batch_size, words))

with torch.no_grad():
    model(input_ids=input_ids)

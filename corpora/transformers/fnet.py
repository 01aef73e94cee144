# labels: name::fnet author::google task::fill-mask domain::nlp license::apache-2.0
"""FNet base: Fourier transforms in place of attention.

Sizes of https://huggingface.co/google/fnet-base; paper https://arxiv.org/abs/2105.03824
"""

from proveout.parser import parse

import torch
from transformers import FNetConfig, FNetForMaskedLM

PUBLISHED = dict(
    vocab_size=32000,
    hidden_size=768,
    num_hidden_layers=12,
    intermediate_size=3072,
    type_vocab_size=4,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    intermediate_size=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = FNetConfig(**PUBLISHED | (SMALL if args.small else {}))
model = FNetForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
}

with torch.no_grad():
    model(**inputs)

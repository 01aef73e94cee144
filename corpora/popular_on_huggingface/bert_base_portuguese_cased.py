# labels: name::neuralmind/bert-base-portuguese-cased author::neuralmind task::fill-mask domain::nlp license::mit
"""BERTimbau base, Portuguese.

https://huggingface.co/neuralmind/bert-base-portuguese-cased; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("neuralmind/bert-base-portuguese-cased", args)

with torch.no_grad():
    model(**inputs)

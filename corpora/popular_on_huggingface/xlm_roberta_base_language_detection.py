# labels: name::papluca/xlm-roberta-base-language-detection author::papluca task::text-classification domain::nlp license::mit
"""XLM-RoBERTa base that tells 20 languages apart.

https://huggingface.co/papluca/xlm-roberta-base-language-detection; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("papluca/xlm-roberta-base-language-detection", args)

with torch.no_grad():
    model(**inputs)

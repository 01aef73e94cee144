# labels: name::xlm-roberta-base-language-detection author::papluca task::text-classification domain::nlp license::mit
"""XLM-RoBERTa base that tells 20 languages apart.

https://huggingface.co/papluca/xlm-roberta-base-language-detection; `--weights pretrained` loads it.
"""

import torch
from _build import build

from proveout.parser import parse

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("papluca/xlm-roberta-base-language-detection", args)

with torch.no_grad():
    model(**inputs)

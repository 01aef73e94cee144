# labels: name::microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract-fulltext author::microsoft task::fill-mask domain::nlp license::mit
"""BERT base for biomedical text.

https://huggingface.co/microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract-fulltext; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract-fulltext", args)

with torch.no_grad():
    model(**inputs)

# labels: name::Bio_ClinicalBERT author::emilyalsentzer task::fill-mask domain::nlp license::mit
"""BERT base for clinical notes.

https://huggingface.co/emilyalsentzer/Bio_ClinicalBERT; `--weights pretrained` loads it.
"""

import torch
from _build import build

from proveout.parser import parse

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("emilyalsentzer/Bio_ClinicalBERT", args)

with torch.no_grad():
    model(**inputs)

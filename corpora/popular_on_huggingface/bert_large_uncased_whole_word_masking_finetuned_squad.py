# labels: name::google-bert/bert-large-uncased-whole-word-masking-finetuned-squad author::google-bert task::question-answering domain::nlp license::apache-2.0
"""BERT large that answers questions, SQuAD.

https://huggingface.co/google-bert/bert-large-uncased-whole-word-masking-finetuned-squad; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("google-bert/bert-large-uncased-whole-word-masking-finetuned-squad", args)

with torch.no_grad():
    model(**inputs)

# labels: name::phiyodr/bert-large-finetuned-squad2 author::phiyodr task::question-answering domain::nlp license::unstated
"""BERT large that answers questions or says that it cannot, SQuAD 2.

https://huggingface.co/phiyodr/bert-large-finetuned-squad2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("phiyodr/bert-large-finetuned-squad2", args)

with torch.no_grad():
    model(**inputs)

"""Asks the hub for a model, as scripts found on the web do."""

import torch
from transformers import AutoModel

model = AutoModel.from_pretrained("prajjwal1/bert-tiny")
model(input_ids=torch.ones(1, 8, dtype=torch.int64))

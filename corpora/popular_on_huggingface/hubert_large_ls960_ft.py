# labels: name::facebook/hubert-large-ls960-ft author::facebook task::automatic-speech-recognition domain::audio license::apache-2.0
"""HuBERT large, English letters.

https://huggingface.co/facebook/hubert-large-ls960-ft; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_audio_seq_length"])
model, inputs = build("facebook/hubert-large-ls960-ft", args)

with torch.no_grad():
    model(**inputs)

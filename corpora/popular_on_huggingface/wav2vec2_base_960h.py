# labels: name::facebook/wav2vec2-base-960h author::facebook task::automatic-speech-recognition domain::audio license::apache-2.0
"""wav2vec 2.0 base, English letters.

https://huggingface.co/facebook/wav2vec2-base-960h; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_audio_seq_length"])
model, inputs = build("facebook/wav2vec2-base-960h", args)

with torch.no_grad():
    model(**inputs)

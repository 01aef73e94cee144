# labels: name::jonatasgrosman/wav2vec2-large-xlsr-53-english author::jonatasgrosman task::automatic-speech-recognition domain::audio license::apache-2.0
"""wav2vec 2.0 large, from 53 languages to English.

https://huggingface.co/jonatasgrosman/wav2vec2-large-xlsr-53-english; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_audio_seq_length"])
model, inputs = build("jonatasgrosman/wav2vec2-large-xlsr-53-english", args)

with torch.no_grad():
    model(**inputs)

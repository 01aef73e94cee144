# labels: name::Snowflake/snowflake-arctic-embed-xs author::Snowflake task::sentence-similarity domain::nlp license::apache-2.0
"""Arctic Embed, extra small.

https://huggingface.co/Snowflake/snowflake-arctic-embed-xs; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("Snowflake/snowflake-arctic-embed-xs", args)

with torch.no_grad():
    model(**inputs)

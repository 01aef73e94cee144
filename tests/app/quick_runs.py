"""Requests that are quick to serve."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from proveout.app import pictures
from proveout.app.tasks import TASKS, Inputs, TaskRequest
from proveout.app.weights import SHIPPED


def quick(task: str, tmp_path, **changes) -> TaskRequest:
    """The smallest run of a task."""
    kind = TASKS[task].kind
    if kind == "classify":
        first = next(iter(pictures.samples(task).values()))
        inputs = Inputs(image=pictures.encoded(pictures.opened(first.read_bytes())))
    elif kind == "generate":
        inputs = Inputs(prompt=TASKS[task].defaults.prompt, length=12, new_tokens=3)
    else:
        inputs = Inputs(context="Ann likes rice.", question="What does Ann like?", length=32)
    given = {"iterations": 1, "warmup": 1, "enough_s": 0.0, "cache_dir": str(tmp_path / "cache"), **changes}
    return TaskRequest(task, given.pop("inputs", inputs), **given)


def experts(folder: Path) -> str:
    """Weights of one's own whose model sorts integers, which no kernel does: a tiny mixture of experts that answers
    questions. (A decoder's experts are all computed for every token, so that one that generates sorts nothing.)"""
    from transformers import AutoConfig, MixtralConfig, MixtralForQuestionAnswering

    own = folder / "answers"
    shutil.copytree(SHIPPED / "answers", own, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    reads = own / "tokenizer_config.json"
    options = json.loads(reads.read_text()) | {"model_input_names": ["input_ids", "attention_mask"]}
    reads.write_text(json.dumps(options))
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_local_experts": 2}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128}
    vocabulary = AutoConfig.from_pretrained(SHIPPED / "answers").vocab_size
    MixtralForQuestionAnswering(MixtralConfig(vocab_size=vocabulary, **sizes, **heads)).save_pretrained(own)
    return str(folder)

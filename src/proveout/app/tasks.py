"""The five tasks as data: what pages show and what a run is asked. No torch here: pages stay quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proveout.types import OF_A_CHIP, Settings

Kind = Literal["answer", "generate", "classify"]
Source = Literal["pretrained", "folder", "small", "random"]
"""Where weights come from; see weights.py."""


@dataclass(frozen=True)
class Inputs:
    """What a user gives a task; each task reads its own fields."""

    context: str = ""
    question: str = ""
    prompt: str = ""
    length: int = 0
    """Tokens that the text is padded or cut to."""
    new_tokens: int = 0
    image: str = ""
    """A PNG of 32 × 32 pixels in base64."""


@dataclass(frozen=True)
class Task:
    """One task of the playground."""

    path: str
    title: str
    does: str
    kind: Kind
    model: str
    """The model at its true size."""
    checkpoint: str = ""
    """Its name on the Hugging Face hub; empty where nobody publishes one."""
    download: str = ""
    """How much that is."""
    caveat: str = ""
    """What to know about the checkpoint."""
    defaults: Inputs = Inputs()


TASKS: dict[str, Task] = {
    task.path: task
    for task in (
        Task(
            "answers",
            "Question answering",
            "BERT marks the words of a passage that answer a question.",
            "answer",
            "BERT-Large (SQuAD 2)",
            "deepset/bert-large-uncased-whole-word-masking-squad2",
            "1.3 GB",
            defaults=Inputs(
                context="The Eiffel Tower is a wrought-iron lattice tower in Paris, France. It is named after the "
                "engineer Gustave Eiffel, whose company designed and built the tower. It was completed in 1889 and is "
                "330 metres tall. About seven million people visit it every year.",
                question="How tall is the Eiffel Tower?",
                length=128,
            ),
        ),
        Task(
            "text",
            "Text generation",
            "GPT-2 continues your text, always choosing the most likely token.",
            "generate",
            "GPT-2 small (124 M)",
            "openai-community/gpt2",
            "550 MB",
            defaults=Inputs(prompt="And the king said unto the people,", length=32, new_tokens=24),
        ),
        Task(
            "code",
            "Code generation",
            "CodeGen continues Python code, always choosing the most likely token.",
            "generate",
            "CodeGen 350 M",
            "Salesforce/codegen-350M-mono",
            "800 MB",
            defaults=Inputs(prompt='def close(self):\n    """Close the file', length=32, new_tokens=24),
        ),
        Task(
            "pictures",
            "Image classification",
            "ResNet-18 classifies a picture of 32 × 32 pixels.",
            "classify",
            "ResNet-18 (32 × 32 × 3)",
            "microsoft/resnet-18",
            "47 MB",
            "trained on ImageNet's large photographs; it recognises little at 32 × 32 pixels",
        ),
        Task(
            "digits",
            "Digits",
            "A small convolutional network reads a digit that you draw.",
            "classify",
            "CNN (32 × 32 × 3)",
        ),
    )
}


@dataclass(frozen=True)
class TaskRequest:
    """One run, as pure JSON: what a page hands to a worker."""

    task: str
    inputs: Inputs
    source: Source = "small"
    device: str = "sim:n150"
    settings: Settings = OF_A_CHIP
    iterations: int = 3
    warmup: int = 1
    enough_s: float = 10.0
    """Seconds that may be added to the iterations of a measured time, until there are enough to judge it."""
    baseline: bool = True
    """Measure the CPU too."""
    weights: str | None = None
    """The folder of `--weights`."""
    cache_dir: str | None = None
    timeout_s: float = 600.0
    memory_gib: float = 0.0
    """0 for nine tenths of the machine."""


STAGES = ("load", "compile", "check", "cpu", "warm-up", "run")
"""In the order that a run goes through them; without the CPU there is no `cpu`."""

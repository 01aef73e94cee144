"""What the training scripts share: one loop, and a folder with weights, their score and where they come from."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

WEIGHTS = Path(__file__).parents[1] / "src/proveout/app/weights"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def train(model: nn.Module, batch_loss: Callable[[int], torch.Tensor], steps: int, peak: float) -> nn.Module:
    """AdamW with a warm-up and a cosine; `batch_loss(step)` gives the loss of a fresh batch."""
    model.to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1, (s + 1) / 200) * (0.01 + 0.99 * (1 + math.cos(math.pi * s / steps)) / 2)
    )
    started = time.monotonic()
    for step in range(steps):
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda"):
            loss = batch_loss(step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % max(1, steps // 10) == 0:
            print(f"step {step} of {steps}: loss {loss.item():.4f}, {time.monotonic() - started:.0f} s", flush=True)
    return model.eval().cpu()


def keep(task: str, model: nn.Module, score: dict[str, object]) -> None:
    """The weights as float16, since a few MB are shipped; the score beside them."""
    folder = WEIGHTS / task
    folder.mkdir(parents=True, exist_ok=True)
    if hasattr(model, "save_pretrained"):
        model.half().save_pretrained(folder, safe_serialization=True)
    else:
        save_file(
            {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()},
            folder / "model.safetensors",
        )
    parameters = sum(p.numel() for p in model.parameters())
    (folder / "score.json").write_text(json.dumps({**score, "parameters": parameters}, indent=2) + "\n")
    print(task, json.dumps(score))

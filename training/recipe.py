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
PACKED = "model.int8.safetensors"
"""Matrices as 8-bit integers, with a scale for each row: half the size of float16."""


def train(
    model: nn.Module, batch_loss: Callable[[int], torch.Tensor], steps: int, peak: float, seconds: float | None = None
) -> nn.Module:
    """AdamW with a warm-up and a cosine; `batch_loss(step)` gives the loss of a fresh batch. With `seconds`, that long
    instead of so many steps."""
    model.to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.01)
    started, step, done = time.monotonic(), 0, 0.0
    told = -1
    while done < 1:
        for group in optimizer.param_groups:
            group["lr"] = peak * min(1, (step + 1) / 200) * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda"):
            loss = batch_loss(step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        elapsed = time.monotonic() - started
        done = elapsed / seconds if seconds else step / steps
        if int(10 * done) != told:
            told = int(10 * done)
            print(f"step {step}: loss {loss.item():.4f}, {elapsed:.0f} s", flush=True)
    return model.eval().cpu()


def keep(task: str, model: nn.Module, score: dict[str, object], folder: Path = WEIGHTS) -> Path:
    """The weights in 8 bits, since few MB are shipped, with their config; the score beside them."""
    place = folder / task
    place.mkdir(parents=True, exist_ok=True)
    if hasattr(model, "config"):
        model.config.save_pretrained(place)
    save_file(packed(model), place / PACKED)
    (place / "model.safetensors").unlink(missing_ok=True)
    parameters = sum(p.numel() for p in model.parameters())
    (place / "score.json").write_text(json.dumps({**score, "parameters": parameters}, indent=2) + "\n")
    print(task, json.dumps(score))
    return place


def packed(model: nn.Module) -> dict[str, torch.Tensor]:
    """A model's own tensors, each once; matrices and kernels as int8 with a float16 scale for each row."""
    tensors: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, value in model.state_dict().items():
        if value.data_ptr() in seen:  # tied to one before
            continue
        seen.add(value.data_ptr())
        if value.ndim < 2 or not value.is_floating_point():
            tensors[name] = value.half().contiguous() if value.is_floating_point() else value.contiguous()
            continue
        rows = value.float().flatten(1)
        scale = (rows.abs().amax(1) / 127).clamp(min=1e-8)
        tensors[name] = (rows / scale[:, None]).round().clamp(-127, 127).to(torch.int8).view(value.shape).contiguous()
        tensors[f"{name}.scale"] = scale.half()
    return tensors

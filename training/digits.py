"""Trains the digits CNN on scikit-learn's handwritten digits, enlarged to 32 x 32, shifted and thickened at random."""

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from recipe import DEVICE, WEIGHTS, keep, train
from sklearn.datasets import load_digits

from proveout.app.digit_net import DigitNet

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(digits.target)
seen, held_back = torch.randperm(len(images)).split([1397, 400])


def enlarged(small: torch.Tensor, size: int = 24) -> torch.Tensor:
    """8 x 8 to 32 x 32 with a margin, three equal channels: what the app makes of a drawing, too."""
    big = F.interpolate(small, size=(size, size), mode="bicubic", align_corners=False).clamp(0, 1)
    margin = 32 - size
    return F.pad(big, (margin // 2, margin - margin // 2) * 2).expand(-1, 3, -1, -1)


def varied(batch: torch.Tensor) -> torch.Tensor:
    """Moved, turned, stretched, brighter or thinner: drawings differ more than the data set does."""
    n = len(batch)
    angle = (torch.rand(n) - 0.5) * 0.5
    scale = 1 / (0.7 + 0.6 * torch.rand(n, 2))
    shift = (torch.rand(n, 2) - 0.5) * 0.4
    cos, sin = angle.cos(), angle.sin()
    theta = torch.stack(
        [torch.stack([cos * scale[:, 0], -sin, shift[:, 0]], 1), torch.stack([sin, cos * scale[:, 1], shift[:, 1]], 1)],
        1,
    )
    moved = F.grid_sample(batch, F.affine_grid(theta, list(batch.shape), align_corners=False), align_corners=False)
    contrast = 0.5 + 2.5 * torch.rand(n, 1, 1, 1)
    return (moved * contrast).clamp(0, 1)


model = DigitNet()
large = enlarged(images).contiguous()


def batch_loss(step: int) -> torch.Tensor:
    batch = seen[torch.randint(len(seen), (128,))]
    return F.cross_entropy(model(varied(large[batch]).to(DEVICE)), labels[batch].to(DEVICE))


train(model, batch_loss, steps=3000, peak=2e-3)
with torch.no_grad():
    right = model(large[held_back]).argmax(1) == labels[held_back]
keep("digits", model, {
    "score": "accuracy on 400 digits that were held back", "value": right.float().mean().item(),
    "data": "scikit-learn's handwritten digits (UCI, CC BY 4.0)",
})  # fmt: skip
samples = WEIGHTS / "digits/samples"
samples.mkdir(parents=True, exist_ok=True)
for digit in range(10):
    chosen = next(n for n in held_back if labels[n] == digit)
    pixels = (large[chosen] * 255).permute(1, 2, 0).numpy().astype(np.uint8)
    Image.fromarray(pixels).save(samples / f"{digit}.png")

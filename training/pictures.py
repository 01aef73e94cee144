"""Trains a narrow ResNet-18 on ten kinds of 32 x 32 pictures that are drawn here, and ships ten of them as samples."""

import json
import math
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFilter
from recipe import DEVICE, WEIGHTS, keep, train
from transformers import ResNetConfig, ResNetForImageClassification

KINDS = ("sun", "moon", "tree", "house", "car", "boat", "flower", "star", "fish", "mountain")
SIZE, SCALE = 32, 4


def colour(low: tuple[int, int, int], high: tuple[int, int, int]) -> tuple[int, int, int]:
    return tuple(random.randint(a, b) for a, b in zip(low, high))  # type: ignore[return-value]


def draw(kind: str) -> Image.Image:
    """One picture, four times as large, then made small: edges are soft as in photographs."""
    side = SIZE * SCALE
    night = kind in ("moon", "star")
    sky = colour((0, 0, 20), (50, 50, 110)) if night else colour((120, 160, 190), (210, 230, 255))
    image = Image.new("RGB", (side, side), sky)
    d = ImageDraw.Draw(image)
    if kind in ("boat", "fish"):
        level = 0 if kind == "fish" else random.randint(side // 2, side * 3 // 4)
        d.rectangle((0, level, side, side), fill=colour((10, 70, 120), (60, 130, 210)))
    elif not night and kind != "sun":
        d.rectangle(
            (0, random.randint(side * 2 // 3, side * 7 // 8), side, side), fill=colour((60, 110, 30), (130, 180, 80))
        )
    x, y = (side / 2 + random.uniform(-1, 1) * side * 0.12 for _ in "xy")
    r = side * random.uniform(0.22, 0.36)
    PAINT[kind](d, x, y, r, sky)
    image = image.rotate(random.uniform(-8, 8), resample=Image.Resampling.BILINEAR, fillcolor=sky)
    if random.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(random.uniform(0, 3)))
    pixels = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BOX), dtype=np.float32)
    pixels += np.random.normal(0, random.uniform(0, 12), pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def sun(d, x, y, r, sky):
    yellow = colour((230, 170, 0), (255, 230, 80))
    for k in range(rays := random.randint(8, 12)):
        a = 2 * math.pi * k / rays
        d.line((x, y, x + 1.6 * r * math.cos(a), y + 1.6 * r * math.sin(a)), fill=yellow, width=int(r * 0.16))
    d.ellipse((x - r * 0.9, y - r * 0.9, x + r * 0.9, y + r * 0.9), fill=yellow)


def moon(d, x, y, r, sky):
    d.ellipse((x - r, y - r, x + r, y + r), fill=colour((220, 220, 200), (255, 255, 240)))
    cut = random.choice((-1, 1)) * r * random.uniform(0.4, 0.8)
    d.ellipse((x - r + cut, y - r, x + r + cut, y + r), fill=sky)


def tree(d, x, y, r, sky):
    green, brown = colour((20, 80, 20), (80, 150, 60)), colour((80, 50, 20), (130, 90, 50))
    d.rectangle((x - r * 0.15, y, x + r * 0.15, y + 1.5 * r), fill=brown)
    if random.random() < 0.5:
        d.ellipse((x - r, y - 1.2 * r, x + r, y + 0.6 * r), fill=green)
    else:
        d.polygon([(x, y - 1.5 * r), (x - r, y + 0.6 * r), (x + r, y + 0.6 * r)], fill=green)


def house(d, x, y, r, sky):
    wall, roof = colour((170, 130, 90), (250, 240, 220)), colour((120, 20, 20), (200, 80, 60))
    d.rectangle((x - r, y - r * 0.2, x + r, y + r * 1.1), fill=wall)
    d.polygon([(x - 1.25 * r, y - r * 0.2), (x, y - 1.2 * r), (x + 1.25 * r, y - r * 0.2)], fill=roof)
    d.rectangle((x - r * 0.2, y + r * 0.4, x + r * 0.2, y + r * 1.1), fill=colour((60, 30, 10), (110, 70, 40)))
    d.rectangle((x + r * 0.45, y + r * 0.1, x + r * 0.8, y + r * 0.45), fill=colour((90, 140, 190), (190, 220, 250)))


def car(d, x, y, r, sky):
    paint = colour((120, 0, 0), (255, 120, 200))
    d.polygon([(x - 0.7 * r, y), (x - 0.4 * r, y - 0.6 * r), (x + 0.4 * r, y - 0.6 * r), (x + 0.8 * r, y)], fill=paint)
    d.rectangle((x - 1.3 * r, y, x + 1.3 * r, y + 0.55 * r), fill=paint)
    for wheel in (-0.75, 0.75):
        cx, cy, w = x + wheel * r, y + 0.6 * r, 0.32 * r
        d.ellipse((cx - w, cy - w, cx + w, cy + w), fill=(25, 25, 25))


def boat(d, x, y, r, sky):
    d.polygon(
        [(x - 1.2 * r, y + 0.4 * r), (x + 1.2 * r, y + 0.4 * r), (x + 0.7 * r, y + r), (x - 0.7 * r, y + r)],
        fill=colour((90, 40, 20), (170, 90, 60)),
    )
    d.line((x, y + 0.4 * r, x, y - 1.2 * r), fill=(60, 40, 30), width=max(2, int(r * 0.1)))
    d.polygon(
        [(x + 3, y - 1.2 * r), (x + 3, y + 0.25 * r), (x + 0.95 * r, y + 0.25 * r)],
        fill=colour((220, 210, 200), (255, 255, 255)),
    )


def flower(d, x, y, r, sky):
    d.line((x, y, x, y + 1.6 * r), fill=(40, 120, 40), width=int(r * 0.15))
    petal = colour((180, 30, 120), (255, 140, 230))
    for k in range(count := random.randint(5, 7)):
        a = 2 * math.pi * k / count
        cx, cy = x + 0.6 * r * math.cos(a), y + 0.6 * r * math.sin(a)
        d.ellipse((cx - 0.4 * r, cy - 0.4 * r, cx + 0.4 * r, cy + 0.4 * r), fill=petal)
    d.ellipse((x - 0.35 * r, y - 0.35 * r, x + 0.35 * r, y + 0.35 * r), fill=(250, 210, 60))


def star(d, x, y, r, sky):
    corners = [(r if k % 2 == 0 else r * 0.42, math.pi * k / 5 - math.pi / 2) for k in range(10)]
    d.polygon(
        [(x + 1.2 * s * math.cos(a), y + 1.2 * s * math.sin(a)) for s, a in corners],
        fill=colour((230, 200, 60), (255, 250, 190)),
    )


def fish(d, x, y, r, sky):
    scales, way = colour((200, 80, 0), (255, 190, 90)), random.choice((-1, 1))
    d.ellipse((x - r, y - 0.55 * r, x + r, y + 0.55 * r), fill=scales)
    d.polygon([(x - way * 0.8 * r, y), (x - way * 1.5 * r, y - 0.5 * r), (x - way * 1.5 * r, y + 0.5 * r)], fill=scales)
    eye = x + way * 0.6 * r
    d.ellipse((eye - r * 0.1, y - r * 0.2, eye + r * 0.1, y), fill=(10, 10, 10))


def mountain(d, x, y, r, sky):
    rock = colour((80, 80, 90), (140, 130, 130))
    for shift, height in ((-0.8, 0.9), (0.7, 1.4)):
        top = (x + shift * r, y - height * r)
        d.polygon([top, (top[0] - 1.4 * r, y + 1.1 * r), (top[0] + 1.4 * r, y + 1.1 * r)], fill=rock)
        d.polygon(
            [top, (top[0] - 0.38 * r, top[1] + 0.6 * r), (top[0] + 0.38 * r, top[1] + 0.6 * r)], fill=(245, 248, 250)
        )


PAINT = dict(zip(KINDS, (sun, moon, tree, house, car, boat, flower, star, fish, mountain)))


def pictures(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    random.seed(seed)
    np.random.seed(seed)
    labels = [k % len(KINDS) for k in range(count)]
    pixels = np.stack([np.asarray(draw(KINDS[label])) for label in labels])
    return torch.tensor(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1, torch.tensor(labels)


torch.manual_seed(0)
images, labels = pictures(20_000, seed=1)
unseen, truth = pictures(2_000, seed=2)
config = ResNetConfig(
    embedding_size=16, hidden_sizes=[16, 32, 64, 128], depths=[2, 2, 2, 2], layer_type="basic",
    num_labels=len(KINDS), id2label=dict(enumerate(KINDS)), label2id={k: i for i, k in enumerate(KINDS)},
)  # fmt: skip
model = ResNetForImageClassification(config)
images, labels = images.to(DEVICE), labels.to(DEVICE)


def batch_loss(step: int) -> torch.Tensor:
    batch = torch.randint(len(images), (256,), device=DEVICE)
    flipped = images[batch].flip(-1) if step % 2 else images[batch]
    return F.cross_entropy(model(flipped).logits, labels[batch])


train(model, batch_loss, steps=2500, peak=2e-3)
with torch.no_grad():
    right = torch.cat([model(part).logits.argmax(1) for part in unseen.split(200)]) == truth
keep("pictures", model, {
    "score": "accuracy on 2,000 pictures that were held back", "value": right.float().mean().item(),
    "data": "pictures drawn by training/pictures.py",
})  # fmt: skip
samples = Path(WEIGHTS / "pictures/samples")
samples.mkdir(parents=True, exist_ok=True)
random.seed(3)
np.random.seed(3)
for kind in KINDS:
    draw(kind).save(samples / f"{kind}.png")
print(json.dumps({"samples": len(KINDS)}))

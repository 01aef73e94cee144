# labels: name::digits author::proveout test_group::selftest task::image-classification domain::vision license::apache-2.0
"""A small network trained here, in a second, on scikit-learn's handwritten digits: 8 x 8 pixels, ten classes.

`evaluate_on` gives a model's accuracy on digits that were held back, so that a compiled copy can be judged by
what it gets right. Data: https://archive.ics.uci.edu/dataset/80
"""

from proveout.parser import parse

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)

(batch_size,) = parse(["batch_size"])

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16  # 1797 x 1 x 8 x 8, from 0 to 1
labels = torch.tensor(digits.target)
seen, held_back = torch.randperm(len(images)).split([1397, 400])


class Digits(nn.Module):
    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, width, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.hidden = nn.Linear(width * 4 * 4, 64)
        self.head = nn.Linear(64, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.conv(image)))
        return self.head(torch.relu(self.hidden(x.flatten(1))))


def train(model: nn.Module, epochs: int = 15) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in seen[torch.randperm(len(seen))].split(64):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def evaluate_on(model: nn.Module) -> float:
    """Accuracy on the digits held back, in percent."""
    with torch.no_grad():
        guesses = model(images[held_back]).argmax(dim=1)
    return (guesses == labels[held_back]).float().mean().item() * 100


model = Digits()
train(model.train())
model.eval()

with torch.no_grad():
    model(images[held_back[:batch_size]])

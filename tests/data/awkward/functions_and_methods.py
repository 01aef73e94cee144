"""Models called in a function, in a method, in another module's method, in a comprehension and by a decorator."""

import functools

import torch
from torch import nn


class Trainer:
    def __init__(self) -> None:
        self.net = nn.Linear(4, 4)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 5)

    def score(self, x: torch.Tensor) -> torch.Tensor:  # not `forward`
        return self.inner(x).sum()


def timed(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@timed
def predict(x: torch.Tensor) -> torch.Tensor:
    return nn.Linear(4, 6)(x)


x = torch.ones(1, 4)
Trainer().step(x)
Holder().score(x)
predict(x)
[layer(x) for layer in [nn.Linear(4, 7)]]

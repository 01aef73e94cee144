"""Models without values: what Dynamo sees of tensors on `meta`, so that their graphs are those that values give."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.meta_utils import MetaTensorDesc, MetaTensorDescriber

HOST = torch.device("cpu")


@contextmanager
def as_on_host() -> Iterator[None]:
    """For a while, tensors on `meta` are captured as if they were here.

    Libraries choose by device (attention, experts), factories without a device give tensors of the host, and Dynamo
    cannot follow `torch.tensor(..., device="meta")`.
    """
    describe = MetaTensorDescriber.describe_tensor

    def described(self: MetaTensorDescriber, *args: Any, **kwargs: Any) -> MetaTensorDesc[Any]:
        tensor = describe(self, *args, **kwargs)
        return dataclasses.replace(tensor, device=HOST) if tensor.device.type == "meta" else tensor

    MetaTensorDescriber.describe_tensor = described  # type: ignore[method-assign]
    try:
        yield
    finally:
        MetaTensorDescriber.describe_tensor = describe  # type: ignore[method-assign]

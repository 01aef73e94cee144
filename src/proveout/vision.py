"""Serves torchvision where its compiled operators cannot load, and `torch.hub.load` of its models without a network.

PyPI's torchvision is built for a CUDA torch; beside a CPU torch its extension does not load, and its import fails for
want of two schemas. `serve` puts a hook before the import: only where the extension cannot load, the schemas are
defined first, and `nms` and `roi_align` get a meaning in torch, so that detection models run (inference only).
`import proveout.parser` calls `serve`, so a script that takes our parameters also runs alone, if that import comes
before those that bring torchvision in (timm, diffusers, transformers); so does whatever runs a script.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def serve() -> None:
    """Have torchvision's import and `torch.hub.load` served in this process. May be called again."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    hub = sys.modules.get("torch.hub")
    if hub is not None:
        _serve_hub(hub)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of the boxes (x1, y1, x2, y2) left, best score first, when each takes out those that overlap it more.

    A loop over boxes, so in numpy: a call of torch costs several times one of numpy.
    """
    import numpy as np
    import torch

    order = scores.argsort(descending=True, stable=True)
    corners = boxes[order].to(torch.promote_types(boxes.dtype, torch.float32)).numpy(force=True)
    low, high = corners[:, :2], corners[:, 2:]
    areas = (high - low).prod(axis=1)
    alive = np.ones(len(corners), dtype=bool)
    for number in range(len(corners)):
        if alive[number]:
            rest = slice(number + 1, None)
            sides = np.minimum(high[number], high[rest]) - np.maximum(low[number], low[rest])
            common = sides.clip(min=0).prod(axis=1)
            alive[rest] &= ~(common > iou_threshold * (areas[number] + areas[rest] - common))
    return order[torch.from_numpy(alive)]


def roi_align(
    image_BCHW: Tensor,
    rois_K5: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Each region (image's number, x1, y1, x2, y2) averaged into pooled_height x pooled_width bins.

    A bin is the mean of a grid of bilinear samples: `sampling_ratio` each way, or as many as it has pixels.
    """
    import torch

    pooled = image_BCHW.new_zeros((len(rois_K5), image_BCHW.shape[1], pooled_height, pooled_width))
    which_K = rois_K5[:, 0].long()
    corners_K22 = (rois_K5[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)).view(-1, 2, 2).flip(-1)  # y before x
    start_K2, size_K2 = corners_K22[:, 0], corners_K22[:, 1] - corners_K22[:, 0]
    if not aligned:
        size_K2 = size_K2.clamp(min=1)
    bins = (pooled_height, pooled_width)
    if sampling_ratio > 0:
        counts_K2 = torch.full((len(rois_K5), 2), sampling_ratio)
    else:
        counts_K2 = (size_K2 / torch.tensor(bins, dtype=size_K2.dtype)).ceil().clamp(min=0).long()
    alike = torch.cat([which_K[:, None], counts_K2], dim=1)  # regions sampled in one go: same image, same grid
    for image, rows, columns in alike.unique(dim=0).tolist():
        if rows * columns == 0:
            continue
        chosen = (alike == torch.tensor([image, rows, columns])).all(dim=1)
        y_KI = _positions(start_K2[chosen, 0], size_K2[chosen, 0], pooled_height * rows)
        x_KJ = _positions(start_K2[chosen, 1], size_K2[chosen, 1], pooled_width * columns)
        samples_KCIJ = _bilinear(image_BCHW[image], y_KI, x_KJ)
        pooled[chosen] = torch.nn.functional.avg_pool2d(samples_KCIJ, (rows, columns))
    return pooled


def _positions(start_K: Tensor, size_K: Tensor, number: int) -> Tensor:
    """The middles of `number` equal parts of each range."""
    import torch

    return start_K[:, None] + size_K[:, None] * (torch.arange(number, dtype=size_K.dtype) + 0.5) / number


def _bilinear(image_CHW: Tensor, y_KI: Tensor, x_KJ: Tensor) -> Tensor:
    """Samples at every (y, x) of each region; up to one pixel outside the edge counts, farther out is zero."""
    import torch

    def normal(position: Tensor, size: int) -> Tensor:
        return 2 * position / max(size - 1, 1) - 1

    (regions, rows), columns, (channels, height, width) = y_KI.shape, x_KJ.shape[1], image_CHW.shape
    grid_KIJ2 = torch.stack(
        [
            normal(x_KJ, width)[:, None, :].expand(regions, rows, columns),
            normal(y_KI, height)[:, :, None].expand(regions, rows, columns),
        ],
        dim=-1,
    )
    samples = torch.nn.functional.grid_sample(
        image_CHW[None], grid_KIJ2.reshape(1, regions * rows, columns, 2), padding_mode="border", align_corners=True
    )
    inside_KI = (y_KI >= -1) & (y_KI <= height)
    inside_KJ = (x_KJ >= -1) & (x_KJ <= width)
    samples_KCIJ = samples.view(channels, regions, rows, columns).transpose(0, 1)
    return samples_KCIJ * (inside_KI[:, None, :, None] & inside_KJ[:, None, None, :])


class _Finder:
    """Stands before the other finders and lays `_AROUND`'s context managers around the modules it names."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _AROUND:
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            _lay_around(spec.loader, _AROUND[name])
        return spec


def _lay_around(loader: Any, around: Callable[[ModuleType], AbstractContextManager[None]]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        with around(module):
            execute(module)

    loader.exec_module = exec_module


@contextmanager
def _with_operators(torchvision: ModuleType) -> Iterator[None]:
    if _extension_loads(torchvision):
        yield
        return
    import torch

    for name, schema in _SCHEMAS.items():
        torch.library.define(name, schema)
    torch.library.impl("torchvision::nms", "default", nms)
    torch.library.impl("torchvision::roi_align", "default", roi_align)
    torch.library.register_fake("torchvision::roi_align", _roi_align_shape)
    yield
    for home in ("boxes", "roi_align"):  # the two that have their operator now; the others still say what they lack
        module: Any = sys.modules[f"torchvision.ops.{home}"]
        module._assert_has_ops = lambda: None
        module._has_ops = lambda: True


def _extension_loads(torchvision: ModuleType) -> bool:
    import torch

    assert torchvision.__file__ is not None
    extension = importlib.machinery.PathFinder.find_spec("_C", [str(Path(torchvision.__file__).parent)])
    if extension is None or extension.origin is None:
        return False
    try:
        torch.ops.load_library(extension.origin)
    except OSError:
        return False
    return True


def _roi_align_shape(
    image: Tensor, rois: Tensor, scale: float, pooled_height: int, pooled_width: int, ratio: int, aligned: bool
) -> Tensor:
    return image.new_empty((rois.shape[0], image.shape[1], pooled_height, pooled_width))


@contextmanager
def _with_hub(hub: ModuleType) -> Iterator[None]:
    yield
    _serve_hub(hub)


def _serve_hub(hub: Any) -> None:
    original = hub.load
    if getattr(original, "serves_torchvision", False):
        return

    def load(repo_or_dir: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
        """`torch.hub.load`; `pytorch/vision`, of whatever version, is the torchvision that is installed."""
        repository = str(repo_or_dir).partition(":")[0]
        if repository != "pytorch/vision" or source != "github" or not _is_installed("torchvision"):
            return original(repo_or_dir, model, *args, source=source, **kwargs)
        from torchvision.models import get_model_builder

        for option in _HUB_OPTIONS:
            kwargs.pop(option, None)
        return get_model_builder(model)(*args, **kwargs)

    load.serves_torchvision = True  # type: ignore[attr-defined]
    hub.load = load


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


_SCHEMAS = {
    "torchvision::nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
    " SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
}

_HUB_OPTIONS = ("trust_repo", "force_reload", "verbose", "skip_validation")

_AROUND: dict[str, Callable[[ModuleType], AbstractContextManager[None]]] = {
    "torchvision": _with_operators,
    "torch.hub": _with_hub,
}

__all__ = ["nms", "roi_align", "serve"]

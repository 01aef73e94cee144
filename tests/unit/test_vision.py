"""torchvision beside a torch that its extension was not built for, and `torch.hub.load` without a network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from proveout import vision

torchvision_installed = pytest.mark.skipif(not vision._is_installed("torchvision"), reason="torchvision is missing")


def test_nms_keeps_the_best_of_each_pile_in_order_of_score():
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 5]], dtype=torch.float32)
    scores = torch.tensor([0.8, 0.9, 0.95, 0.1])
    # 0 and 1 share 81 of 119; 0 and 3 share 50 of 100, 1 and 3 share 36 of 114
    assert vision.nms(boxes, scores, 0.5).tolist() == [2, 1, 3]
    assert vision.nms(boxes, scores, 0.7).tolist() == [2, 1, 0, 3]
    assert vision.nms(boxes, scores, 0.3).tolist() == [2, 1]


def test_nms_at_exactly_the_threshold_keeps_both():
    boxes = torch.tensor([[0, 0, 10, 10], [0, 0, 10, 5]], dtype=torch.float32)
    assert vision.nms(boxes, torch.tensor([1.0, 0.5]), 0.5).tolist() == [0, 1]


def test_nms_of_nothing_is_nothing():
    assert vision.nms(torch.zeros(0, 4), torch.zeros(0), 0.5).shape == (0,)


def _ramp(height: int, width: int) -> torch.Tensor:
    """Channel 0 holds each pixel's x, channel 1 its y: a bilinear sample is its own position."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([x, y])[None].float()


@pytest.mark.parametrize("ratio", [2, -1])
def test_roi_align_of_a_ramp_gives_the_middle_of_each_bin(ratio):
    regions = torch.tensor([[0, 4.0, 8.0, 12.0, 24.0]])
    pooled = vision.roi_align(_ramp(32, 32), regions, 0.5, 2, 2, ratio, False)
    assert pooled[0, 0].tolist() == [[3, 5], [3, 5]]  # x from 2 to 6, in two bins
    assert pooled[0, 1].tolist() == [[6, 6], [10, 10]]  # y from 4 to 12
    shifted = vision.roi_align(_ramp(32, 32), regions, 0.5, 2, 2, ratio, True)
    torch.testing.assert_close(shifted, pooled - 0.5)


def test_roi_align_takes_each_region_from_its_own_image():
    images = torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1, 1).expand(3, 1, 8, 8)
    regions = torch.tensor([[2, 0, 0, 4, 4], [0, 1, 1, 7, 7], [1, 2, 2, 3, 3], [0, 0, 0, 7, 7]], dtype=torch.float32)
    assert vision.roi_align(images, regions, 1.0, 1, 1, 2, False).flatten().tolist() == [3, 1, 2, 1]


def test_roi_align_is_zero_more_than_a_pixel_outside():
    regions = torch.tensor([[0, 20.0, 20.0, 30.0, 30.0]])
    assert vision.roi_align(torch.ones(1, 1, 8, 8), regions, 1.0, 3, 3, 2, False).abs().max() == 0


@torchvision_installed
def test_roi_align_agrees_with_torchvisions_own_python():
    import torchvision.ops

    reference = sys.modules["torchvision.ops.roi_align"]._roi_align.__wrapped__
    images, corner = torch.randn(2, 3, 20, 30), torch.rand(9, 2) * 20
    regions = torch.cat([torch.randint(2, (9, 1)), corner, corner + 1 + torch.rand(9, 2) * 19], dim=1)
    for ratio, aligned in ((2, False), (3, True), (-1, False), (-1, True)):
        ours = torchvision.ops.roi_align(images, regions, (7, 5), 0.5, ratio, aligned)
        torch.testing.assert_close(ours, reference(images, regions, 0.5, 7, 5, ratio, aligned), atol=1e-4, rtol=1e-4)


@torchvision_installed
@pytest.mark.slow
def test_plain_python_imports_torchvision_after_our_parser():
    code = (
        "import proveout.parser, sys; assert 'torch' not in sys.modules; import torchvision, torch;"
        "print(torchvision.ops.nms(torch.ones(3, 4).cumsum(1), torch.ones(3), 0.5).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[0]\n"), done.stderr


def test_an_extension_that_loads_is_left_alone(tmp_path, monkeypatch):
    torchvision = ModuleType("torchvision")
    torchvision.__file__ = str(tmp_path / "__init__.py")
    assert not vision._extension_loads(torchvision)
    (tmp_path / "_C.so").write_bytes(b"")
    assert not vision._extension_loads(torchvision)  # there, but no library
    monkeypatch.setattr(torch.ops, "load_library", lambda path: None)
    assert vision._extension_loads(torchvision)
    defined = []
    monkeypatch.setattr(torch.library, "define", lambda *names: defined.append(names))
    with vision._with_operators(torchvision):
        pass
    assert defined == []


@torchvision_installed
def test_the_hub_of_any_version_is_the_installed_torchvision():
    vision.serve()
    model = torch.hub.load("pytorch/vision:v0.13.1", "squeezenet1_1", weights=None, trust_repo=True, num_classes=7)
    assert type(model).__module__ == "torchvision.models.squeezenet"
    assert model.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 7)


def test_other_repositories_go_to_torch(monkeypatch):
    asked = []
    hub = ModuleType("hub")
    hub.load = lambda *args, **kwargs: asked.append((args, kwargs))
    vision._serve_hub(hub)
    vision._serve_hub(hub)
    hub.load("pytorch/fairseq", "roberta", force_reload=True)
    hub.load("pytorch/vision", "alexnet", source="local")
    assert asked == [
        (("pytorch/fairseq", "roberta"), {"source": "github", "force_reload": True}),
        (("pytorch/vision", "alexnet"), {"source": "local"}),
    ]


@torchvision_installed
@pytest.mark.slow
def test_a_whole_two_stage_detector_finds_boxes():
    from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

    torch.manual_seed(0)
    model = fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None,
        weights_backbone=None,
        min_size=96,
        max_size=96,
        box_score_thresh=0.0,
        box_detections_per_img=7,
        rpn_pre_nms_top_n_test=50,
        rpn_post_nms_top_n_test=10,
    )
    with torch.no_grad():
        (found,) = model.eval()([torch.rand(3, 96, 96)])
    assert found["boxes"].shape == (7, 4)
    assert found["scores"].diff().le(0).all()


@torchvision_installed
@pytest.mark.slow
def test_a_users_own_import_works_where_our_extras_are_installed(tmp_path):
    """Installing puts this line beside our package; Python reads it at its start."""
    shutil.copy(Path(__file__).parents[2] / "src" / "proveout_vision.pth", tmp_path)
    code = f"import site; site.addsitedir({str(tmp_path)!r})\nfrom transformers import BertModel; print('BertModel')"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stdout.strip() == "BertModel", told.stderr[-500:]

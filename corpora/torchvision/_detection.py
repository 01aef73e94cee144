"""Detectors as networks: all that torchvision's detection models compute but the choice of boxes.

Which boxes stay (the best scores, non-maximum suppression) hangs on the last bit of random weights' scores, so no
two kinds of arithmetic agree on it. What is left is compared number by number: the dense heads' outputs, and for
two-stage detectors what their second stage says of given proposals.
"""

import torch
from torch import Tensor, nn


class OneStage(nn.Module):
    """Backbone and dense head: class logits and box regressions of every anchor."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        return self.head(list(self.backbone(images).values()))


class TwoStage(nn.Module):
    """Backbone, region proposal head, and the box head (mask, keypoint head) on the regions of given proposals."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.backbone, self.rpn_head, self.roi_heads = detector.backbone, detector.rpn.head, detector.roi_heads

    def forward(self, images: Tensor, proposals: list[Tensor]) -> dict[str, Tensor | list[Tensor]]:
        features = self.backbone(images)
        objectness, deltas = self.rpn_head(list(features.values()))
        regions = (features, proposals, [tuple(images.shape[-2:])] * len(images))
        heads = self.roi_heads
        scores, boxes = heads.box_predictor(heads.box_head(heads.box_roi_pool(*regions)))
        outputs = {"objectness": objectness, "deltas": deltas, "scores": scores, "boxes": boxes}
        if heads.has_mask():
            outputs["masks"] = heads.mask_predictor(heads.mask_head(heads.mask_roi_pool(*regions)))
        if heads.has_keypoint():
            outputs["keypoints"] = heads.keypoint_predictor(heads.keypoint_head(heads.keypoint_roi_pool(*regions)))
        return outputs


def random_proposals(images: Tensor, number: int) -> list[Tensor]:
    """For each image as many boxes (x1, y1, x2, y2) as the proposal stage would hand on."""
    size = torch.tensor([images.shape[-1], images.shape[-2]])
    low = torch.rand(len(images), number, 2) * 0.7 * size
    return list(torch.cat([low, low + (0.05 + 0.25 * torch.rand(len(images), number, 2)) * size], dim=-1))

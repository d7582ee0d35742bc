"""Regions from pictures: the boxes of an object detector, and what a backbone sees in each.

SCAN, BFAN and VSRN read 36 regions a picture. Here any object detector of transformers (DETR, RT-DETR, YOLOS …) gives
boxes and scores; the backbone's grid is averaged over each box by ROI-align (He et al.: Mask R-CNN, ICCV 2017):

    pixels (B, 3, P, P) → the N boxes with the highest scores (B, N, 4) → Sets of (B, N, d)

A box has x0, y0, x1, y1 in 0…1 of the view. Take a view that shows the whole picture: 1C with resize equal to pixels.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from vsekit.encoders.base import ImageEncoder, ImageEncoderPart
from vsekit.encoders.image import PictureEncoderSettings
from vsekit.encoders.image.efficientnet_lite import EfficientNetLiteSettings
from vsekit.encoders.image.transformers_vision import TransformersVision, loaded, rebuilt
from vsekit.parts import Sets


def roi_align(grid: Tensor, boxes: Tensor, size: int = 7) -> Tensor:
    """Reads `grid` bilinearly at the centres of size × size equal bins of each box, without rounding to cells.

    Args:
        grid: (B, d, H, W)
        boxes: (B, N, 4) x0, y0, x1, y1 in 0…1 of the grid's whole width and height

    Returns:
        (B, N, d, size, size)
    """
    centres = (torch.arange(size, device=boxes.device, dtype=boxes.dtype) + 0.5) / size
    low, high = boxes[..., None, :2], boxes[..., None, 2:]
    x, y = (low + (high - low) * centres[:, None]).unbind(-1)  # (B, N, size) each
    shape = (*boxes.shape[:2], size, size)
    points = torch.stack([x[:, :, None, :].expand(shape), y[:, :, :, None].expand(shape)], dim=-1)
    # −1 and 1 are the outer edges of the grid when corners are not aligned.
    read = nn.functional.grid_sample(grid, 2 * points.flatten(1, 2) - 1, padding_mode="border", align_corners=False)
    return read.unflatten(2, shape[1:3]).transpose(1, 2)


def best_boxes(logits: Tensor, boxes: Tensor, labels: int, count: int) -> tuple[Tensor, Tensor]:
    """The boxes of the highest class score, best first.

    Args:
        logits: (B, Q, labels + 1), a softmax whose last class is "nothing" (DETR, YOLOS); or (B, Q, labels), sigmoids.
        boxes: (B, Q, 4) centre x, centre y, width, height in 0…1

    Returns:
        (B, N, 4) x0, y0, x1, y1 clipped to 0…1, and (B, N) scores; N is `count`, or Q if that is less.
    """
    scores = logits.softmax(-1)[..., :-1] if logits.shape[-1] == labels + 1 else logits.sigmoid()
    best, places = scores.amax(-1).topk(min(count, boxes.shape[1]))
    centre, extent = boxes.gather(1, places[..., None].expand(-1, -1, 4)).split(2, dim=-1)
    return torch.cat([centre - extent / 2, centre + extent / 2], dim=-1).clamp(0, 1), best


class DetectorRegions(ImageEncoder):
    """The detector only points and is never trained; the backbone can be."""

    def __init__(self, detector: nn.Module, backbone: ImageEncoder, settings: DetectorRegionsSettings) -> None:
        super().__init__()
        self.detector: Any = detector.requires_grad_(False).eval()
        self.backbone, self.settings = backbone, settings
        self.dim, self.pixels, self.mean, self.std = backbone.dim, backbone.pixels, backbone.mean, backbone.std

    def forward(self, pixels: Tensor) -> Sets:
        return self.regions(pixels)[0]

    def regions(self, pixels: Tensor) -> tuple[Sets, Tensor]:
        """The regions' vectors and their (B, N, 4) boxes; scores under the threshold are masked, but never the best."""
        with torch.no_grad():
            found = self.detector(pixel_values=self._for_detector(pixels))
        count, labels = self.settings.regions, self.detector.config.num_labels
        boxes, scores = best_boxes(found.logits, found.pred_boxes, labels, count)
        mask = scores >= self.settings.threshold
        mask[:, 0] = True
        cells = self.backbone(pixels).vectors
        side = int(cells.shape[1] ** 0.5)
        grid = cells.transpose(1, 2).unflatten(2, (side, side))
        return Sets(roi_align(grid, boxes).mean((-2, -1)), mask), boxes

    def _for_detector(self, pixels: Tensor) -> Tensor:
        """From the backbone's normalisation to the detector's."""
        assert self.settings.mean is not None
        assert self.settings.std is not None
        ours = [pixels.new_tensor(values).view(3, 1, 1) for values in (self.std, self.mean)]
        mean, std = (pixels.new_tensor(values).view(3, 1, 1) for values in (self.settings.mean, self.settings.std))
        return (pixels * ours[0] + ours[1] - mean) / std

    def train(self, mode: bool = True) -> DetectorRegions:
        super().train(mode)
        self.detector.eval()
        return self

    def parts(self) -> list[nn.Module]:
        return [self.detector, *self.backbone.parts()]

    def describe(self) -> dict[str, Any]:
        """The settings as JSON, with all that `build` needs to make the same architecture without the hub."""
        return self.settings.model_dump(mode="json")


class DetectorRegionsSettings(ImageEncoderPart):
    """detector: an object detector of transformers, a name on the hub or a folder.

    backbone: whose grid is read, whatever its `output` says.
    regions: N. threshold: the least score of a region.
    mean, std, config: the detector's own, filled when the encoder is built, as in `transformers_vision`.
    """

    kind: Literal["detector_regions"] = "detector_regions"
    detector: str
    backbone: PictureEncoderSettings = EfficientNetLiteSettings(output="grid")
    regions: int = Field(default=36, gt=0)
    threshold: float = Field(default=0.0, ge=0, le=1)
    pretrained: bool = True
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    config: dict[str, Any] | None = None

    def build(self) -> DetectorRegions:
        auto, filled = "AutoModelForObjectDetection", self
        if self.config is not None:
            detector = rebuilt(auto, self.config)
        else:
            detector, own = loaded(auto, self.detector, pretrained=self.pretrained)
            filled = self.model_copy(update={key: getattr(self, key) or value for key, value in own.items()})
        backbone = self.backbone.model_copy(update={"output": "grid"}).build()
        if isinstance(backbone, TransformersVision):
            filled = filled.model_copy(update={"backbone": backbone.settings})
        return DetectorRegions(detector, backbone, filled)

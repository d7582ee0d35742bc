from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vsekit.encoders.image.detector_regions import DetectorRegions, DetectorRegionsSettings, best_boxes, roi_align

SMALL = {"kind": "small_cnn", "widths": [4, 6], "pixels": 32}


def ramp(height: int, width: int) -> torch.Tensor:
    """A grid whose two channels are the x and y of the cell's centre, in cells: bilinear reading is exact on it."""
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    return torch.stack([x, y])[None].double()


def test_roi_align_by_hand() -> None:
    # The box spans x 1…3 and y 2…4 of a grid of 8 × 4 cells: the bins' centres are at x 1.5 and 2.5, y 2.5 and 3.5.
    boxes = torch.tensor([[[1 / 8, 2 / 4, 3 / 8, 4 / 4]]], dtype=torch.float64)
    read = roi_align(ramp(4, 8), boxes, size=2)
    assert read.shape == (1, 1, 2, 2, 2)
    torch.testing.assert_close(read[0, 0, 0], torch.tensor([[1.5, 2.5], [1.5, 2.5]]).double())
    torch.testing.assert_close(read[0, 0, 1], torch.tensor([[2.5, 2.5], [3.5, 3.5]]).double())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.1, 0.9), min_size=4, max_size=4))
def test_on_a_ramp_a_region_is_the_middle_of_its_box(corners: list[float]) -> None:
    """Between the centres of the outermost cells; beyond, the border is repeated."""
    (x0, x1), (y0, y1) = sorted(corners[:2]), sorted(corners[2:])
    boxes = torch.tensor([[[x0, y0, x1, y1]]], dtype=torch.float64)
    mean = roi_align(ramp(6, 10), boxes).mean((-2, -1))[0, 0]
    torch.testing.assert_close(mean, torch.tensor([10 * (x0 + x1) / 2, 6 * (y0 + y1) / 2]).double())


def test_the_whole_picture_at_the_grids_own_size_is_the_grid() -> None:
    grid = torch.randn(2, 5, 7, 7)
    whole = torch.tensor([[[0.0, 0.0, 1.0, 1.0]]]).expand(2, 1, 4)
    torch.testing.assert_close(roi_align(grid, whole, size=7)[:, 0], grid)


def test_roi_align_carries_gradients_to_the_grid() -> None:
    grid = torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    boxes = torch.tensor([[[0.1, 0.2, 0.7, 0.9]]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda g: roi_align(g, boxes, size=2), grid)


def test_the_class_nothing_is_no_object() -> None:
    boxes = torch.tensor([[[0.5, 0.5, 0.2, 0.4], [0.2, 0.2, 0.8, 0.2]]])
    softmax = torch.tensor([[[0.0, 1.0, 9.0], [0.0, 2.0, 0.0]]])  # the first query sees nothing
    corners, scores = best_boxes(softmax, boxes, labels=2, count=5)
    torch.testing.assert_close(corners[0], torch.tensor([[0.0, 0.1, 0.6, 0.3], [0.4, 0.3, 0.6, 0.7]]))  # clipped at 0
    assert scores[0, 0] > 0.7
    assert scores[0, 1] < 0.01
    sigmoid = torch.tensor([[[0.0, 1.0, 9.0], [0.0, 2.0, 0.0]]])  # the same numbers, three classes: the first is sure
    corners, scores = best_boxes(sigmoid, boxes, labels=3, count=1)
    torch.testing.assert_close(corners[0], torch.tensor([[0.4, 0.3, 0.6, 0.7]]))
    torch.testing.assert_close(scores, torch.tensor([[9.0]]).sigmoid())


def save_detector(folder: Path, kind: str) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra 'transformers'")
    torch.manual_seed(0)
    if kind == "yolos":
        config = transformers.YolosConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            image_size=[32, 32],
            patch_size=8,
            num_detection_tokens=10,
        )
    else:
        backbone = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], out_features=["stage4"]
        )
        config = transformers.DetrConfig(
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
            backbone_config=backbone,
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            num_queries=10,
        )
    transformers.AutoModelForObjectDetection.from_config(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text('{"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}')


def built(folder: Path, **changes: Any) -> DetectorRegions:
    torch.manual_seed(1)
    settings = {"detector": str(folder), "backbone": SMALL, "regions": 4, **changes}
    return DetectorRegionsSettings.model_validate(settings).build().eval()


@pytest.mark.parametrize("kind", ["yolos", "detr"])
def test_regions_are_the_backbones_grid_over_the_detectors_best_boxes(tmp_path: Path, kind: str) -> None:
    save_detector(tmp_path, kind)
    encoder, pixels = built(tmp_path), torch.rand(2, 3, 32, 32)
    normal = (pixels - 0.5) / 0.5
    with torch.no_grad():
        (vectors, mask), boxes = encoder.regions(normal)
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))
        found = encoder.detector(pixel_values=(pixels - mean) / std)
        cells = encoder.backbone(normal).vectors
    assert vectors.shape == (2, 4, 6)
    assert encoder.dim == 6
    assert mask.all()
    for b in range(2):
        scores = found.logits[b].softmax(-1)[:, :-1].amax(-1)
        for place, query in enumerate(scores.argsort(descending=True)[:4]):
            x, y, w, h = found.pred_boxes[b, query].tolist()
            expected = torch.tensor([x - w / 2, y - h / 2, x + w / 2, y + h / 2]).clamp(0, 1)
            torch.testing.assert_close(boxes[b, place], expected, rtol=1e-3, atol=1e-4)
            grid = cells[b].T.reshape(1, 6, 8, 8)
            torch.testing.assert_close(
                vectors[b, place], roi_align(grid, expected[None, None])[0, 0].mean((1, 2)), rtol=1e-2, atol=1e-3
            )


def test_regions_under_the_threshold_are_masked_but_never_all(tmp_path: Path) -> None:
    save_detector(tmp_path, "yolos")
    mask = built(tmp_path, threshold=1.0)(torch.randn(2, 3, 32, 32)).mask
    assert mask.tolist() == [[True, False, False, False]] * 2


def test_the_detector_stays_as_it_is_while_the_backbone_trains(tmp_path: Path) -> None:
    save_detector(tmp_path, "yolos")
    encoder = built(tmp_path).train()
    assert encoder.backbone.training
    assert not encoder.detector.training
    encoder(torch.randn(2, 3, 32, 32)).vectors.sum().backward()
    assert all(p.grad is None for p in encoder.detector.parameters())
    assert all(p.grad is not None for p in encoder.backbone.parameters())
    assert encoder.parts() == [encoder.detector, *encoder.backbone.parts()]


def test_a_saved_model_is_rebuilt_from_its_description_alone(tmp_path: Path) -> None:
    save_detector(tmp_path / "detector", "detr")
    first = built(tmp_path / "detector")
    described = json.loads(json.dumps(first.describe()))
    (tmp_path / "detector").rename(tmp_path / "gone")
    again = DetectorRegionsSettings.model_validate(described).build().eval()
    again.load_state_dict(first.state_dict())
    pixels = torch.randn(1, 3, 32, 32)
    for one, other in zip(again.regions(pixels)[0], first.regions(pixels)[0]):
        torch.testing.assert_close(one, other)

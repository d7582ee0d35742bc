from __future__ import annotations

import base64
import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from vsekit.drawing.charts import _log_ticks, _ticks, bars, heatmap, histogram, lines


def test_ticks_are_round_inside_the_range_and_few() -> None:
    assert _ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert _ticks(0.03, 0.11) == [0.04, 0.06, 0.08, 0.1]
    for low, high in [(0, 1), (-3, 17), (1e-4, 2e-4), (0, 99.9)]:
        ticks = _ticks(low, high)
        assert 2 <= len(ticks) <= 7
        assert all(low - 1e-9 <= t <= high + 1e-9 for t in ticks)


def test_a_line_rises_on_the_page_when_its_values_do() -> None:
    root = ET.fromstring(lines({"R@1": [(0, 1.0), (1, 3.0)]}, "epoch", "R@1"))
    polyline = next(e for e in root.iter() if e.tag == "polyline")
    (x0, y0), (x1, y1) = (map(float, p.split(",")) for p in polyline.attrib["points"].split())
    assert x1 > x0
    assert y1 < y0  # SVG counts downwards


def test_names_are_escaped() -> None:
    assert "<script>" not in lines({"<script>": [(0, 1)]}, "x", "y")


@pytest.mark.parametrize(
    "values", [np.array([0.3]), np.array([1.0, 1.0, 1.0]), np.random.default_rng(0).normal(size=500)]
)
def test_histograms_of_one_value_or_many_are_drawn(values: np.ndarray) -> None:
    ET.fromstring(histogram({"positive": values, "negative": values - 1}, "score", "scores"))


def test_on_a_log_scale_equal_ratios_are_equal_distances_and_ticks_are_round() -> None:
    root = ET.fromstring(lines({"loss": [(0, 1.0), (1, 10.0), (2, 100.0)]}, "step", "loss", log=True))
    polyline = next(e for e in root.iter() if e.tag == "polyline")
    y = [float(p.split(",")[1]) for p in polyline.attrib["points"].split()]
    assert y[0] - y[1] == pytest.approx(y[1] - y[2], abs=0.11)
    assert _log_ticks(0, 1) == [1, 2, 5, 10]
    assert _log_ticks(-1.2, 3.1) == [0.1, 1, 10, 100, 1000]


def test_a_log_scale_of_losses_below_zero_is_a_plain_one() -> None:
    assert lines({"a": [(0, -1.0), (1, 2.0)]}, "x", "y", log=True) == lines({"a": [(0, -1.0), (1, 2.0)]}, "x", "y")


def test_bars_are_as_high_as_their_values() -> None:
    root = ET.fromstring(bars(["1", "> 5"], [30.0, 60.0], "rank", "%"))
    heights = [float(e.attrib["height"]) for e in root.iter() if e.tag == "rect"]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    ET.fromstring(bars(["none"], [0.0], "rank", "%"))


def test_a_heatmap_has_a_pixel_a_number_blue_above_zero_and_clear_at_zero() -> None:
    drawn = heatmap(np.array([[1.0, 0.0], [-0.5, 0.2]]), "r < 1")
    assert "r &lt; 1" in drawn
    data = drawn.partition("base64,")[2].partition('"')[0]
    pixels = Image.open(io.BytesIO(base64.b64decode(data)))
    assert pixels.getpixel((0, 0)) == (47, 95, 208, 255)
    assert pixels.getpixel((1, 0))[3] == 0
    assert pixels.getpixel((0, 1)) == (208, 122, 31, 128)


def test_every_chart_has_a_title_and_says_when_its_heights_are_logarithms() -> None:
    points = [(1.0, 100.0), (2.0, 1.0)]
    drawn = {
        "recall": lines({"a": points}, "epoch", "recall"),
        "loss (log scale)": lines({"a": points}, "step", "loss", log=True),
        "a loss with a zero": lines({"a": [*points, (3.0, 0.0)]}, "step", "a loss with a zero", log=True),
        "scores": histogram({"a": np.arange(3.0)}, "score", "scores"),
        "shares": bars(["1"], [2.0], "rank", "shares"),
    }
    for title, chart in drawn.items():
        titles = [t.text for t in ET.fromstring(chart).iter("text") if t.get("class") == "title"]
        assert titles == [title]

"""Small charts as inline SVG, in the page's own colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from vsekit.drawing.page import exact

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 420, 250, 44, 40, 28, 12
COLOURS = ("var(--one)", "var(--two)", "var(--good)", "var(--bad)", "var(--soft)")


def lines(series: Mapping[str, Sequence[tuple[float, float]]], x: str, title: str, log: bool = False) -> str:
    """A chart of lines: name → points. `log`: heights as logarithms, where all are above 0."""
    points = [point for values in series.values() for point in values]
    if not points:
        return ""
    frame = Frame([p[0] for p in points], [p[1] for p in points], x, title, log=log and min(p[1] for p in points) > 0)
    drawn = []
    for colour, values in zip(_colours(len(series)), series.values()):
        path = " ".join(f"{frame.x(a):.1f},{frame.y(b):.1f}" for a, b in values)
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        if len(values) == 1:
            drawn.append(
                f'<circle cx="{frame.x(values[0][0]):.1f}" cy="{frame.y(values[0][1]):.1f}" r="3" fill="{colour}"/>'
            )
    return frame.svg("".join(drawn), list(series))


def histogram(series: Mapping[str, np.ndarray], x: str, title: str, bins: int = 60) -> str:
    """Overlaid distributions, each scaled to the same area."""
    low = min(float(values.min()) for values in series.values())
    high = max(float(values.max()) for values in series.values())
    edges = np.linspace(low, high if high > low else low + 1e-6, bins + 1)
    heights = {name: np.histogram(values, edges, density=True)[0] for name, values in series.items()}
    return areas(edges, heights, x, title)


def areas(
    edges: Sequence[float] | np.ndarray, series: Mapping[str, Sequence[float] | np.ndarray], x: str, title: str
) -> str:
    """Overlaid histograms that were counted before: name → the heights between (bins + 1) edges."""
    frame = Frame(list(edges), [0.0, float(max(max(heights) for heights in series.values()))], x, title)
    drawn = []
    for colour, heights in zip(_colours(len(series)), series.values()):
        steps = [(edges[0], 0.0)]
        for i, value in enumerate(heights):
            steps += [(edges[i], float(value)), (edges[i + 1], float(value))]
        steps.append((edges[-1], 0.0))
        path = " ".join(f"{frame.x(float(a)):.1f},{frame.y(b):.1f}" for a, b in steps)
        drawn.append(f'<polygon fill="{colour}" fill-opacity=".35" stroke="{colour}" points="{path}"/>')
    return frame.svg("".join(drawn), list(series), y_ticks=False)


def bars(labels: Sequence[str], values: Sequence[float], x: str, title: str) -> str:
    """A bar a label."""
    frame = Frame([0.0, float(len(labels))], [0.0, max(*values, 1e-9)], x, title)
    drawn = []
    for i, (label, value) in enumerate(zip(labels, values)):
        left, right, top, base = frame.x(i + 0.12), frame.x(i + 0.88), frame.y(value), frame.y(0)
        place = f'x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{base - top:.1f}"'
        middle = (left + right) / 2
        drawn.append(f'<rect {place} fill="var(--one)"/>')
        drawn.append(f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(label)}</text>')
        drawn.append(f'<text x="{middle:.1f}" y="{top - 4:.1f}" text-anchor="middle">{value:.3g}</text>')
    return frame.svg("".join(drawn), [], x_ticks=False)


def heatmap(matrix: np.ndarray, caption: str) -> str:
    """A matrix of numbers in −1…1, a pixel a number: blue above 0, orange below, the deeper the farther from it."""
    from PIL import Image

    colour = np.where(matrix[..., None] >= 0, (47, 95, 208), (208, 122, 31))
    depth = np.clip(np.abs(matrix), 0, 1)[..., None] * 255
    pixels = np.concatenate([colour, depth], axis=-1).round().astype(np.uint8)
    return exact(Image.fromarray(pixels), caption)


def _colours(n: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(n)]


class Frame:
    """Axes with round ticks, and the map from values to places."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float], x_name: str, title: str, log: bool = False) -> None:
        self.log = log
        self.x_range = _padded(min(xs), max(xs), 0)
        self.y_range = _padded(self._height(min(ys)), self._height(max(ys)), 0.06)
        self.x_name, self.title = x_name, f"{title} (log scale)" if log else title

    def _height(self, value: float) -> float:
        return float(np.log10(value)) if self.log else value

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - BOTTOM - (self._height(value) - low) / (high - low) * (HEIGHT - BOTTOM - TOP)

    def svg(self, content: str, names: Sequence[str], x_ticks: bool = True, y_ticks: bool = True) -> str:
        axes = []
        for tick in _ticks(*self.x_range) if x_ticks else []:
            axes.append(f'<text x="{self.x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
        heights = _log_ticks(*self.y_range) if self.log else _ticks(*self.y_range)
        for tick in heights if y_ticks else []:
            place = self.y(tick)
            axes.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place:.1f}" y2="{place:.1f}" stroke="var(--line)"/>'
            )
            axes.append(f'<text x="{LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{tick:g}</text>')
        axes.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(self.x_name)}</text>')
        axes.append(f'<text class="title" x="4" y="15">{escape(self.title)}</text>')
        legend = " · ".join(
            f'<tspan style="fill:{colour}">{escape(name)}</tspan>' for colour, name in zip(_colours(len(names)), names)
        )
        title = escape(f"{self.title} over {self.x_name}: {', '.join(names)}", quote=True)
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{"".join(axes)}{content}'
            f'<text x="{LEFT}" y="{HEIGHT - 4}">{legend}</text></svg>'
        )


def _padded(low: float, high: float, share: float) -> tuple[float, float]:
    if high <= low:
        return low - 0.5, high + 0.5
    return low - share * (high - low), high + share * (high - low)


def _ticks(low: float, high: float) -> list[float]:
    step = 10 ** np.floor(np.log10((high - low) / 4))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= 6)
    return [round(float(t), 10) + 0.0 for t in np.arange(np.ceil(low / step) * step, high + 1e-9, step)]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten between 10^low and 10^high; the powers alone where those are many."""
    powers = 10.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
    ticks = np.outer(powers, (1, 2, 5) if high - low < 2 else (1,)).ravel()
    return [float(t) for t in ticks if low <= np.log10(t) <= high]

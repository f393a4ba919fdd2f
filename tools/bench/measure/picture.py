"""Pictures as SVG by matplotlib, the same bytes for the same figures. Nothing is imported before something is drawn."""

import importlib.util
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

PACKAGE = "python3-matplotlib"
DPI = 72  # of SVG in matplotlib: a pixel is a point
# From a point: to the right, the left, above, below, then between.
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
POINT, NEAR, FARTHEST = 5, 7, 240  # pixels: half a point's width, a label's distance from it, the most of that

Box = tuple[float, float, float, float]  # left, bottom, right, top


def lacking() -> str:
    """The message where nothing can be drawn, or ""."""
    return "" if importlib.util.find_spec("matplotlib") else f"pictures take matplotlib: apt-get install {PACKAGE}"


def figure(width: float, height: float, title: str = "", rows: int = 1, columns: int = 1, **options: Any) -> Any:
    """(figure, axes: one, or an array of them); width and height in pixels. options: of Figure.subplots."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # pylint: disable=import-outside-toplevel
    from matplotlib.figure import Figure  # pylint: disable=import-outside-toplevel

    matplotlib.rcdefaults()  # whatever this user has chosen
    # Without a fixed salt every drawing has other names inside; text stays text.
    matplotlib.rcParams.update({"svg.hashsalt": "horing", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                                "grid.color": "#dddddd", "axes.axisbelow": True, "legend.frameon": False})
    drawn = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, layout="constrained")
    FigureCanvasAgg(drawn)
    drawn.suptitle(title)
    return drawn, drawn.subplots(rows, columns, **options)


def save(drawn: Any, path: object) -> None:
    drawn.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def legend_beside(axes: Any, **options: Any) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, **options)


def logarithmic_sizes(axes: Any, sizes: Sequence[int], words: Sequence[str]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, words, rotation=45 if len(sizes) > 6 else 0)
    axes.minorticks_off()


def overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def around(x: float, y: float, width: float, height: float) -> Iterator[Box]:
    """Where a label of that size may stand beside a point, the nearest first."""
    for distance in range(NEAR, FARTHEST, 3):
        for right, up in DIRECTIONS:
            away = distance / math.hypot(right, up)
            left = x + right * away + (right - 1) * width / 2
            bottom = y + up * away + (up - 1) * height / 2
            yield left, bottom, left + width, bottom + height


def free_boxes(points: Sequence[tuple[float, float]], sizes: Sequence[tuple[float, float]], bounds: Box) -> list[Box]:
    """For each point's label a place inside the bounds that covers no point and no other label; where there is none,
    the nearest one."""
    taken = [(x - POINT, y - POINT, x + POINT, y + POINT) for x, y in points]
    boxes = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        first = next(around(x, y, width, height))
        free_box = next((box for box in around(x, y, width, height)
                      if box[0] >= bounds[0] and box[1] >= bounds[1] and box[2] <= bounds[2] and box[3] <= bounds[3]
                      and not any(overlap(box, other) for other in itertools.chain(taken, boxes))), first)
        boxes.append(free_box)
    return boxes


def label_points(drawn: Any, axes: Any, points: Sequence[tuple[float, float]], words: Sequence[str]) -> None:
    """Writes texts beside points, none over another; a thin line leads to a label that stands further away."""
    drawn.draw_without_rendering()  # settles where the axes are
    drawn.set_layout_engine("none")
    renderer = drawn.canvas.get_renderer()
    labels = [axes.annotate(word, point, fontsize=8, va="bottom", ha="left") for word, point in zip(words, points)]
    pixels = [tuple(axes.transData.transform(point)) for point in points]
    extents = [label.get_window_extent(renderer) for label in labels]
    bounds = axes.get_window_extent(renderer).extents
    boxes = free_boxes(pixels, [(e.width, e.height) for e in extents], tuple(bounds))
    for label, point, (x, y), box in zip(labels, points, pixels, boxes):
        far = max(box[0] - x, x - box[2], box[1] - y, y - box[3]) > 2 * NEAR
        axes.annotate(label.get_text(), point, xytext=(box[0] - x, box[1] - y), textcoords="offset points",
                      fontsize=8, va="bottom", ha="left",
                      arrowprops={"arrowstyle": "-", "color": "#888888", "linewidth": 0.6} if far else None)
        label.remove()


def legend_below(drawn: Any, entries: Sequence[tuple[Any, str]]) -> None:
    """entries: (what is drawn, its name). One line below everything, in room that is kept for it."""
    height = 24 / (drawn.get_size_inches()[1] * DPI)
    drawn.get_layout_engine().set(rect=(0, height, 1, 1 - height))
    drawn.legend(*zip(*entries), loc="lower center", ncols=len(entries))

"""Charts as plain values: what page.js is given to draw, and a sentence for those who do not see it.

A chart has views, of which one is shown: the same curves over another axis, or another class. A view is made of curves;
`keys` are what the legend lists, and a key may belong to several curves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..experiments.lab import Plot

POINTS = 12_000  # in one view: beyond that nobody sees more, and the file grows
MOST = 40  # binary problems in a chart: a hundred classes have 4950 pairs
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
PALETTE = 8  # colours of page.css


@dataclass
class View:
    """One pair of axes. `x` and `y` hold title, log, range, ticks (texts at 0, 1, ...) and reversed."""

    label: str
    x: dict[str, Any]
    y: dict[str, Any]
    curves: list[dict[str, Any]] = field(default_factory=list)
    keys: list[dict[str, Any]] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)  # lines across, with a text
    height: int | None = None
    summary: str = ""

    def key(self, name: str, style: int, *, off: bool = False, **look) -> int:
        """A line of the legend in the style of that number: colours first, then dashes."""
        look = {"dash": DASHES[style // PALETTE % len(DASHES)]} | look
        self.keys.append({"name": name, "colour": style % PALETTE, "off": off} | look)
        return len(self.keys) - 1

    def draw(self, key: int, x, y, *, kind: str = "line", name: str | None = None, **more) -> None:
        """A curve of that key; `kind` is line, marks or steps. Points that an axis cannot show are left out."""
        x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        shown = np.isfinite(x) & np.isfinite(y)
        shown &= (x > 0) | (not self.x.get("log"))
        shown &= (y > 0) | (not self.y.get("log"))
        look = self.keys[key]
        look["kind"] = kind
        curve = {"name": look["name"] if name is None else name, "kind": kind, "key": key, "colour": look["colour"]}
        curve |= {"dash": look["dash"], "x": x[shown], "y": y[shown]} | more
        if "error" in curve:
            curve["error"] = np.asarray(curve["error"], dtype=float)[shown]
        self.curves.append(curve)

    def value(self) -> dict[str, Any]:
        """For JSON, with fewer points where they are too many."""
        most = max(2, POINTS // max(1, len(self.curves)))
        found = {name: getattr(self, name) for name in ("label", "keys", "rules", "height")}
        found |= {name: getattr(self, name) | {"decades": self._decades(name)} for name in ("x", "y")}
        return found | {"curves": [_thin(curve, most) for curve in self.curves]}

    def _decades(self, axis: str) -> float:
        """That a logarithmic axis spans; 0 for others."""
        values = [curve[axis] for curve in self.curves if len(curve[axis])]
        if not (getattr(self, axis).get("log") and values):
            return 0.0
        together = np.concatenate(values)
        return float(np.log10(together.max() / together.min()))


def _thin(curve: dict[str, Any], most: int) -> dict[str, Any]:
    """Plain numbers of six digits, and at most so many points, the first and the last among them."""
    n = len(curve.get("x", ()))
    places = np.linspace(0, n - 1, min(n, most)).round().astype(int)
    along = {name: curve[name] for name in ("x", "y", "error", "notes") if name in curve and curve["kind"] != "heat"}
    return curve | {name: [_plain(values[i]) for i in places] for name, values in along.items()}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else float(f"{float(value):.6g}")


def from_plot(plot: Plot) -> View:
    """The view of a Plot. An axis on which nothing is above 0 cannot be logarithmic."""
    pairs = [(np.asarray(x, dtype=float), np.asarray(y, dtype=float)) for x, y in plot.curves.values()]
    log_x = plot.log_x and any(np.any(x > 0) for x, _ in pairs)
    log_y = plot.log_y and any(np.any(y > 0) for _, y in pairs)
    view = View(plot.x, {"title": plot.x, "log": log_x}, {"title": plot.y, "log": log_y})
    for style, (name, (x, y)) in enumerate(zip(plot.curves, pairs, strict=True)):
        view.draw(view.key(name, style), x, y, kind="marks" if plot.marks else "line")
    view.summary = summarise(view)
    return view


def summarise(view: View, most: int = 6) -> str:
    """What the curves do, in words."""
    drawn = [curve for curve in view.curves if len(curve["x"])]
    if not drawn:
        return "There is nothing to draw."
    axes = f"{view.y['title']} against {view.x['title']}"
    if len(drawn) > most:
        values = np.concatenate([curve["y"] for curve in drawn])
        return f"{len(drawn)} curves of {axes}, between {values.min():.4g} and {values.max():.4g}."
    words = [_course(curve) for curve in drawn]
    return f"{axes[0].upper()}{axes[1:]}. " + " ".join(words)


def _course(curve: dict[str, Any]) -> str:
    x, y = curve["x"], curve["y"]
    name = f"{curve['name']}: " if curve["name"] else ""
    if len(x) == 1:
        return f"{name}{y[0]:.4g} at {x[0]:.4g}."
    if curve["kind"] == "marks":
        return f"{name}{len(x)} points, {y.min():.4g} to {y.max():.4g}."
    first, last = np.argmin(x), len(x) - 1 - np.argmax(x[::-1])
    return f"{name}from {y[first]:.4g} at {x[first]:.4g} to {y[last]:.4g} at {x[last]:.4g}."


def bars(label: str, names: Sequence[str], values: Sequence[float], title: str) -> View:
    """Weights as horizontal bars from the top, to the right and left of 0 in two colours."""
    view = View(label, {"title": title}, {"title": "", "ticks": [shorten(name) for name in names], "reversed": True})
    places = np.arange(len(names))
    curve = {"name": "weight", "kind": "bars", "colour": 0, "x": np.asarray(values, dtype=float), "y": places}
    view.curves = [curve | {"notes": list(names)}]
    view.height = 70 + 22 * max(len(names), 3)
    parts = [f"{name} {value:+.3g}" for name, value in zip(names, values, strict=True)]
    view.summary = f"{title}: {'; '.join(parts) or 'none'}."
    return view


def heat(title: str, names: Sequence[str], counts: np.ndarray) -> View:
    """Counts as shades, by the root of the share of each row: rare mistakes are seen too."""
    ticks = [shorten(name, 14) for name in names]
    view = View("", {"title": "predicted", "ticks": ticks}, {"title": "true", "ticks": ticks, "reversed": True})
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    places = list(range(len(names)))
    curve = {"name": title, "kind": "heat", "colour": 0, "x": places, "y": places, "names": list(names)}
    view.curves = [curve | {"counts": counts.tolist(), "z": np.round(np.sqrt(share), 3).tolist()}]
    view.height = 480
    found = np.diag(share)
    view.summary = f"{len(names)} classes, of which between {found.min():.1%} and {found.max():.1%} are found."
    return view


def shorten(name: str, longest: int = 24) -> str:
    """Without its middle, where it is long."""
    name = " ".join(str(name).split())
    half = (longest - 1) // 2
    return name if len(name) <= longest else f"{name[:half]}…{name[-half:]}"

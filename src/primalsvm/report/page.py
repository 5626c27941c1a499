"""A page: headings, facts, tables, charts and verdicts in one HTML file. Whatever comes from data is escaped.

The file is closed to the outside: its content security policy allows no request at all, and only the two scripts that
are in it may run, which are named by their digests.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..experiments.lab import Plot, Table, Verdict
from .charts import View, from_plot

SIGN, UNIT, NOTHING = r"[-+\u2212\u00b1<>\u2264\u2265~]?\s*", r"\s*(%|s|ms|x|\u00d7|\*)?", r"|-|\u2013|inf|nan|"
NUMBER = re.compile(rf"{SIGN}[\d.,]+(e[-+]?\d+)?(\s*(\u00b1|\+-)\s*[\d.e-]+)?{UNIT}{NOTHING}", re.IGNORECASE)
LONG = 24  # characters of a fact that takes two columns, and of a heading that takes a line of the contents
FEW = 6  # views with a button each; more are a list
BADGES = {True: ("held", "✓ held"), False: ("fell", "✗ refuted"), None: ("open", "? too small to tell")}


def library() -> str:
    """plotly.js, which plotly's Python package brings with it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError('reports draw with plotly, which is missing: pip install "primalsvm[report]"') from error
    return get_plotlyjs()


class Page:
    """A page that grows from top to bottom. Each method adds one thing and returns the page.

    Parameters
    ----------
    title, subtitle : str
    """

    def __init__(self, title: str, subtitle: str = ""):
        self.title, self.subtitle = title, subtitle
        self.body: list[str] = []
        self.contents: list[tuple[str, str]] = []  # id and heading
        self.open: list[int] = []  # levels of the sections that are open
        self.count = 0

    def section(self, heading: str, text: str = "", *, level: int = 2) -> "Page":
        """Begin a section; one of level 3 is inside the last one of level 2."""
        if level not in (2, 3) or (level == 3 and not self.open):
            raise ValueError(f"a section is of level 2, or of level 3 inside one of level 2; got {level!r}.")
        self._close(level)
        name = self._id("part")
        self.open.append(level)
        self.body.append(f'<section aria-labelledby="{name}"><h{level} id="{name}">{escape(heading)}</h{level}>')
        if level == 2:
            self.contents.append((name, heading))
        return self.text(text)

    def text(self, text: str, kind: str = "") -> "Page":
        """A paragraph, or several with empty lines between them. `kind`: "claim" is set large, "warning" stands out."""
        role = f' class="{escape(kind)}"' if kind else ""
        self.body += [f"<p{role}>{escape(part.strip())}</p>" for part in re.split(r"\n\s*\n", text) if part.strip()]
        return self

    def code(self, text: str) -> "Page":
        """What is typed: a command."""
        self.body.append(f'<pre tabindex="0"><code>{escape(text)}</code></pre>')
        return self

    def more(self, heading: str, text: str) -> "Page":
        """A text that opens when it is asked for, as it is written."""
        if text:
            self.body.append(f"<details><summary>{escape(heading)}</summary><pre>{escape(text)}</pre></details>")
        return self

    def facts(self, facts: Mapping[str, Any]) -> "Page":
        """Names and values; those that are None are left out."""
        lines = []
        for name, value in facts.items():
            if value is not None:
                words = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
                long = ' class="long"' if len(words) > LONG else ""
                lines.append(f"<div{long}><dt>{escape(name)}</dt><dd>{escape(words)}</dd></div>")
        if lines:
            self.body.append(f'<dl class="facts">{"".join(lines)}</dl>')
        return self

    def table(self, table: Table, *, chosen: int | None = None) -> "Page":
        """A table, whose first column names the rows; `chosen` is the row to stand out."""
        columns = range(len(table.header))
        right = [k > 0 and all(NUMBER.fullmatch(row[k].strip()) for row in table.rows) for k in columns]
        cells = [[_cell(word, right[k], k == 0) for k, word in enumerate(row)] for row in table.rows]
        rows = [
            f'<tr class="chosen">{"".join(row)}</tr>' if i == chosen else f"<tr>{''.join(row)}</tr>"
            for i, row in enumerate(cells)
        ]
        return self._table(table.title, [_head(word, right[k]) for k, word in enumerate(table.header)], rows)

    def matrix(
        self, title: str, names: Sequence[str], counts: np.ndarray, columns: Sequence[str] | None = None
    ) -> "Page":
        """Counts, true classes down and predicted ones across, shaded by the share of the row."""
        header = [
            _head("true \\ predicted", False),
            *(_head(name, True) for name in (names if columns is None else columns)),
        ]
        rows = []
        for name, line in zip(names, counts, strict=True):
            shares = line / max(line.sum(), 1)
            cells = [
                f'<td class="number share" style="--share:{s:.3f}">{c:,}</td>'
                for c, s in zip(line, shares, strict=True)
            ]
            rows.append(f"<tr>{_cell(name, False, True)}{''.join(cells)}</tr>")
        return self._table(title, header, rows, "scroll free")

    def _table(self, title: str, header: list[str], rows: list[str], box: str = "scroll") -> "Page":
        name = self._id("table")
        head = f"<thead><tr>{''.join(header)}</tr></thead><tbody>{''.join(rows)}</tbody>"
        self.body.append(
            f'<div class="{box}" tabindex="0" role="region" aria-labelledby="{name}">'
            f'<table><caption id="{name}">{escape(title)}</caption>{head}</table></div>'
        )
        return self

    def plot(self, plot: Plot, *others: Plot) -> "Page":
        """A chart: hover, zoom, and a legend whose names hide and show their curves.

        With `others` there are several views of it and a switch between them, each called by the name of its x axis,
        or by its title where these are the same.
        """
        plots = [plot, *others]
        views = [from_plot(each) for each in plots]
        if len({view.label for view in views}) < len(views):
            for view, each in zip(views, plots, strict=True):
                view.label = each.title
        return self.chart(plot.title, views)

    def chart(self, title: str, views: Sequence[View], text: str = "") -> "Page":
        """A chart of one view or more; `text` says what to see, and the summaries are for those who cannot."""
        name = self._id("chart")
        said = escape(" ".join(f"{view.label}: {view.summary}" if len(views) > 1 else view.summary for view in views))
        data = json.dumps(
            [view.value() for view in views], ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_item
        )
        shown = f"<span>{escape(text)}</span>" if text else ""
        hint = "Keys: ← → point, ↑ ↓ curve, + and - zoom, 0 the whole"
        self.body.append(
            f'<figure class="plot" id="{name}"><figcaption id="{name}-title"><strong>{escape(title)}</strong>{shown}'
            f'<span class="hidden">{said}</span></figcaption>'
            f'<div class="controls" hidden>{_switch(name, views)}'
            f'<div class="keys" role="group" aria-label="Curves of {escape(title)}"></div></div>'
            f'<div class="chart" tabindex="0" role="group" aria-roledescription="chart" aria-labelledby="{name}-title" '
            f'aria-describedby="{name}-hint"></div><p class="hint" id="{name}-hint">{hint}</p>'
            '<div class="live hidden" aria-live="polite"></div><details><summary>Numbers</summary>'
            f'<div class="scroll" tabindex="0" role="region" aria-label="Numbers of {escape(title)}"><table>'
            "<thead></thead><tbody></tbody></table></div></details>"
            f'<script type="application/json">{_harmless(data)}</script>'
            "<noscript><p>The chart needs JavaScript; the text and the tables do not.</p></noscript></figure>"
        )
        return self

    def verdict(self, *verdicts: Verdict) -> "Page":
        """Claims, and whether they held."""
        lines = []
        for one in verdicts:
            kind, words = BADGES[one.held]
            says = f'<p>{escape(one.claim)}</p><p class="figures">{escape(one.figures)}</p>'
            lines.append(f'<li><span class="badge {kind}">{words}</span><div>{says}</div></li>')
        if lines:
            self.body.append(f'<ul class="verdicts">{"".join(lines)}</ul>')
        return self

    def html(self) -> str:
        """The whole file."""
        charts = any('class="plot"' in part for part in self.body)
        own = files(__package__)
        script, style = ((own / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
        scripts = [library(), script] if charts else [script]
        digests = " ".join(f"'sha256-{_digest(each)}'" for each in scripts)
        policy = f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data: blob:"
        links = "".join(f'<li><a href="#{name}">{escape(heading)}</a></li>' for name, heading in self.contents)
        lines = ' class="lines"' if any(len(heading) > 2 * LONG for _, heading in self.contents) else ""
        subtitle = f'<p class="subtitle">{escape(self.subtitle)}</p>' if self.subtitle else ""
        body = "\n".join([*self.body, *("</section>" for _ in self.open)])
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="primalsvm">
<title>{escape(self.title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#content">To the content</a>
<header><div class="wide">
<div class="names"><h1>{escape(self.title)}</h1>{subtitle}</div>
<button type="button" class="theme" aria-pressed="false" hidden>Dark</button>
</div></header>
<nav aria-label="Contents"><div class="wide"><ul{lines}>{links}</ul></div></nav>
<main id="content" class="wide" tabindex="-1">
{body}
</main>
<footer><div class="wide">Made by primalsvm. This file is whole: it asks nothing of the network.</div></footer>
{"".join(f"<script>{each}</script>" for each in scripts)}
</body>
</html>
"""

    def write(self, path: str | Path) -> Path:
        """Write the file; its path."""
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def _close(self, level: int) -> None:
        while self.open and self.open[-1] >= level:
            self.open.pop()
            self.body.append("</section>")

    def _id(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"


def _cell(word: str, right: bool, first: bool) -> str:
    kind = ' class="number"' if right else ""
    return f'<th scope="row"{kind}>{escape(word)}</th>' if first else f"<td{kind}>{escape(word)}</td>"


def _head(word: str, right: bool) -> str:
    return f'<th scope="col"{" class=number" if right else ""}>{escape(word)}</th>'


def _switch(name: str, views: Sequence[View]) -> str:
    if len(views) < 2:
        return ""
    if len(views) > FEW:
        options = "".join(f'<option value="{k}">{escape(view.label)}</option>' for k, view in enumerate(views))
        return f'<label>Show <select autocomplete="off">{options}</select></label>'
    radios = [
        f'<label><input type="radio" name="{name}" value="{k}" autocomplete="off"{" checked" if k == 0 else ""}>'
        f"<span>{escape(view.label)}</span></label>"
        for k, view in enumerate(views)
    ]
    return f'<fieldset class="switch"><legend class="hidden">Show</legend>{"".join(radios)}</fieldset>'


def _harmless(data: str) -> str:
    """JSON inside a script element: nothing in it may end the element or begin a comment."""
    return data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _item(value: Any) -> Any:
    """NumPy's numbers as Python's, for JSON."""
    return value.item()

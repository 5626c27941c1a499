"""Formulas as MathML, made while the site is built: browsers draw it by themselves, with no script and no request.

The converter is docutils' own. The font is STIX Two Math, which ziamath brings, cut down to the characters that the
formulas of the site use; a browser without it would fall back on whatever the reader's system has.
"""

import re
from collections.abc import Iterable
from html import unescape
from pathlib import Path

import ziamath
from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from fontTools import subset
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
FONT = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"
SHORT_FRACTION = re.compile(r"(\\[td]?frac)\s*(\d)(\d)")  # \tfrac12, of which docutils makes twelve over what follows
BARS = re.compile(r"<mo[^>]*>([|‖⟨⟩⌊⌋])</mo>")
FORMULA = re.compile(r"<math\b.*?</math>", re.DOTALL)


def convert(node: nodes.Node, display: bool) -> str:
    source = SHORT_FRACTION.sub(r"\1{\2}{\3}", node.astext().strip())
    if display and r"\\" in source and r"\begin" not in source:
        source = rf"\begin{{aligned}}{source}\end{{aligned}}"
    try:
        text = latex2mathml.tex2mathml(source, as_block=display)
    except MathError as error:
        logger.warning("no MathML of %r: %s", source, error, location=node)
        return ""
    return BARS.sub(_upright, re.sub(r">\s+<", "><", text))


def _upright(found: re.Match) -> str:
    """A bar or an angle as high as a letter; a bar as close to what it encloses as a bracket."""
    close = ' lspace="0" rspace="0"' if found[1] in "|‖" else ""
    return f'<mo stretchy="false"{close}>{found[1]}</mo>'


def _characters(pages: Iterable[Path]) -> set[str]:
    """Those of all formulas, and the italic ones that a browser draws for single letters."""
    formulas = (formula for page in pages for formula in FORMULA.findall(page.read_text("utf-8")))
    plain = {c for formula in formulas for c in unescape(re.sub(r"<[^>]*>", "", formula))}
    italic = {chr(0x1D44E + ord(c) - ord("a")) for c in plain if "a" <= c <= "z"}
    italic |= {chr(0x1D434 + ord(c) - ord("A")) for c in plain if "A" <= c <= "Z"}
    italic |= {chr(0x1D6FC + ord(c) - 0x3B1) for c in plain if 0x3B1 <= ord(c) <= 0x3C9}  # alpha to omega
    return plain | italic | {"\N{PLANCK CONSTANT}"}  # where the italic h stands


def visit_inline(self, node):
    self.body.append(f'<span class="math">{convert(node, False)}</span>')
    raise nodes.SkipNode


def visit_display(self, node):
    self.body.append(f'<div class="math" tabindex="0">{convert(node, True)}</div>')
    raise nodes.SkipNode


def write_font(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    options = subset.Options(flavor="woff", layout_features=["*"], notdef_outline=True)
    font = subset.load_font(FONT, options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[ord(c) for c in _characters(Path(app.outdir).rglob("*.html"))])
    cutter.subset(font)
    # y and x have their indices at the same height: how far a letter goes down should not count
    font["MATH"].table.MathConstants.SubscriptBaselineDropMin.Value = 0
    subset.save_font(font, app.outdir / "_static" / "math.woff", options)


def setup(app: Sphinx):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.config.html_math_renderer = "mathml"
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

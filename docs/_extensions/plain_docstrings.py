"""Docstrings as they are written here, made safe for reStructuredText before napoleon reads them.

What a solver does stands at the head of its file, and so it does in the reference.
They are plain text: |x| is a norm, coef_ an attribute, an indented block a formula or a table, to be shown as it is.
"""

import inspect
import re
import sys

from sphinx.application import Sphinx

FINISHED = re.compile(r"(``.*?``|`[^`]+`|:\w+:`[^`]+`)")
ATTRIBUTE = re.compile(r"(?<![\w.\\])([A-Za-z][\w.]*_)(?!\w)(?P<place>\[[^\]]*\])?")
SECTION = re.compile(r"^-{3,}$")
TYPE = re.compile(r"\{|ndarray|array|list|dict|int|float|bool|str|callable|sequence|matplotlib|CSR")
HIDDEN = {"get_metadata_routing", "get_params", "set_params", "score"}


def _safe(line: str) -> str:
    """Outside of what is marked as code already."""
    parts = FINISHED.split(line)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"(?<!\\)\|", r"\\|", parts[k])
        parts[k] = ATTRIBUTE.sub(lambda found: f"``{found[0]}``", parts[k])
    return "".join(parts)


def process(app, what, name, obj, options, lines: list[str]) -> None:
    if what in ("attribute", "property") and lines:  # napoleon would take what is before it for a type
        lines[:1] = re.split(r"(?<=:) ", lines[0], maxsplit=1)
    if what == "class" and (name.startswith("primalsvm.solvers.") or "the module's text" in "".join(lines)):
        lines += ["", *inspect.cleandoc(sys.modules[obj.__module__].__doc__).splitlines(), ""]
    made: list[str] = []
    indented = in_sections = False  # below the first "Parameters" an indent has another meaning
    for k, line in enumerate(lines):
        follows = lines[k + 1] if k + 1 < len(lines) else ""
        in_sections = in_sections or bool(SECTION.match(follows))
        if line.strip().startswith((">>>", "...", "..")) or (indented and (line.startswith("    ") or not line)):
            made.append(line)
            continue
        indented = False
        if line.startswith("    ") and not in_sections and k and not lines[k - 1].strip():
            indented = True
            if not _of_directive(made):
                made += [".. code-block:: none", ""]
            made.append(line)
            continue
        # a heading of parameters, "name : type", keeps its name as it is: napoleon marks it
        head, colon, rest = line.partition(" : ") if in_sections and not line.startswith(" ") else (line, "", "")
        if colon and _is_prose(rest, follows):
            made += [f"{head} :", f"    {_safe(rest)}"]
        elif colon:
            made.append(head + colon + _safe(rest))
        else:
            made.append(line if _is_heading(line, in_sections) else _safe(line))
    lines[:] = made


def _is_prose(text: str, follows: str) -> bool:
    """Where a type is expected: a sentence, or one that goes on in the next line."""
    goes_on = follows.startswith(" ") and follows.strip()[:1].islower() and not TYPE.match(text)
    return text.endswith(".") or (goes_on and "default=" not in text)


def _is_heading(line: str, in_sections: bool) -> bool:
    return in_sections and bool(re.fullmatch(r"[\w, *]+", line))


def _of_directive(made: list[str]) -> bool:
    above = [line for line in made if line.strip()]
    return bool(above) and (above[-1].startswith("..") or above[-1].rstrip().endswith("::"))


def skip(app, what, name, obj, is_skipped, options):
    """scikit-learn's own methods are described there."""
    return True if name in HIDDEN or name.startswith("set_") else None


def setup(app: Sphinx):
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

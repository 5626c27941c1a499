"""README.md and docs/*.md as programs: their blocks of code run from top to bottom, and what they print is compared.

    ```python      runs, all blocks of a page in one namespace, warnings being errors
    ```sh          a line is a command: `primalsvm ...` runs in this process, also after `echo ... |`; others in a shell
    ```text        right below one of these: what it prints. So do comments that end a block, of its last lines

Not run, and looked at instead: `pip install` (its extras must exist), `make` (its target must exist) and
`python -m benchmarks...` (the module must exist). A page's prelude stands for what it leaves to the reader.

Words must be the same. Numbers may differ by one in a thousand. Gaps below the default tolerance, 0.1 % or written as
1e-9, depend on rounding and threads: another one below it will do. Seconds may be any, and all numbers may where the
fence says "numbers vary".

`python tests/pages.py docs/tutorial.md` writes what the blocks print now into the page.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import warnings
from pathlib import Path
from typing import NamedTuple

from primalsvm import Solver

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+\u2212]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?%?")
SECONDS = re.compile(r"\d+(?:\.\d+)?(?= s\b| ms\b)|(?<=^seconds)\s+[\d.]+")
FREE = 1e-3  # the default tolerance


class Block(NamedTuple):
    kind: str  # python or sh
    source: str
    line: int  # of the page
    shown: str | None  # what it prints, according to the page
    vary: bool  # its numbers
    place: tuple[int, int] | None  # of that text in the page, where it is a block of its own


def blocks(text: str) -> list[Block]:
    found, fences = [], list(FENCE.finditer(text))
    for k, fence in enumerate(fences):
        if fence[1] not in ("python", "sh"):
            continue
        shown, place, marks = _comments(fence[3]), None, fence[2]
        if k + 1 < len(fences) and fences[k + 1][1] == "text" and not text[fence.end() : fences[k + 1].start()].strip():
            shown, place, marks = fences[k + 1][3], fences[k + 1].span(3), fences[k + 1][2]
        line = text.count("\n", 0, fence.start()) + 2
        found.append(Block(fence[1], fence[3], line, shown, "numbers vary" in marks, place))
    return found


def _comments(source: str) -> str | None:
    """The comments that end a block, below a line that prints."""
    lines = source.rstrip().splitlines()
    k = len(lines)
    while k and lines[k - 1].startswith("# "):
        k -= 1
    return "\n".join(line[2:] for line in lines[k:]) if 0 < k < len(lines) else None


def run_page(page: Path, prelude: str = "") -> list[tuple[Block, str]]:
    """Run all blocks in the current folder: (block, what it printed)."""
    namespace: dict = {"__name__": "__main__"}
    exec(compile(prelude, f"prelude of {page.name}", "exec"), namespace)
    printed = []
    registered = dict(Solver.registry)
    for block in blocks(page.read_text("utf-8")):
        if block.kind == "python":
            code = compile("\n" * (block.line - 1) + block.source, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", "Liblinear failed to converge")  # which is what pages speak of
                exec(code, namespace)
            printed.append((block, out.getvalue()))
        else:
            printed.append((block, "".join(map(run_command, commands(block.source)))))
    Solver.registry.clear()
    Solver.registry.update(registered)  # a page may add one
    return printed


def commands(source: str) -> list[str]:
    lines = re.sub(r"\\\n\s*", " ", source).splitlines()
    return [re.sub(r"\s+# .*", "", line) for line in lines if line.strip() and not line.startswith("#")]


def run_command(line: str) -> str:
    words = shlex.split(line)
    if words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        asked = re.findall(r"primalsvm\[([\w,]+)\]", line)
        assert all(name in extras for names in asked for name in names.split(",")), line
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
    elif words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2]), line
    elif words[0] == "primalsvm":
        return _primalsvm(words[1:])
    elif words[0] == "echo" and words[2:4] == ["|", "primalsvm"]:
        return _primalsvm(words[4:], words[1] + "\n")
    else:
        return subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout
    return ""


def _primalsvm(words: list[str], stdin: str | None = None) -> str:
    from typer.testing import CliRunner

    from primalsvm.cli import app

    result = CliRunner(env={"COLUMNS": "88"}).invoke(app, words, input=stdin, prog_name="primalsvm")
    assert result.exit_code == 0, f"primalsvm {shlex.join(words)}: {result.stderr}"
    return result.stdout


def mistake(block: Block, printed: str) -> str:
    """What is wrong with the output that a page shows, in a sentence; comments show the last lines only."""
    if block.shown is None:
        return ""
    if block.place is None:
        printed = "\n".join(printed.rstrip().splitlines()[-len(block.shown.splitlines()) :])
    return difference(block.shown, printed, block.vary)


def difference(shown: str, printed: str, vary: bool = False) -> str:
    """The first, in a sentence; "" where there is none."""
    before, now = _lines(shown), _lines(printed)
    if len(before) != len(now):
        return f"the page shows {len(before)} lines, {len(now)} are printed:\n{printed}"
    for old, new in zip(before, now, strict=True):
        words = [re.sub(r"[\s─━]+", " ", NUMBER.sub("#", line)) for line in (old, new)]
        numbers = [NUMBER.findall(line) for line in (old, new)]
        if words[0] != words[1] or not (vary or all(map(_close, *numbers))):
            return f"the page shows  {old!r}\nprinted is      {new!r}"
    return ""


def _lines(text: str) -> list[str]:
    lines = (SECONDS.sub("0", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def _close(old: str, new: str) -> bool:
    if old == new:
        return True
    if old.endswith("%") != new.endswith("%"):
        return False
    a, b = (float(number.rstrip("%").replace("\N{MINUS SIGN}", "-")) for number in (old, new))
    if max(abs(a), abs(b)) <= (100 * FREE if old.endswith("%") else FREE) and ("e" in old or old.endswith("%")):
        return True
    last = 10.0 ** -len(old.rstrip("%").partition(".")[2]) if "e" not in old else 0.0  # its last digit may round up
    return abs(a - b) <= max(1e-3 * max(abs(a), abs(b)), 1.01 * last, 1e-8)


def write(page: Path) -> None:
    """Put what the blocks print into the page."""
    from test_docs import PRELUDES

    text = page.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        printed = run_page(page, PRELUDES.get(page.name, ""))
    for block, out in reversed(printed):
        if block.place and difference(block.shown or "", out, block.vary):
            begin, end = block.place
            out = "\n".join(line.rstrip() for line in out.strip("\n").splitlines())
            text = text[:begin] + out + "\n" + text[end:]
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    for name in sys.argv[1:]:
        write(Path(name).resolve())

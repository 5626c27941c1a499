"""What the commands say: progress, notes and errors on stderr, results on stdout."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from .chunks import Chunks
    from .readers import Data
    from .solve import Record


# --- errors, notes and progress: stderr -------------------------------------------------------------------------------


def say(text: str) -> None:
    """One line on stderr."""
    print(" ".join(text.split()), file=sys.stderr, flush=True)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn whatever bad input raises, and Ctrl-C, into one line and an exit code."""
    try:
        yield
        return
    except KeyboardInterrupt:
        say("interrupted before there was anything to keep")
        code = 130
    except BrokenPipeError:  # the reader of a pipe had enough, as head has; Python must not flush into it again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (ValueError, OSError, ImportError, MemoryError) as error:
        where, what = getattr(error, "filename", None), getattr(error, "strerror", None)
        say("error: " + (f"{where}: {what}" if where and what else str(error) or "not enough memory"))
        code = 1
    raise typer.Exit(code)


BAR = 20  # characters


class Progress:
    """One live line on stderr where that is a terminal; nothing elsewhere."""

    def __init__(self, quiet: bool = False):
        self.live: Any = None
        self.passing = ""
        self.say("")
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(self, console=Console(stderr=True), transient=True, refresh_per_second=8)

    def __enter__(self) -> Progress:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *exception) -> None:
        self.stop()

    def stop(self) -> None:
        if self.live is not None:
            self.live.stop()

    def say(self, text: str) -> None:
        self.text, self.begin = text, time.perf_counter()

    def say_done(self, what: str, done: int, total: int) -> None:
        """How many of them are done, with a bar; the clock runs on."""
        filled = BAR * done // max(total, 1)
        self.text = f"{what} {done} of {total} {'━' * filled}{'─' * (BAR - filled)}"

    def say_share(self, what: str, share: float) -> None:
        """How much of it is done, with a bar; the clock runs on."""
        filled = int(BAR * min(max(share, 0.0), 1.0))
        self.text = f"{what} {'━' * filled}{'─' * (BAR - filled)}"

    def follow(self, data: Data) -> Data:
        """Show the passes over data that comes in pieces."""
        if hasattr(data.X, "watch"):
            data.X.watch = self.watch
        return data

    def watch(self, chunks: Chunks) -> None:
        count, part = divmod(chunks.passes, 1.0)
        filled = int(BAR * part)
        self.passing = f"pass {int(count) + 1} {'━' * filled}{'─' * (BAR - filled)}  "

    def record(self, record: Record) -> None:
        from .certificate import relative_gap

        bounds = f"primal {record.primal:.7g}  dual {record.dual:.7g}"
        self.text = f"step {record.iteration}  {bounds}  relative gap {relative_gap(record.primal, record.dual):.1e}"

    def __rich__(self):
        from rich.text import Text

        return Text.assemble(self.passing, self.text, (f"  {time.perf_counter() - self.begin:.1f} s", "dim"))


def check_output(output: Path | None, *inputs: Path | None) -> None:
    """Say before the work that its result could not be written, not after it."""
    if output is None:
        return
    folder = Path(os.path.realpath(output)).parent
    if not folder.is_dir():
        raise OSError(f"{output}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise OSError(f"{output}: the folder {folder} may not be written to; check its permissions")
    if output.exists() and not output.is_file():
        raise OSError(f"{output}: this is no regular file; name another one to write to")
    if output.exists() and any(path is not None and path.exists() and path.samefile(output) for path in inputs):
        raise OSError(f"{output}: this is an input too; name another file to write to")


# --- results: stdout --------------------------------------------------------------------------------------------------

FORMATS = {"seconds": ".2f", "primal": ".9g", "dual": ".9g", "relative_gap": ".2e", "train_error": ".2%"}
FORMATS |= {"test_error": ".2%", "C": "g", "passes": ".1f", "exact_gap": ".2%", "score": ".2%"}
STYLES = {"certificate": "bold", "warning": "yellow"}


def short_list(words: list[str], most: int = 8) -> str:
    return ", ".join(words[:most]) + (", ..." if len(words) > most else "")


def _rows(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The lines of the table."""
    for name, value in report.items():
        if name == "classes":
            yield name, f"{len(value)}: " + short_list([f"{label} ({count})" for label, count in value.items()])
        elif name == "parts":
            worst = max(part["relative_gap"] for part in value)
            yield "parts", f"{len(value)} binary problems, the worst with a relative gap of {worst:.2e}"
        elif name == "warnings":
            yield from (("warning", remark) for remark in value)
        elif name == "model" and value is None:
            yield name, "not saved; -o FILE saves it"
        elif name not in ("excess", "grid") and value is not None:
            yield name.replace("_", " "), format(value, FORMATS.get(name, ""))


def print_report(report: dict[str, Any], as_json: bool, quiet: bool = False) -> None:
    if as_json:  # infinity is no JSON: null
        print(json.dumps(json.loads(json.dumps(report), parse_constant=lambda _: None)))
    elif quiet:
        for remark in report["warnings"]:
            say(f"warning: {remark}")
    else:
        from rich.console import Console
        from rich.text import Text

        console = Console()
        for name, value in _rows(report):
            console.print(Text.assemble((f"{name:<14}", "dim"), (value, STYLES.get(name, ""))), soft_wrap=True)

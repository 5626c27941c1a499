"""What an experiment is given and what it hands back.

    def run(lab: Lab) -> Outcome

`lab` knows how large the experiment should be, where data are, and whom to tell what is going on. An Outcome has the
claims of the paper with a verdict each, and tables and plots as plain values: the terminal, the report and the tests
show and check the same ones.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..matrix import one_blas_thread

Scale = Literal["toy", "small", "full"]  # seconds for all together; half a minute each; minutes each, the paper's sizes


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper, whether it held here, and the figures that say so."""

    claim: str  # one sentence
    held: bool | None  # None: this run is too small to tell, which `figures` then says
    figures: str


@dataclass(frozen=True)
class Table:
    title: str
    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Plot:
    """Curves over one pair of axes."""

    title: str
    x: str  # names of the axes, with units
    y: str
    curves: dict[str, tuple[np.ndarray, np.ndarray]]
    log_x: bool = False
    log_y: bool = False
    marks: bool = False  # points that are not joined


@dataclass(frozen=True)
class Outcome:
    verdicts: list[Verdict]
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what a reader must know, such as data that were made up


@dataclass
class Lab:
    """The scale, the data and the progress of one run."""

    scale: Scale = "small"
    home: Path | None = None  # folder with the data
    threads: int = 1
    tell: Callable[[str, float], Any] = lambda what, share: None  # what is going on, and the share that is done
    notes: list[str] = field(default_factory=list)

    def pick(self, toy: Any, small: Any, full: Any) -> Any:
        """The value for the scale."""
        return {"toy": toy, "small": small, "full": full}[self.scale]

    @property
    def toy(self) -> bool:
        """Too small for times and errors to mean anything: such verdicts are None."""
        return self.scale == "toy"


def seconds(
    work: Callable[[], Any], repeat: int = 1, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Any]:
    """(the least time that `work` took, what it returned)"""
    best, result = np.inf, None
    for _ in range(repeat):
        begin = clock()
        result = work()
        best = min(best, clock() - begin)
    return best, result


def cpu_seconds(work: Callable[[], Any], repeat: int = 1) -> tuple[float, Any]:
    """The same in processor time, which others on the machine do not change: of methods on one thread."""
    with one_blas_thread():
        return seconds(work, repeat, time.process_time)


def exponent(x: Any, y: Any) -> float:
    """The a of the power law y ~ x^a that fits best: least squares of the logarithms."""
    return float(np.polyfit(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)), 1)[0])

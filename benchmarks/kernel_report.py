"""From the lines of `benchmarks.kernel` to its tables, its bars and its figure."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .kernel_peers import INTELEX, LIBSVM, LIBSVM_ONE, OURS, PEERS, SIDES, SKLEARN, THUNDER
from .linear_report import mean

GOALS = (1e-3, 1e-6)
TIGHT = ("usps", "pendigits", "a9a")  # to be certified at 1e-6 too
BARS = {"fastest peer": 2.0, SKLEARN.name: 8.0, "mnist": 2.0, "error": 0.2}
AGAIN = 1.01  # of the goal: what a fit has proven the judge finds again, but for rounding
ERROR_FROM = (LIBSVM, LIBSVM_ONE, SKLEARN, INTELEX, THUNDER)  # ours is held against the first that has an error
FIGURES = {  # what goes with a time: name, format, factor
    "relative_gap": ("gap", "{:.1e}", 1.0),
    "test_error": ("test error %", "{:.2f}", 100.0),
    "predict_seconds": ("predict s", "{:.3f}", 1.0),
    "memory": ("memory MB", "{:.0f}", 1e-6),
    "n_support": ("support vectors", "{:.0f}", 1.0),
    "compile_seconds": ("first fit s", "{:.2f}", 1.0),
}


class Time(NamedTuple):
    """How soon a side got to a goal, and by which rung."""

    seconds: float | None  # None: it did not
    above: float | None = None  # seconds of the fit that was killed where it had not got there yet
    gap: float | None = None  # the least of all rungs
    runs: tuple[dict, ...] = ()  # those of the rung

    def median(self, name: str) -> float:
        """Of something about the rung's runs; nan where there are none."""
        return float(np.median([run[name] for run in self.runs])) if self.runs else float("nan")

    @property
    def known(self) -> float | None:
        """Seconds, or more than those."""
        return self.seconds if self.seconds is not None else self.above

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"{seconds_text(self.seconds)} ({setting_text(self.runs[0])})"
        if self.above is not None:
            return f"> {self.above:g}"
        return "" if self.gap is None else f"- ({text(self.gap)})"


class Ratio(NamedTuple):
    value: float
    bound: bool = False  # it is larger: the peer was killed

    def __str__(self) -> str:
        return f"{'> ' if self.bound else ''}{self.value:.2f}"


class Row(NamedTuple):
    cell: str
    times: dict[float, dict[str, Time]]  # by goal and side
    lines: dict[str, list[dict]]  # of the latest run of each side

    def ours(self, goal: float) -> Time:
        return self.times[goal][OURS.name]

    def ratio(self, goal: float, names: Iterable[str]) -> Ratio | None:
        """Seconds of the fastest of these / ours."""
        ours = self.ours(goal).seconds
        times = [self.times[goal][name] for name in names]
        reached = [time.seconds for time in times if time.seconds is not None]
        killed = [time.above for time in times if time.above is not None]
        if ours is None or not (reached or killed):
            return None
        return Ratio(min(reached) / ours) if reached else Ratio(min(killed) / ours, bound=True)

    def fastest(self, goal: float) -> Ratio | None:
        return self.ratio(goal, [side.name for side in PEERS])


def setting_text(line: dict) -> str:
    if "setting" not in line:
        return ""
    option = "-e" if SIDES[line["side"]].package == LIBSVM.package else "tol"
    return f"{option} {text(line['setting']['tol'])}"


def text(number: float) -> str:
    """1e-3, not 0.001 or 1e-03."""
    return f"{number:.0e}".replace("e-0", "e-")


def seconds_text(seconds: float) -> str:
    return f"{seconds:.{3 if seconds < 1 else 2 if seconds < 10 else 1}f}"


# from lines to times --------------------------------------------------------------------------------------------------
def reached(goal: float, run: dict) -> bool:
    if run["side"] != OURS.name:
        return run["relative_gap"] <= goal
    return run["setting"]["tol"] == goal and run["claimed_gap"] <= goal and run["relative_gap"] <= AGAIN * goal


def time_to(goal: float, side: str, lines: list[dict]) -> Time:
    """That of the fastest rung all of whose runs got there, among those measured most often."""
    rungs: dict[str, list[dict]] = {}
    for line in lines:
        if "relative_gap" in line:
            rungs.setdefault(json.dumps(line["setting"]), []).append(line)
    gap = min((line["relative_gap"] for line in lines if "relative_gap" in line), default=None)
    there = [rung for rung in rungs.values() if all(reached(goal, run) for run in rung)]
    if there:
        most = max(map(len, there))
        medians = [(float(np.median([run["seconds"] for run in rung])), rung) for rung in there if len(rung) == most]
        seconds, rung = min(medians, key=lambda pair: pair[0])
        return Time(seconds, gap=gap, runs=tuple(rung))
    killed = [line for line in lines if line.get("capped")]
    if side == OURS.name:  # asked for one goal after the other: only the fit for this one counts
        killed = [line for line in killed if line["setting"]["tol"] >= goal]
    return Time(None, above=min((line["seconds"] for line in killed), default=None), gap=gap)


def latest(lines: list[dict], threads: int) -> dict[tuple[str, str], list[dict]]:
    """Of each side in each cell, the lines of the last run that measured it."""
    runs: dict[tuple[str, str], list[dict]] = {}
    for line in lines:
        if line["threads"] != threads:
            continue
        before = runs.setdefault((line["cell"], line["side"]), [])
        if before and before[0]["date"] != line["date"]:
            before.clear()
        before.append(line)
    return runs


def rows(lines: list[dict], options) -> list[Row]:
    runs = latest(lines, options.threads)
    table = []
    for cell in (cell.name for cell in options.cells):
        own = {name: runs.get((cell, name), []) for name in SIDES}
        if any(own.values()):
            times = {goal: {name: time_to(goal, name, some) for name, some in own.items()} for goal in GOALS}
            table.append(Row(cell, times, own))
    return table


# tables ---------------------------------------------------------------------------------------------------------------
def markdown(head: list[str], body: list[list[str]], words: int = 1) -> str:
    """A table that reads well as plain text too; its first columns are words, the others numbers."""
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]

    def line(cells: list[str]) -> str:
        sides = ["<" if k < words else ">" for k in range(len(cells))]
        return f"| {' | '.join(f'{c:{side}{w}}' for c, side, w in zip(cells, sides, widths, strict=True))} |"

    rule = ["-" * width if k < words else "-" * (width - 1) + ":" for k, width in enumerate(widths)]
    return "\n".join([line(head), line(rule), *map(line, body)])


def times_table(table: list[Row], goal: float) -> str:
    sides = [name for name in SIDES if any(row.lines[name] for row in table)]
    head = [f"seconds to {text(goal)}", *sides, "fastest peer / ours", "scikit-learn / ours"]
    body = [
        [row.cell, *(str(row.times[goal][name]) for name in sides)]
        + ["" if ratio is None else str(ratio) for ratio in (row.fastest(goal), row.ratio(goal, [SKLEARN.name]))]
        for row in table
    ]
    return markdown(head, body)


def details_table(table: list[Row]) -> str:
    """What goes with the times to 1e-3."""
    body = [
        [row.cell, name, *(form.format(factor * time.median(key)) for key, (_, form, factor) in FIGURES.items())]
        for row in table
        for name, time in row.times[GOALS[0]].items()
        if time.runs
    ]
    return markdown(["cell", "side", *(title for title, _, _ in FIGURES.values())], body, words=2)


# bars -----------------------------------------------------------------------------------------------------------------
class Bar(NamedTuple):
    what: str
    found: str
    met: bool | None  # None: no bar, or nothing to hold against it

    def __str__(self) -> str:
        words = {True: "met", False: "MISSED", None: ""}
        return f"- {words[self.met]:6} {self.what}: {self.found}"


def certified_bar(table: list[Row], goal: float, cells: tuple[str, ...] | None) -> Bar:
    asked = [row for row in table if row.lines[OURS.name] and (cells is None or row.cell in cells)]
    missing = [row.cell for row in asked if row.ours(goal).seconds is None]
    found = f"{len(asked) - len(missing)} of {len(asked)}{', not ' if missing else ''}{', '.join(missing)}"
    which = "all" if cells is None else ", ".join(cells)
    return Bar(f"certified at {text(goal)} ({which})", found, not missing if asked else None)


def mean_bar(table: list[Row], goal: float, against: str, names: list[str]) -> Bar:
    """The geometric mean; where a peer was killed, of what is known."""
    ratios = [ratio for row in table if (ratio := row.ratio(goal, names))]
    what = f"{against} / ours at {text(goal)}, geometric mean"
    bar = BARS[against] if goal == GOALS[0] else None
    if not ratios:
        return Bar(what, "nothing to compare", None)
    value = mean([ratio.value for ratio in ratios])
    bounds = sum(ratio.bound for ratio in ratios)
    more = f"; in {bounds} of them the peer was killed, and takes longer" if bounds else ""
    found = f"{'> ' if bounds else ''}{value:.2f} over {len(ratios)} of {len(table)} cells{more}"
    return Bar(what + ("" if bar is None else f" >= {bar:g}"), found, None if bar is None else value >= bar)


def slower_bar(table: list[Row], goal: float) -> Bar:
    ratios = {row.cell: row.fastest(goal) for row in table}
    slower = [f"{cell} {1 / ratio.value:.2f} times" for cell, ratio in ratios.items() if ratio and ratio.value < 1]
    slower += [
        f"{row.cell} not certified"
        for row in table
        if row.lines[OURS.name]
        and row.ours(goal).seconds is None
        and any(row.times[goal][side.name].seconds for side in PEERS)
    ]
    known = slower or any(ratios.values())
    found = ", ".join(slower) or ("never" if known else "nothing to compare")
    return Bar(f"slower than the fastest peer at {text(goal)}", found, not slower if known else None)


def error_bar(table: list[Row]) -> Bar:
    """Ours at 1e-3 against the most exact model of LIBSVM, or of another where that never came to an end."""
    worst, found = 0.0, []
    for row in table:
        judged = [[run for run in row.lines[side.name] if "relative_gap" in run] for side in ERROR_FROM]
        runs = next(filter(None, judged), None)
        if row.ours(GOALS[0]).runs and runs:
            ours, exact = row.ours(GOALS[0]).median("test_error"), min(runs, key=lambda run: run["relative_gap"])
            worst = max(worst, 100 * abs(ours - exact["test_error"]))
            found.append(f"{row.cell} {100 * ours:.2f} / {100 * exact['test_error']:.2f} ({exact['side']})")
    what = f"test error within {BARS['error']:g} points of LIBSVM's, in %"
    return Bar(what, ", ".join(found) or "nothing to compare", worst <= BARS["error"] if found else None)


def prediction_bar(table: list[Row]) -> Bar:
    times = [(row.cell, row.ours(GOALS[0]), row.times[GOALS[0]][INTELEX.name]) for row in table]
    pairs = [
        (cell, theirs.median("predict_seconds") / ours.median("predict_seconds"))
        for cell, ours, theirs in times
        if ours.runs and theirs.runs
    ]
    found = ", ".join(f"{cell} {ratio:.2f}" for cell, ratio in pairs) or "nothing to compare"
    met = min(ratio for _, ratio in pairs) >= 1 if pairs else None
    return Bar("prediction at least as fast as intelex's, intelex / ours", found, met)


def mnist_bar(row: Row) -> Bar:
    ratio = row.ratio(GOALS[0], [INTELEX.name])
    met = None if ratio is None else ratio.value >= BARS["mnist"]
    return Bar(f"mnist at 1e-3, intelex / ours >= {BARS['mnist']:g}", str(ratio or "nothing to compare"), met)


def bars(table: list[Row]) -> list[Bar]:
    peers = [side.name for side in PEERS]
    found = [certified_bar(table, 1e-3, None), certified_bar(table, 1e-6, TIGHT), error_bar(table)]
    found += [slower_bar(table, 1e-3)]
    for goal in GOALS:
        found += [mean_bar(table, goal, "fastest peer", peers), mean_bar(table, goal, SKLEARN.name, [SKLEARN.name])]
    found += [mnist_bar(row) for row in table if row.cell == "mnist"]
    return [*found, prediction_bar(table)]


# figure ---------------------------------------------------------------------------------------------------------------
MARKS = {
    OURS.name: ("o", "tab:blue", 9),
    INTELEX.name: ("D", "tab:orange", 6),
    LIBSVM.name: ("s", "tab:green", 6),
    LIBSVM_ONE.name: ("P", "tab:olive", 6),
    SKLEARN.name: ("^", "tab:red", 7),
    THUNDER.name: ("v", "tab:purple", 6),
}


def draw(table: list[Row], path: Path) -> None:
    """A line for each cell with all sides on it; hollow and with an arrow: killed there."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.8 + 0.45 * len(table)), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True, sharex=True)
    known = [t.known for row in table for goal in GOALS for t in row.times[goal].values() if t.known] or [1.0]
    names = [name for name in SIDES if any(row.lines[name] for row in table)]
    for ax, goal in zip(axes, GOALS, strict=True):
        for place, row in enumerate(table):
            ax.axhline(place, color="0.93", lw=6, zorder=0)
            killed = 0
            for name in reversed(names):
                marker, colour, size = MARKS[name]
                time = row.times[goal][name]
                if time.seconds is not None:
                    ax.plot(time.seconds, place, marker, color=colour, ms=size, mec="white", mew=0.6)
                elif time.above is not None:  # several at one cap: one below the other
                    at = place + 0.16 * (killed - 1.5)
                    ax.plot(time.above, at, marker, mfc="white", mec=colour, ms=size - 2)
                    ax.annotate(
                        "",
                        (1.45 * time.above, at),
                        (1.1 * time.above, at),
                        arrowprops={"arrowstyle": "->", "color": colour, "lw": 0.9},
                    )
                    killed += 1
            never = [name for name in names if row.lines[name] and row.times[goal][name].known is None]
            if never:
                note = f"never: {', '.join(never)}"
                ax.text(
                    0.995, place + 0.42, note, transform=ax.get_yaxis_transform(), ha="right", size=6.5, color="0.4"
                )
        ratios = [ratio for row in table if (ratio := row.fastest(goal))]
        sign = ">" if any(ratio.bound for ratio in ratios) else "="
        value = mean([ratio.value for ratio in ratios]) if ratios else 0.0
        means = f": fastest peer / ours {sign} {value:.2g} in the geometric mean" if ratios else ""
        ax.set_title(f"to {text(goal)}{means}", fontsize=10)
        ax.set(xscale="log", xlim=(min(known) / 1.6, 2 * max(known)), xlabel="seconds of fit")
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
    axes[0].set_yticks(range(len(table)), [row.cell for row in table])
    axes[0].set_ylim(len(table) - 0.45, -0.55)
    marks = [
        axes[0].plot([], [], MARKS[name][0], color=MARKS[name][1], ms=MARKS[name][2], label=name)[0] for name in names
    ]
    marks += axes[0].plot([], [], "o", mfc="white", mec="0.4", ms=5, label="killed: takes longer")
    figure.legend(handles=marks, loc="outside upper center", ncols=len(marks), frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


# report ---------------------------------------------------------------------------------------------------------------
def origin(table: list[Row]) -> str:
    """Where the figures come from: dates and commits, ours and the peers'."""
    parts = []
    for who, names in (("ours", [OURS.name]), ("peers", [side.name for side in PEERS])):
        lines = [line for row in table for name in names for line in row.lines[name]]
        dates = sorted({line["date"] for line in lines})
        commits = ", ".join(dict.fromkeys(line["commit"][:10] + "+" * line["commit"].endswith("+") for line in lines))
        if dates:
            span = " .. ".join(dict.fromkeys([dates[0], dates[-1]]))
            parts.append(f"{who} measured {span} at {commits}")
    runs = [line for row in table for own in row.lines.values() for line in own if line.get("other_cpu") is not None]
    if runs:
        share = sum(run["other_cpu"] for run in runs) / sum(run["seconds"] * run["cores"] for run in runs)
        parts.append(f"other programs had {100 * share:.0f} % of the machine meanwhile")
    return "; ".join(parts)


def report(lines: list[dict], options) -> None:
    table = rows(lines, options)
    if not table:
        print("Nothing is measured yet.")
        return
    parts = [
        f"Seconds of fit with {options.threads} threads, medians, with the setting that got there. "
        "`> 120`: killed there; `- (1e-4)`: never, that gap at best.",
        origin(table).capitalize() + ".",
        *(times_table(table, goal) for goal in GOALS),
        "What goes with the times to 1e-3. Memory: peak of the process beyond that with the data loaded. First fit: on "
        "a few rows, with imports and compilation.",
        details_table(table),
    ]
    lost = [
        f"- lost: {row.cell} {name} {setting_text(line)}: {line['failure']}"
        for row in table
        for name, own in row.lines.items()
        for line in own
        if "failure" in line
    ]
    parts += ["\n".join(lost)] if lost else []
    parts.append("\n".join(map(str, bars(table))))
    options.table.parent.mkdir(parents=True, exist_ok=True)
    options.table.write_text("\n\n".join(parts) + "\n")
    print("\n" + "\n\n".join(parts))
    draw(table, options.figure)
    print(f"\ntable: {options.table}\nfigure: {options.figure}")

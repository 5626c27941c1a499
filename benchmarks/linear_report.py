"""From the lines of `benchmarks.linear` to its table, its bars and its figure."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .peers import OURS, PEERS

GOALS = (1e-3, 1e-6)
BAR = {1e-3: 3.0, 1e-6: 5.0}  # how many times faster than the fastest peer we want to be, in the geometric mean
Key = tuple[str, str, float]  # set, loss, C


class Time(NamedTuple):
    seconds: float
    name: str  # side and setting
    date: str


class Row(NamedTuple):
    key: Key
    gap: float  # proven of the least P known
    ours: dict[float, Time | None]  # by goal
    peer: dict[float, Time | None]

    def ratio(self, goal: float) -> float | None:
        ours, peer = self.ours[goal], self.peer[goal]
        return peer.seconds / ours.seconds if ours and peer else None


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key_of(line: dict) -> Key:
    return line["set"], line["loss"], line["C"]


def setting_text(setting: dict) -> str:
    """As its users write it; the solver's number is in LIBLINEAR's name already."""
    words = {"e": "-e {:g}", "tol": "tol {:g}", "max_iter": "max_iter {:g}", "solver": "{}", "max_seconds": "{:g} s"}
    return ", ".join(text.format(setting[name]) for name, text in words.items() if name in setting)


def bounds(lines: list[dict]) -> dict[Key, tuple[float, float]]:
    """(least P of any run, best lower bound on P*) of each cell."""
    known: dict[Key, tuple[float, float]] = {}
    for line in lines:
        upper, lower = known.get(key_of(line), (np.inf, 0.0))
        if "primal" in line:
            known[key_of(line)] = min(upper, line["primal"]), max(lower, line.get("dual", 0.0))
    return known


def latest(lines: list[dict], threads: int) -> dict[tuple[Key, str], list[dict]]:
    """Of each side in each cell, the lines of the last run that measured it."""
    runs: dict[tuple[Key, str], list[dict]] = {}
    for line in lines:
        if line["threads"] != threads:
            continue
        before = runs.setdefault((key_of(line), line["side"]), [])
        if before and before[0]["date"] != line["date"]:
            before.clear()
        before.append(line)
    return runs


def rungs(lines: list[dict]) -> list[list[dict]]:
    """The repeats of each setting."""
    groups: dict[str, list[dict]] = {}
    for line in lines:
        if "primal" in line:
            groups.setdefault(json.dumps(line["setting"]), []).append(line)
    return list(groups.values())


def fastest(sides: dict[str, list[dict]], reached) -> Time | None:
    """The rung of least median time among those all of whose runs got there."""
    times = [
        Time(float(np.median([run["seconds"] for run in rung])), f"{side} {setting_text(rung[0]['setting'])}", date)
        for side, lines in sides.items()
        for rung in rungs(lines)
        if all(map(reached, rung)) and (date := rung[0]["date"])
    ]
    return min(times, default=None)


def rows(lines: list[dict], options) -> list[Row]:
    known, runs = bounds(lines), latest(lines, options.threads)
    table = []
    for key in ((name, loss, C) for name in options.sets for loss in options.losses for C in options.C):
        if key not in known:
            continue
        upper, lower = known[key]
        peers = {side.name: runs.get((key, side.name), []) for side in PEERS}
        ours = {OURS.name: runs.get((key, OURS.name), [])}
        proven = {
            goal: fastest(ours, lambda run, g=goal: run["setting"]["tol"] == g and run["relative_gap"] <= g)
            for goal in GOALS
        }
        near = {goal: fastest(peers, lambda run, g=goal, p=upper: run["primal"] <= (1 + g) * p) for goal in GOALS}
        table.append(Row(key, (upper - lower) / upper, proven, near))
    return table


def print_table(table: list[Row]) -> None:
    print(f"{'':34} {'gap of P*':>9}", *(f"| {f'seconds to {goal:g}: ours, fastest peer, ratio':58}" for goal in GOALS))
    for row in table:
        name, loss, C = row.key
        print(f"{name:10} {loss:13} C={C:<7g} {row.gap:9.0e}", end="")
        for goal in GOALS:
            ours, peer, ratio = row.ours[goal], row.peer[goal], row.ratio(goal)
            times = f"{ours.seconds if ours else '-':>8{'.3f' if ours else ''}}"
            times += f" {peer.seconds if peer else '-':>8{'.3f' if peer else ''}}"
            times += f" {ratio if ratio else '-':>6{'.2f' if ratio else ''}}"
            print(f" | {times} {peer.name if peer else '':33.33}", end="")
        print()


def print_bars(table: list[Row]) -> None:
    n = len(table)
    for goal in GOALS:
        ratios = np.array([row.ratio(goal) for row in table if row.ratio(goal)])
        certified = sum(row.ours[goal] is not None for row in table)
        missed = sum(row.ours[goal] is None and row.peer[goal] is not None for row in table)
        print(f"\nAt {goal:g}:")
        print(f"  cells certified                             {certified} of {n} (bar: all)")
        print(f"  cells no peer reaches                       {sum(row.peer[goal] is None for row in table)} of {n}")
        slower = [
            f"{' '.join(map(str, row.key))} ({1 / r:.1f} times)" for row in table if (r := row.ratio(goal) or 9) < 1
        ]
        if goal == GOALS[0]:
            print(f"  cells slower than the fastest peer          {len(slower)} (bar: none){listed(slower)}")
        if len(ratios):
            mean = np.exp(np.log(ratios).mean())
            print(
                f"  geometric mean of fastest peer / ours       {mean:.2f} over {len(ratios)} cells (bar: {BAR[goal]:g})"
            )
        if missed:
            print(f"  left out of that mean: {missed} cells a peer reaches and ours does not certify")


def listed(names: list[str]) -> str:
    return "".join(f"\n      {name}" for name in names)


def draw(table: list[Row], path: Path) -> None:
    """Ours against the fastest peer, a line per cell; an open mark where nobody's got there."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.6 + 0.21 * len(table)), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True, sharex=True)
    places = np.arange(len(table))
    times = [t.seconds for row in table for goal in GOALS for t in (row.ours[goal], row.peer[goal]) if t]
    low, high = (min(times) / 1.6, max(times) * 1.6) if times else (0.1, 1.0)
    for ax, goal in zip(axes, GOALS, strict=True):
        for place, row in zip(places, table, strict=True):
            ours, peer = row.ours[goal], row.peer[goal]
            if ours and peer:
                faster = ours.seconds <= peer.seconds
                ax.plot(
                    [ours.seconds, peer.seconds], [place] * 2, color="0.75" if faster else "tab:red", lw=2.5, zorder=1
                )
            if ours:
                ax.plot(ours.seconds, place, "o", color="tab:blue", ms=6)
            if peer:
                ax.plot(peer.seconds, place, "D", color="tab:orange", ms=5)
            else:
                ax.text(high / 1.1, place, "no peer", ha="right", va="center", size=7, color="tab:orange")
        mean = [row.ratio(goal) for row in table if row.ratio(goal)]
        factor = f": {np.exp(np.log(mean).mean()):.1f} times faster (geometric mean)" if mean else ""
        ax.set_title(f"to {goal:g}{factor}", fontsize=11)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        ax.set_xlabel("seconds of fit")
        ax.grid(axis="x", which="major", color="0.9")
        for place in places[1:]:
            if table[place].key[0] != table[place - 1].key[0]:
                ax.axhline(place - 0.5, color="0.6", lw=0.8)
    short = {"hinge": "hinge", "squared_hinge": "squared"}
    axes[0].set_yticks(places, [f"{name}  {short[loss]}  C = {C:g}" for (name, loss, C), *_ in table], fontsize=8)
    axes[0].set_ylim(len(table) - 0.5, -0.5)
    axes[0].plot([], [], "o", color="tab:blue", label="primalsvm, proven")
    axes[0].plot([], [], "D", color="tab:orange", label="fastest peer, as far as our P says")
    axes[0].plot([], [], color="tab:red", lw=2.5, label="peer is faster")
    figure.legend(handles=axes[0].get_legend_handles_labels()[0], loc="outside upper center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def report(lines: list[dict], options) -> None:
    table = rows(lines, options)
    if not table:
        print("Nothing is measured yet.")
        return
    print(f"\nThreads: {options.threads}. Seconds of fit, medians; ratio: fastest peer / ours.")
    dates = {
        side: sorted({t.date for row in table for t in getattr(row, side).values() if t}) for side in ("ours", "peer")
    }
    if dates["ours"] != dates["peer"]:
        for side, name in (("ours", "ours"), ("peer", "peers")):
            print(f"{name} measured at {', '.join(dates[side]) or '-'}")
    for failure in sorted({f"{line['set']} {line['side']}: {line['failure']}" for line in lines if "failure" in line}):
        print(f"lost: {failure}")
    print_table(table)
    print_bars(table)
    draw(table, options.figure)
    print(f"\nfigure: {options.figure}")

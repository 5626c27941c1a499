"""From the lines of `benchmarks.linear` to its table, its bars and its figure."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .peers import OURS, PEERS, SIDES

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


def setting_text(side: str, setting: dict) -> str:
    """As its users write it: LIBLINEAR's solver is in its name, a default number of iterations goes without saying."""
    words = {"e": "-e {:g}", "tol": "tol {:g}", "max_iter": "max_iter {}", "solver": "{}", "max_seconds": "{:g} s"}
    usual = {"max_iter": SIDES[side].limits[0]} if SIDES[side].limits else {}
    shown = [text.format(setting[k]) for k, text in words.items() if k in setting and setting[k] != usual.get(k)]
    return ", ".join(shown).replace("0.0001", "1e-4").replace("e-0", "e-")


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


def best_rungs(runs: dict, key: Key, least: float, goal: float) -> list[tuple[float, str, list[dict]]]:
    """(seconds, side, lines) of the fastest rung of each peer that got within `goal` of the least P known, in order."""
    found = []
    for side in PEERS:
        near = [
            (float(np.median([run["seconds"] for run in rung])), json.dumps(rung[0]["setting"]), rung)
            for rung in rungs(runs.get((key, side.name), []))
            if all(run["primal"] <= (1 + goal) * least for run in rung)
        ]
        if near:
            seconds, _, rung = min(near, key=lambda each: each[:2])
            found.append((seconds, side.name, rung))
    return sorted(found, key=lambda each: each[0])


KEPT = ("date", "threads", "cap", "set", "loss", "C", "side", "setting", "repeat", "seconds", "primal", "dual")
BEST_SIDES = 3  # for each goal


def distil(lines: list[dict], threads: int) -> list[dict]:
    """The lines that a duel needs: the bounds of each cell, and the fastest rungs to each goal of a few sides."""
    known, runs, kept = bounds(lines), latest(lines, threads), []
    for key, (least, _) in known.items():
        mine = [line for line in lines if key_of(line) == key and "primal" in line]
        kept += [min(mine, key=lambda line: line["primal"]), max(mine, key=lambda line: line.get("dual", 0.0))]
        for goal in GOALS:
            kept += [run for _, _, rung in best_rungs(runs, key, least, goal)[:BEST_SIDES] for run in rung]
        # that a ladder was climbed, and to which cap, where nobody got there
        kept += [run for side in PEERS for run in runs.get((key, side.name), [])[:1] if "primal" in run][:1]
    seen = dict.fromkeys(json.dumps({k: line[k] for k in KEPT if k in line}) for line in kept)
    return [json.loads(line) for line in seen]


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
        Time(
            float(np.median([run["seconds"] for run in rung])), f"{side} {setting_text(side, rung[0]['setting'])}", date
        )
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
    print(f"{'':34} {'gap of P*':>9}", *(f"| {f'seconds to {goal:g}: ours, fastest peer, ratio':68}" for goal in GOALS))
    for row in table:
        name, loss, C = row.key
        parts = [f"{name:10} {loss:13} C={C:<7g} {row.gap:9.0e}"]
        for goal in GOALS:
            ours, peer = row.ours[goal], row.peer[goal]
            figures = (ours and ours.seconds, peer and peer.seconds, row.ratio(goal))
            times = " ".join(f"{'-':>8}" if x is None else f"{x:8.{3 if x < 100 else 0}f}" for x in figures)
            parts.append(f"{times}  {peer.name if peer else '':40}")
        print(" | ".join(parts))


def print_bars(table: list[Row]) -> None:
    for goal in GOALS:
        ratios = [ratio for row in table if (ratio := row.ratio(goal))]
        unproven = [row for row in table if row.ours[goal] is None]
        slower = [f"{name_of(row)}: {1 / r:.1f} times" for row in table if (r := row.ratio(goal)) and r < 1]
        slower += [f"{name_of(row)}: not certified" for row in unproven if row.peer[goal]]
        print(f"\nAt {goal:g}, of {len(table)} cells:")
        print(f"  certified                        {len(table) - len(unproven)} (bar: all)")
        print(f"  no peer reaches                  {sum(row.peer[goal] is None for row in table)}")
        print(f"  slower than the fastest peer     {len(slower)}{' (bar: none)' if goal == GOALS[0] else ''}")
        for name in slower:
            print(f"      {name}")
        if ratios:
            bar = f"(bar: {BAR[goal]:g}), geometric mean of {len(ratios)}"
            print(f"  fastest peer / ours              {mean(ratios):.2f} {bar}")


def name_of(row: Row) -> str:
    name, loss, C = row.key
    return f"{name} {loss} C={C:g}"


def mean(ratios: list[float]) -> float:
    return float(np.exp(np.log(ratios).mean()))


def draw(table: list[Row], path: Path) -> None:
    """A line for each cell: ours, the fastest peer, and whose way it is between them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.8 + 0.2 * len(table)), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True, sharex=True)
    times = [t.seconds for row in table for goal in GOALS for t in (row.ours[goal], row.peer[goal]) if t] or [1.0]
    for ax, goal in zip(axes, GOALS, strict=True):
        for place, row in enumerate(table):
            ours, peer = row.ours[goal], row.peer[goal]
            if ours and peer:
                ours_first = ours.seconds <= peer.seconds
                colour = "tab:blue" if ours_first else "tab:red"
                ax.plot([ours.seconds, peer.seconds], [place] * 2, color=colour, alpha=0.35, lw=3, zorder=1)
            if ours:
                ax.plot(ours.seconds, place, "o", color="tab:blue", ms=6)
            if peer:
                ax.plot(peer.seconds, place, "D", color="tab:orange", ms=5)
            if not (ours and peer):
                who = "no peer" if ours else "not ours" if peer else "nobody"
                ax.text(1.01, place, who, transform=ax.get_yaxis_transform(), va="center", size=7, color="0.35")
            if place and row.key[0] != table[place - 1].key[0]:
                ax.axhline(place - 0.5, color="0.7", lw=0.8)
        ratios = [ratio for row in table if (ratio := row.ratio(goal))]
        means = f": fastest peer / ours = {mean(ratios):.2g} in the geometric mean" if ratios else ""
        ax.set_title(f"to {goal:g}{means}", fontsize=10)
        ax.set(xscale="log", xlim=(min(times) / 1.6, 1.6 * max(times)), xlabel="seconds of fit")
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
    short = {"hinge": "hinge", "squared_hinge": "squared"}
    labels = [f"{name}   {short[loss]}   C = {C:g}" for (name, loss, C), *_ in table]
    axes[0].set_yticks(range(len(table)), labels, fontsize=7.5)
    axes[0].set_ylim(len(table) - 0.5, -0.5)
    marks = [
        *axes[0].plot([], [], "o", color="tab:blue", label="primalsvm, proven"),
        *axes[0].plot([], [], "D", color="tab:orange", label="fastest peer"),
        *axes[0].plot([], [], color="tab:blue", alpha=0.35, lw=3, label="ours is faster"),
        *axes[0].plot([], [], color="tab:red", alpha=0.35, lw=3, label="the peer is faster"),
    ]
    figure.legend(handles=marks, loc="outside upper center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def span(times) -> str:
    dates = sorted({time.date for time in times if time})
    return f"at {' .. '.join(dict.fromkeys(dates[:1] + dates[-1:]))}" if dates else "never"


def report(lines: list[dict], options) -> None:
    table = rows(lines, options)
    if not table:
        print("Nothing is measured yet.")
        return
    print(f"\nThreads: {options.threads}. Seconds of fit, medians; ratio: fastest peer / ours.")
    ours, peers = (
        span(t for row in table for t in part(row).values()) for part in (lambda r: r.ours, lambda r: r.peer)
    )
    if ours != peers:
        print(f"Ours measured {ours}, peers measured {peers}.")
    keys = {row.key for row in table}
    for (key, side), run in latest(lines, options.threads).items():
        for line in run:
            if key in keys and "failure" in line:
                rung = setting_text(side, line.get("setting", {}))
                print(f"lost: {key[0]} {key[1]} C={key[2]:g} {side} {rung}: {line['failure']}")
    print_table(table)
    print_bars(table)
    draw(table, options.figure)
    print(f"\nfigure: {options.figure}")

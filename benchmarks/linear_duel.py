"""Side by side: ours and the fastest rungs known of two peers in each cell, alternating in one process.

`benchmarks.linear` measures one side after another, and on a busy machine they meet different minutes. This takes what
its lines say of the peers, and measures only the rungs that decide the ratios: minutes instead of hours.
"""

import json

import numpy as np

from . import linear_report, sets, timed
from .peers import OURS, PEERS, SIDES

RIVALS = 2  # in each cell
LONG = 8.0  # seconds: slower rungs are left out, and so are the cells where there are no others


def rivals(runs: dict, key: linear_report.Key, least: float, goal: float) -> list[tuple[str, dict]]:
    """(side, setting) of the fastest rungs that got within `goal` of the least P known, one for each side."""
    found = []
    for side in PEERS:
        rungs = [
            (float(np.median([run["seconds"] for run in rung])), json.dumps(rung[0]["setting"]))
            for rung in linear_report.rungs(runs.get((key, side.name), []))
            if all(run["primal"] <= (1 + goal) * least for run in rung)
        ]
        if side.installed() and rungs and min(rungs)[0] < LONG:
            seconds, setting = min(rungs)
            found.append((seconds, side.name, json.loads(setting)))
    return [(name, setting) for _, name, setting in sorted(found, key=lambda rung: rung[0])[:RIVALS]]


def meet(data: dict, key: linear_report.Key, goal: float, others: list, options) -> tuple[dict[str, float], float]:
    """Median seconds of each side, the order turned round each time; and the gap that ours has proven."""
    _, loss, C = key
    seconds: dict[str, list[float]] = {}
    gap = float("inf")
    for repeat in range(options.repeats):
        for name, setting in [(OURS.name, {"tol": goal}), *others][:: -1 if repeat % 2 else 1]:
            fit, wall, _ = timed(
                lambda n=name, s=setting: SIDES[n].fit(data[n], loss, C, s, options.threads)  # type: ignore[misc]
            )
            seconds.setdefault(name, []).append(wall)
            gap = fit.facts.get("relative_gap", gap)  # only ours states one
    return {name: float(np.median(walls)) for name, walls in seconds.items()}, gap


def report(options) -> None:
    lines = linear_report.read(options.jsonl)
    known, runs = linear_report.bounds(lines), linear_report.latest(lines, options.threads)
    ratios: dict[float, list[float]] = {goal: [] for goal in linear_report.GOALS}
    for name in options.sets:
        X, y = sets.load(name, options.cache)
        data = {OURS.name: (X, y)}
        OURS.fit(data[OURS.name], options.losses[0], 1.0, {"tol": 0.1, "max_seconds": 1.0}, options.threads)
        for key in ((name, loss, C) for loss in options.losses for C in options.C):
            for goal in linear_report.GOALS:
                others = rivals(runs, key, known[key][0], goal) if key in known else []
                if not others:
                    continue
                for side, _ in others:
                    if side not in data:
                        data[side] = SIDES[side].prepare(X, y)
                medians, gap = meet(data, key, goal, others, options)
                ours = medians.pop(OURS.name)
                ratio = min(medians.values()) / ours if gap <= goal else float("nan")
                ratios[goal].append(ratio)
                peers = "  ".join(f"{side} {wall:.3f} s" for side, wall in medians.items())
                print(
                    f"{name:10} {key[1]:13} C={key[2]:<5g} {goal:g}: {ratio:6.2f}  ours {ours:.3f} s  {peers}",
                    flush=True,
                )
    for goal, found in ratios.items():
        good = np.array([ratio for ratio in found if ratio == ratio])
        if len(found):
            mean = np.exp(np.mean(np.log(good))) if len(good) else float("nan")
            print(
                f"{goal:g}: fastest peer / ours {mean:.2f}, geometric mean of {len(good)} of {len(found)} cells; ",
                end="",
            )
            print(f"slower in {int(np.sum(good < 1))}")

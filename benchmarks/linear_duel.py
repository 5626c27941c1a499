"""Side by side: ours and the fastest rungs known of two peers in each cell, alternating in one process.

`benchmarks.linear` measures one side after another, and on a busy machine they meet different minutes. This takes what
its lines say of the peers, and measures only the rungs that decide the ratios: minutes instead of hours. Where there
are no lines yet, those in linear_peers.jsonl serve: which rung is a peer's best hardly depends on the machine.

Ours stands there twice. "proven" is a fit with tol = goal: its certificate says so. "as near" is what the peers are
measured by, the loosest tolerance whose P is within the goal of the least P known, which a user cannot know beforehand:
equal suboptimality on both sides.

A cell that no peer reached counts as if one had at the cap of those lines, the seconds after which the ladders ended:
ours is at least so many times faster. Both means are printed, with these cells and without.
"""

from pathlib import Path

import numpy as np

from . import linear_report, sets, timed
from .linear_worker import Judge
from .peers import OURS, PEERS, SIDES

SHIPPED = Path(__file__).with_name("linear_peers.jsonl")  # of the last climb that was kept: `--distil`
RIVALS = 2  # in each cell
LONG = 60.0  # seconds: slower rungs are left out, and so are the cells where there are no others
ONCE = 3.0  # seconds: a run that takes longer is not repeated
LOOSE = 0.1  # the first tolerance of ours that is tried for "as near"
WAYS = ("proven", "as near")


def rivals(runs: dict, key: linear_report.Key, least: float, goal: float) -> list[tuple[str, dict]]:
    """(side, setting) of the fastest rungs that got within `goal` of the least P known, one for each side."""
    found = linear_report.best_rungs(runs, key, least, goal)
    fit = [(name, rung[0]["setting"]) for seconds, name, rung in found if seconds < LONG and SIDES[name].installed()]
    return fit[:RIVALS]


def near_enough(data, judge: Judge, key: linear_report.Key, goal: float, least: float, threads: int) -> dict:
    """Our loosest setting that gets within `goal` of the least P known."""
    _, loss, C = key
    tol = LOOSE
    while tol > 1.5 * goal:
        fit = OURS.fit(data, loss, C, {"tol": tol}, threads)
        if judge.primal(fit.w, loss, C) <= (1 + goal) * least:
            break
        tol /= 10
    return {"tol": float(f"{tol:.0e}")}


def meet(data: dict, key: linear_report.Key, goal: float, contenders: dict, options) -> tuple[dict[str, float], float]:
    """Median seconds of each contender, the order turned round each time; and the gap that ours has proven."""
    _, loss, C = key
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    gap = float("inf")
    for repeat in range(options.repeats):
        for name, (side, setting) in list(contenders.items())[:: -1 if repeat % 2 else 1]:
            if max(seconds[name], default=0.0) > ONCE:
                continue
            fit, wall, _ = timed(
                lambda n=side, s=setting: SIDES[n].fit(data[n], loss, C, s, options.threads)  # type: ignore[misc]
            )
            seconds[name].append(wall)
            gap = fit.facts["relative_gap"] if name == "proven" else gap
    return {name: float(np.median(walls)) for name, walls in seconds.items()}, gap


def report(options) -> None:
    lines = linear_report.read(options.jsonl)
    if not lines:
        lines = linear_report.read(SHIPPED)
        print(f"rungs of the peers: {SHIPPED.name}, {max(line['date'] for line in lines)}")
    known, runs = linear_report.bounds(lines), linear_report.latest(lines, options.threads)
    ratios: dict[tuple[float, str], list[tuple[float, bool]]] = {
        (goal, way): [] for goal in linear_report.GOALS for way in WAYS
    }  # of peer to ours, and whether a peer got there
    for name in options.sets:
        X, y = sets.load(name, options.cache)
        data, judge = {OURS.name: (X, y)}, Judge(X, y)
        for loss in options.losses:
            OURS.fit(data[OURS.name], loss, 1.0, {"tol": 0.1, "max_seconds": 1.0}, options.threads)
        for key in ((name, loss, C) for loss in options.losses for C in options.C):
            for goal in linear_report.GOALS:
                cap = min((run["cap"] for side in PEERS for run in runs.get((key, side.name), [])), default=None)
                if key not in known or cap is None:
                    continue
                others = rivals(runs, key, known[key][0], goal)
                for side, _ in others:
                    if side not in data:
                        data[side] = SIDES[side].prepare(X, y)
                setting = near_enough(data[OURS.name], judge, key, goal, known[key][0], options.threads)
                ours = {"proven": (OURS.name, {"tol": goal}), "as near": (OURS.name, setting)}
                if setting["tol"] == goal:
                    del ours["as near"]  # the same fit
                medians, gap = meet(data, key, goal, ours | {side: (side, how) for side, how in others}, options)
                medians.setdefault("as near", medians["proven"])
                best = min((medians[side] for side, _ in others), default=cap)
                ratio = {way: best / medians[way] for way in WAYS}
                if gap > goal:
                    ratio["proven"] = float("nan")
                for way in WAYS:
                    ratios[goal, way].append((ratio[way], bool(others)))
                words = "  ".join(f"{who} {medians[who]:.3f} s" for who in [*WAYS, *(side for side, _ in others)])
                words += "" if others else f"  no peer in {cap:g} s"
                shown = f"{ratio['proven']:6.2f} {ratio['as near']:6.2f}"
                print(f"{name:10} {key[1]:13} C={key[2]:<5g} {goal:g}: {shown}  {words}", flush=True)
    for (goal, way), found in ratios.items():
        reached, all_ = [ratio for ratio, met in found if met], [ratio for ratio, _ in found]
        print(f"{goal:g}, {way}: fastest peer / ours {_mean(reached)}; with those no peer reached {_mean(all_)}")


def _mean(ratios: list[float]) -> str:
    good = [ratio for ratio in ratios if ratio == ratio]
    mean = linear_report.mean(good) if good else float("nan")
    return f"{mean:.2f} ({len(good)} of {len(ratios)} cells, slower in {sum(ratio < 1 for ratio in good)})"

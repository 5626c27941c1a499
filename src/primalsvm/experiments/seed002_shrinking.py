r"""Do and Artieres (2008), Fig. 5: what shrinking saves Hyperpass.

A sample whose hyperplane lies outside a ball around w cannot change its slope while w stays inside, and need not be
looked at. Counted are products <x_i, .>, over N: without shrinking a step has one for each sample.

Data: adult9, web8, covertype (both parts together), lambda as in seed002_gap. Hyperpass is the published one, with
shrinking around one centre (Algorithm 2), around several (end of 4.4), and without.

Claims: shrinking is exact; it reduces the operations needed by far; on web8 about 1500 steps take less than 250 N
products; a step can need 50 times less than N; and although covertype is 10 times larger than web8, one of its steps
may need fewer products.

Judged: much reduced is to at most half, on all three sets. Of covertype and web8 the means of ten steps at the same
number of steps are compared, as the curves of Fig. 5 c are.

Expected: exactness holds along the ray of each step. The first lower bound is the tangent of fewer losses where some
are put aside, so the steps differ in time, and their number need not be the same.
"""

from dataclasses import replace

import numpy as np

from ..piecewise import minimize_along
from ..problem import LinearProblem
from .hyperpass_runs import (
    AS_PUBLISHED,
    METHODS,
    NAMES,
    Run,
    best_bound,
    lambda_of,
    load_set,
    low,
    said,
    state_problem,
    walk,
    whole,
)
from .judged import MUCH, measured
from .lab import Lab, Outcome, Plot, Table, Verdict

TARGETS = (1e-2, 1e-3, 1e-4)
WINDOW = 10  # steps of a mean, to see through the noise
SHRINKING = {"several centres": "several", "one centre": "one", "no shrinking": "none"}


def per_step(found: Run) -> np.ndarray:
    """Products of each step over N; the first of all has the start's."""
    return np.diff(found.products)


def run(lab: Lab) -> Outcome:
    runs: dict[str, dict[str, Run]] = {}
    v, sizes, exact, rows, plots = {}, {}, {}, [], []
    names = low(lab)
    for number, name in enumerate(names):
        lam = lambda_of(lab, name)
        problem = state_problem(*whole(load_set(lab, name)), lam)
        v[name], sizes[name], runs[name] = best_bound(problem, lam), problem.n, {}
        steps = lab.pick(30, 300, {"a9a": 400, "w8a": 1500, "covtype": 300}[name])
        exact[name] = off_the_ray(problem, lab.pick(30, 100, 50))
        for place, (way, shrink) in enumerate(SHRINKING.items()):
            lab.tell(f"{way} on {name}", (number + place / 3) / len(names))
            # the others are there to be compared with, and a step on all of covertype takes long
            most = steps if shrink == "several" else steps // (6 if name == "covtype" else 4)
            runs[name][way] = walk(problem, replace(AS_PUBLISHED, shrink=shrink), lam, most, v[name], 1e-7 * v[name])
        for rival in ("Pegasos", "cutting planes"):
            lab.tell(f"{rival} on {name}", (number + 0.9) / len(names))
            most = lab.pick(30, 100, 30 if name == "covtype" else 300)
            runs[name][rival] = walk(problem, METHODS[rival], lam, most, v[name], 1e-7 * v[name])
        for way, found in runs[name].items():
            counts = [said(found.steps_to(t * v[name], v[name], found.products)) for t in TARGETS]
            late = per_step(found)[-max(len(found.primal) // 4, 1) :]
            each = [f"{np.median(late):.4f}", f"{np.min(late):.4f}"] if way in SHRINKING else ["", ""]
            rows.append([NAMES[name], way, *counts, str(len(found.primal)), f"{found.products[-1]:.0f}", *each])
        curves = {way: (r.products, (r.primal - v[name]).clip(1e-8)) for way, r in runs[name].items()}
        title = f"{NAMES[name]}: gap against products (Fig. 5 a, b)"
        plots.append(Plot(title, "products / N", "f(w) - v*", curves, log_x=True, log_y=True))
    plots.append(
        Plot("Products in each step, mean of ten (Fig. 5 c)", "step", "products / N", each_step(runs), log_y=True)
    )
    header = [
        "set",
        "method",
        *(f"products/N to {t:g} v*" for t in TARGETS),
        "steps",
        "products/N",
        "late step",
        "least",
    ]
    return Outcome(verdicts(lab, runs, v, sizes, exact), [Table("Products", header, rows)], plots)


def off_the_ray(problem: LinearProblem, steps: int) -> float:
    """How far f at the end of a step lies above its minimum on the step's ray over ALL samples, the largest part."""
    state, worst = AS_PUBLISHED.init(problem), 0.0
    for _ in range(steps):
        before = state.f
        AS_PUBLISHED.step(problem, state)
        ray = state.low[:-1] - before
        here, change = (problem.y * problem.scores(w) for w in (before, ray))
        t = minimize_along(
            problem.loss, problem.cost, here, change, linear=float(before @ ray), quadratic=float(ray @ ray)
        )
        best = problem.primal(before + max(t, 0.0) * ray, 0.0)
        worst = max(worst, problem.primal(state.f, 0.0) / best - 1.0)
    return worst


def each_step(runs: dict[str, dict[str, Run]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    curves = {}
    for name, found in runs.items():
        each = smooth(found["several centres"])
        curves[NAMES[name]] = (np.arange(WINDOW, WINDOW + len(each)), each)
    return curves


def smooth(found: Run) -> np.ndarray:
    """Means of the products over N of each ten steps in a row."""
    return np.convolve(per_step(found), np.ones(WINDOW) / WINDOW, mode="valid")


def verdicts(
    lab: Lab, runs: dict[str, dict[str, Run]], v: dict[str, float], sizes: dict[str, int], exact: dict[str, float]
) -> list[Verdict]:
    several = {name: found["several centres"] for name, found in runs.items()}
    same, apart = {}, {}
    for name, found in runs.items():
        ways = [found[way].primal for way in SHRINKING]
        m = min(map(len, ways))
        off = np.max([np.abs(way[:m] - ways[-1][:m]) / ways[-1][:m] for way in ways], axis=0)
        same[name] = int(np.argmax(np.append(off, 1.0) > 1e-9))
        apart[name] = float(max(way[m - 1] for way in ways) - min(way[m - 1] for way in ways)) / v[name]
    saved = {n: len(r.primal) / (r.products[-1] - r.products[0] + 1) for n, r in several.items()}
    least = {n: float(1 / np.min(per_step(r))) for n, r in several.items()}
    web = several["w8a"]
    verdicts = [
        Verdict(
            "Shrinking is exact: the line search over a part of the samples finds the minimum over all of them.",
            max(exact.values()) <= 1e-9,
            "f above its minimum on the ray, the largest part: "
            f"{'; '.join(f'{NAMES[n]} {exact[n]:.0e}' for n in runs)}. "
            "Without shrinking f is the same to 1e-9 "
            + "; ".join(f"{NAMES[n]} for {same[n]} steps" for n in runs)
            + "; then the first lower bound is another one, and the ways part: f differs by "
            + "; ".join(f"{NAMES[n]} {apart[n]:.0e} v*" for n in runs)
            + " at the end.",
        ),
        measured(
            lab,
            "The number of operations that Hyperpass requires is much reduced by shrinking.",
            min(saved.values()) >= MUCH,
            "Steps over products / N, in all: "
            + "; ".join(f"{NAMES[n]} {len(several[n].primal)} / {several[n].products[-1]:.0f}" for n in runs)
            + ".",
        ),
        Verdict(
            "On web8 about 1500 steps take less than 250 N products.",
            bool(web.products[-1] < 250) if len(web.primal) >= 1400 else None,
            f"{len(web.primal)} steps took {web.products[-1]:.0f} N products here."
            + ("" if len(web.primal) >= 1400 else " Too few steps to tell: the first ones have the most."),
        ),
        measured(
            lab,
            "A step may need 50 times fewer products than N.",
            max(least.values()) >= 50,
            "N over the products of the cheapest step: " + "; ".join(f"{NAMES[n]} {least[n]:.0f}" for n in runs) + ".",
        ),
    ]
    if "covtype" in several:
        cov, web8 = (sizes[n] * smooth(several[n]) for n in ("covtype", "w8a"))
        m = min(len(cov), len(web8))
        best = int(np.argmin(cov[:m] / web8[:m]))
        verdicts.append(
            measured(
                lab,
                "Although covertype is 10 times larger than web8, a step of it may need fewer products.",
                cov[best] < web8[best],
                f"Nearest to it are the {WINDOW} steps to {best + WINDOW}: {cov[best]:.0f} products each on covertype, "
                f"{web8[best]:.0f} on web8, in {m + WINDOW - 1} steps of both. Their cheapest steps have "
                f"{sizes['covtype'] / least['covtype']:.0f} and {sizes['w8a'] / least['w8a']:.0f}.",
            )
        )
    return verdicts

r"""Do and Artieres (2008), Fig. 6: ten passes of Pegasos as the start of Hyperpass.

Data: sets with many features, a part of CCAT (rcv1) and made-up texts of the sizes of real-sim; lambda as in
seed002_gap. Counted are products <x_i, .> over N, those of the start included.

Claims: the combined method performs much better than each of Hyperpass, Pegasos and cutting planes, and converges at
the rate of Hyperpass, the fastest one.

Judged: it must need fewer products than each of the others to every gap of 1e-1, 1e-2, 1e-3 and 1e-4 v* that one of
them reaches, on every set; the same rate is at least half of it, in digits of the gap a product.

Expected: better than Hyperpass from nothing at every gap, and than the others at small ones. Pegasos alone needs fewer
products for a rough answer: the combined method cannot be ahead of it before its ten passes are over.
"""

from dataclasses import replace

import numpy as np

from ..solvers import Pegasos
from .hyperpass_runs import (
    AS_PUBLISHED,
    METHODS,
    NAMES,
    Run,
    best_bound,
    high,
    lambda_of,
    load_set,
    said,
    state_problem,
    walk,
    whole,
)
from .judged import measured
from .lab import Lab, Outcome, Plot, Table, Verdict

PASSES = 10
TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)
BOTH = "Pegasos, then Hyperpass"
RIVALS = ("Hyperpass as published", "Pegasos", "cutting planes")


def slope(found: Run, v: float) -> float:
    """Digits of the gap gained in 10 N products, between 1e-2 v* and 1e-4 v*, or as far as it came."""
    gap = (found.primal - v) / v
    part = np.flatnonzero((gap <= 1e-2) & (gap >= 1e-4))
    if len(part) < 2:
        return np.nan
    digits = np.log10(gap[part[0]] / gap[part[-1]])
    return float(10 * digits / (found.products[part[-1]] - found.products[part[0]]))


def run(lab: Lab) -> Outcome:
    runs: dict[str, dict[str, Run]] = {}
    v, rows, plots = {}, [], []
    solvers = {BOTH: replace(AS_PUBLISHED, start_passes=PASSES)} | {name: METHODS[name] for name in RIVALS}
    solvers["averaged Pegasos"] = Pegasos()
    names = high(lab)
    for number, name in enumerate(names):
        lam = lambda_of(lab, name)
        problem = state_problem(*whole(load_set(lab, name)), lam)
        v[name], runs[name] = best_bound(problem, lam), {}
        for place, (method, solver) in enumerate(solvers.items()):
            lab.tell(f"{method} on {name}", (number + place / len(solvers)) / len(names))
            runs[name][method] = walk(problem, solver, lam, lab.pick(40, 150, 400), v[name], 1e-5 * v[name])
        for method, found in runs[name].items():
            counts = [said(found.steps_to(t * v[name], v[name], found.products)) for t in TARGETS]
            rows.append(
                [NAMES[name], method, *counts, f"{found.primal[-1] - v[name]:.1e}", f"{found.products[-1]:.0f}"]
            )
        curves = {m: (r.products, (r.primal - v[name]).clip(1e-8)) for m, r in runs[name].items()}
        title = f"{NAMES[name]}: N = {problem.n}, {problem.size} features, lambda = {lam:g}"
        plots.append(Plot(title, "products / N", "f(w) - v*", curves, log_x=True, log_y=True))
    header = ["set", "method", *(f"products/N to {t:g} v*" for t in TARGETS), "gap at the end", "products/N"]
    return Outcome(verdicts(lab, runs, v), [Table("Products to a gap", header, rows)], plots)


def verdicts(lab: Lab, runs: dict[str, dict[str, Run]], v: dict[str, float]) -> list[Verdict]:
    def products(name: str, method: str, target: float) -> float:
        return runs[name][method].steps_to(target * v[name], v[name], runs[name][method].products)

    def better(target: float) -> bool:
        """Than all others on every set; where none gets there nothing is known."""
        known = [n for n in runs if any(np.isfinite(products(n, m, target)) for m in (BOTH, *RIVALS))]
        return all(products(n, BOTH, target) < products(n, rival, target) for n in known for rival in RIVALS)

    def beside(target: float) -> str:
        return "; ".join(f"{NAMES[n]} {', '.join(said(products(n, m, target)) for m in (BOTH, *RIVALS))}" for n in runs)

    held = {target: better(target) for target in TARGETS}
    where = [f"{target:g}" for target in TARGETS if not held[target]]
    rates = {n: (slope(runs[n][BOTH], v[n]), slope(runs[n][RIVALS[0]], v[n])) for n in runs}
    return [
        measured(
            lab,
            "Hyperpass started by ten passes of Pegasos performs much better than Hyperpass, Pegasos and cutting "
            "planes.",
            all(held.values()),
            f"Products / N of it, Hyperpass, Pegasos, cutting planes: to 1e-1 v* {beside(1e-1)}; to 1e-2 v* "
            f"{beside(1e-2)}; to 1e-3 v* {beside(1e-3)}; to 1e-4 v* {beside(1e-4)}. "
            + (f"Not the best to {', '.join(where)} v*." if where else "The best to all."),
        ),
        measured(
            lab,
            "It converges at the same rate as Hyperpass.",
            all(ours > 0.5 * theirs for ours, theirs in rates.values()),
            "Digits of the gap in 10 N products, between 1e-2 and 1e-4 v*: "
            + "; ".join(
                f"{NAMES[n]} {ours:.2f}, Hyperpass from nothing {theirs:.2f}" for n, (ours, theirs) in rates.items()
            )
            + ".",
        ),
    ]

"""Reports: one HTML file each, which needs nothing else: no network, no other file.

    page = Page("a9a.xz", "LinearSVC, hinge, C = 1")
    page.section("Convergence", "The optimum lies between the bounds.")
    page.facts({"rows": 32561, "features": 123})
    page.table(Table("Errors", ["set", "error"], [["training", "15.0 %"], ["test", "15.1 %"]]))
    page.plot(Plot("Relative gap", "seconds", "gap", {"newton": (seconds, gaps)}, log_y=True))
    page.verdict(Verdict("The gap falls.", True, "1e-3 after 0.2 s"))
    page.write("report.html")

Table, Plot and Verdict are those of `primalsvm.experiments.lab`. Written from such parts are

    training_report    of a fitted model            race_report        of a race of solvers
    tuning_report      of a search                  outcomes_report    of experiments

The charts are drawn by plotly.js, which is inside the file.
"""

from .environment import environment
from .outcomes import outcomes_report, race_report
from .page import Page
from .training import About, training_report, tuning_report

__all__ = ["About", "Page", "environment", "outcomes_report", "race_report", "training_report", "tuning_report"]

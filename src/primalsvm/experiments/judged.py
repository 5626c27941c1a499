"""How the words of the papers are judged; the same for all, whatever comes out.

A claim is judged on every set, size and method that it speaks of. "May" and "can" need one case.
"""

from .lab import Lab, Verdict

MUCH = 2.0  # "much fewer", "much quicker": by this factor at least
ALIKE = 1.0  # "nearly equal", of accuracies: so many points of per cent
GOOD = 1e-3  # "a good solution": a gap of this part of the optimum

RULES = (
    f'"Much" is a factor of {MUCH:g} or more, "nearly equal" accuracies are within {ALIKE:g} point, a good solution '
    f"is within {GOOD:g} of the optimum. A claim must hold on every set, size and method that it speaks of; of what "
    '"may" happen one case is enough. Other thresholds are in the source of each experiment.'
)


def measured(lab: Lab, claim: str, held: bool, figures: str) -> Verdict:
    """The verdict on a claim about speed or accuracy, which a few hundred rows can neither bear out nor refute."""
    if lab.scale == "toy":
        return Verdict(claim, None, f"{figures} Too few rows to tell.")
    return Verdict(claim, bool(held), figures)

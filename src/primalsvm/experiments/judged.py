"""Verdicts that need more than a toy."""

from .lab import Lab, Verdict


def measured(lab: Lab, claim: str, held: bool, figures: str) -> Verdict:
    """The verdict on a claim about speed or accuracy, which a few hundred rows can neither bear out nor refute."""
    if lab.scale == "toy":
        return Verdict(claim, None, f"{figures} Too few rows to tell.")
    return Verdict(claim, bool(held), figures)

"""primalsvm explain"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import check_output, one_line_errors, print_report
from .data import load_model
from .options import AsJson

if TYPE_CHECKING:
    from ..explain import Contributions, Weights


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A linear model of primalsvm, LIBLINEAR or LIBSVM.")],
    text: Annotated[
        list[str] | None, typer.Option(metavar="PHRASE", help="Explain what a model of texts says of it; repeatable.")
    ] = None,
    top: Annotated[int, typer.Option(help="Features to show, for and against each class; of a phrase, in all.")] = 10,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a linear model has learned: the heaviest words, or features, for and against each class.

    With --text: what each word of a phrase adds to the scores, and the class that comes out.
    """
    with one_line_errors():
        check_output(picture, model)
        if top < 1:
            raise ValueError(f"top must be 1 or more, got {top}.")
        if picture is not None and text and len(text) > 1:
            raise ValueError("--picture draws one phrase; give --text once.")
        from ..explain import contributions, heaviest

        classifier = load_model(model)
        report: dict[str, Any] = {"model": str(model)}
        if text:
            found = [contributions(classifier, phrase) for phrase in text]
            if as_json:
                report["texts"] = [_phrase_facts(phrase, one) for phrase, one in zip(text, found, strict=True)]
            else:
                for phrase, one in zip(text, found, strict=True):
                    _print_phrase(phrase, one, top)
        else:
            weights = heaviest(classifier, top)
            if as_json:
                report["weights"] = {_key(label): _weight_facts(one) for label, one in weights.items()}
            else:
                _print_weights(weights)
        if picture is not None:
            _draw(classifier, text[0] if text else None, top, picture)
            report["picture"] = str(picture)
        if as_json or picture is not None:
            print_report(report, as_json)


def _key(label) -> str:
    from ..explain import label_text

    return label_text(label)


def _weight_facts(weights: Weights) -> dict[str, Any]:
    pairs = {"for": weights.for_, "against": weights.against}
    facts: dict[str, Any] = {
        side: [{"name": name, "weight": weight} for name, weight in found] for side, found in pairs.items()
    }
    return facts if weights.opposite is None else facts | {"opposite": _key(weights.opposite)}


def _phrase_facts(phrase: str, found: Contributions) -> dict[str, Any]:
    scores = {
        _key(label): {"score": one.score, "intercept": one.intercept, "terms": [term._asdict() for term in one.terms]}
        for label, one in found.scores.items()
    }
    return {"text": phrase, "prediction": _key(found.prediction), "scores": scores}


def _print_weights(weights: dict[Any, Weights]) -> None:
    """A table for each class: what speaks for it on the left, what speaks against it on the right."""
    from itertools import zip_longest

    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    largest = max((abs(weight) for one in weights.values() for _, weight in [*one.for_, *one.against]), default=1.0)
    digits = min(max(0, 2 - math.floor(math.log10(largest))), 12)  # three digits of the largest
    for label, one in weights.items():
        against = "against it" if one.opposite is None else f"for {_key(one.opposite)}"
        table = Table(box=box.SIMPLE_HEAD)
        for title in (f"for {_key(label)}", against):
            table.add_column(Text(title), overflow="fold")
            table.add_column("", justify="right")
        for left, right in zip_longest(one.for_, one.against):
            cells = [
                Text(text)
                for pair in (left, right)
                for text in ((pair[0], f"{pair[1]:+.{digits}f}") if pair else ("", ""))
            ]
            table.add_row(*cells)
        if not (one.for_ or one.against):
            table.add_row("all weights are 0")
        console.print(table)


def _print_phrase(phrase: str, found: Contributions, top: int) -> None:
    """A line for each word, a column for each class, and the verdict."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    header, lines = found.table(top)
    two = next(iter(found.scores.values())).opposite
    table = Table(box=box.SIMPLE_HEAD)
    for k, title in enumerate(header):
        words = title if k == 0 or two is None else f"{title} (+), {_key(two)} (-)"
        table.add_column(Text(words), justify="right" if k else "left", overflow="fold")
    for line in lines[:-1]:
        table.add_row(*map(Text, line))
    table.add_section()
    table.add_row(*map(Text, lines[-1]), style="bold")
    console.print(Text(f"\n{phrase}", style="italic"))
    if not found.order:
        console.print(Text("no word of it is known to the model", style="yellow"))
    console.print(table)
    console.print(Text.assemble(("prediction    ", "dim"), (_key(found.prediction), "bold")))


def _draw(model, phrase: str | None, top: int, path: Path) -> None:
    """As a file; no window is opened."""
    import matplotlib

    matplotlib.use("Agg")
    from ..explain_display import ContributionsDisplay, WeightsDisplay

    if phrase is None:
        display: Any = WeightsDisplay.from_estimator(model, k=top)
    else:
        display = ContributionsDisplay.from_estimator(model, phrase, max_features=top)
    display.figure_.savefig(path, dpi=150)

"""The command line: primalsvm train, tune, predict, certify, evaluate, compare, explain, reproduce, demo.

Results go to stdout; progress, notes and errors to stderr. Whatever is wrong with the input is one line that begins
with "error:". The heavy imports (NumPy, SciPy, scikit-learn, Numba) are inside the commands, so that --help is quick.
"""

from __future__ import annotations

from typing import Annotated

try:
    import rich  # noqa: F401  (used inside the functions; missed here already)
    import typer
except ImportError:
    raise SystemExit('The command line needs typer and rich: pip install "primalsvm[cli]"') from None

from .commands.certify import certify
from .commands.compare import compare
from .commands.demo import demo
from .commands.evaluate import evaluate
from .commands.explain import explain
from .commands.options import EXIT_CODES
from .commands.predict import predict
from .commands.reproduce import reproduce
from .commands.train import train
from .commands.tune import tune

app = typer.Typer(
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: narrower, and 0.1 s quicker
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """What the shell calls."""
    app(prog_name="primalsvm")


def _print_version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        print(f"primalsvm {__version__}")
        raise typer.Exit


VersionFlag = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print it and exit.")
]


@app.callback()
def primalsvm(version: VersionFlag = False) -> None:
    """Support vector machines that prove their answer."""


def _add(command, *examples: str, exit_codes: bool = False) -> None:
    """Register a command; its help ends with the examples, and with the exit codes where it has all of them."""
    lines = [f"Example: primalsvm {command.__name__} {example}" for example in examples]
    app.command(epilog="\n\n".join([*lines, EXIT_CODES] if exit_codes else lines))(command)


_add(
    train,
    "a9a.xz --test a9a.t.xz --loss hinge -o a9a.psvm",
    "reviews.tsv --text Phrase --label Sentiment -o reviews.psvm",
    exit_codes=True,
)
_add(tune, "heart.svm --kernel rbf --picture path.png -o heart.psvm", exit_codes=True)
_add(predict, "a9a.psvm a9a.t.xz -o labels.txt", "reviews.psvm - --scores < reviews.txt")
_add(certify, "liblinear.model heart.svm --C 1")
_add(evaluate, "reviews.tsv --text Phrase --label Sentiment --groups SentenceId --models linear,ordinal")
_add(compare, "a9a.xz --loss hinge --rivals --picture race.png", "usps.xz --kernel rbf --C 10 --seconds 30")
_add(explain, 'reviews.psvm --text "a moving film" --picture why.png')
_add(reproduce, "list", "all --scale full --data-home data")
_add(demo, "--output demo")

"""primalsvm reproduce"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..console import Progress, one_line_errors, print_report, say
from .options import AsJson, Jobs, Report
from .report import check_report, command_line

STYLES = {"held": "green", "refuted": "red", "too small to tell": "yellow"}


def reproduce(
    context: typer.Context,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Of experiments, or how they begin; all; list prints them.")
    ],
    scale: Annotated[
        Literal["toy", "small", "full"],
        typer.Option(help="Seconds, half a minute or minutes each; full has the papers' sizes."),
    ] = "small",
    data_home: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="PRIMALSVM_DATA", help="Has the public data; what it lacks is made up."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for figures, pictures and verdicts.")
    ] = Path("primalsvm-reproduce"),
    jobs: Jobs = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what the folder has already.")] = False,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Run the experiments of the papers and say which of their claims hold here.

    What is finished is written at once, and is taken from there when the same is asked for again: Ctrl-C loses one
    experiment at most. A claim that is refuted is a result, not an error.
    """
    with one_line_errors(), Progress() as progress:
        progress.say("loading primalsvm")
        from .. import experiments

        if "list" in names:
            progress.stop()
            _print_list(experiments, as_json)
            return
        wanted = experiments.find(names)
        home = _folder(data_home, output)
        check_report(report)
        from joblib import effective_n_jobs

        from ..experiments.results import summary, write_page

        results, failed, interrupted = _run(wanted, progress, scale, home, output, effective_n_jobs(jobs), fresh)
        if not results and interrupted:
            raise KeyboardInterrupt
        progress.stop()
        page = write_page(output) if results else None
        if report is not None and results:
            from ..report import outcomes_report

            outcomes_report(results, report, command=command_line(context))
        if as_json:
            print_report({"experiments": results, "failed": failed, "interrupted": interrupted}, True)
        else:
            _print_page(results)
            written = None if report is None else str(report)
            print_report({"verdicts": summary(results), "page": page and str(page), "report": written}, False)
    if interrupted:
        say("interrupted; what is finished is kept, and the same command goes on from there")
    raise typer.Exit(130 if interrupted else int(bool(failed)))


def _folder(data_home: Path | None, output: Path) -> Path | None:
    """The data folder, after a look at both; neither is made before that."""
    if data_home is not None and not data_home.is_dir():
        raise ValueError(f"--data-home {data_home}: there is no such folder; leave it out to take data made up.")
    if output.exists() and not output.is_dir():
        raise ValueError(f"--output {output}: this is no folder.")
    output.mkdir(parents=True, exist_ok=True)
    return None if data_home is None else data_home.resolve()


def _run(
    wanted: list[str], progress: Progress, scale: Any, home: Path | None, output: Path, threads: int, fresh: bool
) -> tuple[list[dict], list[str], bool]:
    """(outcomes, names of those that failed, was it Ctrl-C that ended it?)"""
    from ..experiments.lab import Lab
    from ..experiments.results import WORDS, obtain

    results: list[dict] = []
    failed: list[str] = []
    with _remembered_interrupt() as pressed:
        for number, name in enumerate(wanted, start=1):

            def tell(what: str, share: float, name=name, number=number) -> None:
                if pressed.is_set():
                    raise KeyboardInterrupt
                progress.say_share(f"{number} of {len(wanted)}  {name}: {what}", share)

            progress.say(name)
            try:
                result, ran = obtain(name, Lab(scale, home, threads, tell), output, fresh)
            except KeyboardInterrupt:
                return results, failed, True
            except Exception as error:  # one bad experiment should not cost the others
                say(f"error: {name}: {type(error).__name__}: {error}")
                failed.append(name)
                continue
            results.append(result)
            told = [verdict["held"] for verdict in result["verdicts"]]
            counts = ", ".join(f"{told.count(held)} {word}" for held, word in WORDS.items() if held in told)
            say(f"{name}: {counts}; " + (f"{result['seconds']:.1f} s" if ran else "taken from an earlier run"))
    return results, failed, False


@contextmanager
def _remembered_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C raises as ever, and is remembered: `solve` returns what it has by then, and an experiment would go on."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def handle(number, frame):
        pressed.set()
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _print_list(experiments: Any, as_json: bool) -> None:
    titles = {name: experiments.title(name) for name in experiments.names()}
    if as_json:
        print_report(titles, True)
        return
    width = max(map(len, titles), default=0)
    for name, text in titles.items():
        print(f"{name:<{width}}  {text}")


def _print_page(results: list[dict]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from ..experiments.results import WORDS

    console = Console()
    for result in results:
        console.print(Text.assemble((result["title"], "bold"), (f"  {result['name']}", "dim")))
        for verdict in result["verdicts"]:
            word = WORDS[verdict["held"]]
            line = Text.assemble((f"{word}: ", STYLES[word]), verdict["claim"], " ", (verdict["figures"], "dim"))
            console.print(Padding(line, (0, 0, 0, 2)))
        for note in result["notes"]:
            console.print(Padding(Text(f"note: {note}", "dim"), (0, 0, 0, 2)))
        console.print()

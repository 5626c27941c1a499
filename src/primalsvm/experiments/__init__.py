"""The experiments of the five papers, one file each; see `lab` for what one is made of.

A file's name is that of the experiment. Its docstring states the paper, the claim, the data and what is expected; its
`run(lab)` measures and ends with a verdict on each claim.

    names()          all of them, in the order of the papers
    find(wanted)     those that begin with one of some words, or all
    title(name)      the first line of its docstring, without importing it
    load(name)       its module
"""

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("seed*.py"))


def find(wanted: list[str]) -> list[str]:
    """The experiments that are meant: "all", a name, or how some names begin."""
    known = names()
    for word in wanted:
        if word != "all" and not any(name.startswith(word) for name in known):
            raise ValueError(f"there is no experiment {word!r}; there are all, {', '.join(known)}.")
    return [name for name in known if any(word == "all" or name.startswith(word) for word in wanted)]


def title(name: str) -> str:
    text = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or name
    return text.splitlines()[0].rstrip(".")


def load(name: str) -> ModuleType:
    return import_module(f".{name}", __name__)

"""The directive `command-line`: every command, its arguments and options, as `primalsvm COMMAND --help` says them."""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.testing import CliRunner

from primalsvm.cli import app as program

WIDTH = 400
ENTRY = re.compile(r"^  (\S.*?)(?:  +(\S.*))?$")


def help_of(*command: str) -> list[str]:
    options = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    result = CliRunner().invoke(program, [*command, "--help"], prog_name="primalsvm", **options)
    assert result.exit_code == 0, result.output
    return result.stdout.rstrip().splitlines()


def sections(lines: list[str]) -> dict[str, list[str]]:
    """The lines below each title; what stands before the first is ""."""
    found: dict[str, list[str]] = {"": []}
    current = ""
    for line in lines:
        title = re.fullmatch(r"(Arguments|Options|Commands):", line)
        if title:
            current = title[1]
            found[current] = []
        elif current and line.startswith("  Example:"):  # the epilog
            current = "Examples"
            found.setdefault(current, []).append(line)
        elif line.strip() == "Exit codes:":
            current = "Exit codes"
            found[current] = []
        else:
            found[current].append(line)
    return found


def entries(lines: list[str]) -> list[tuple[str, str]]:
    """(option, what it does); a long option has its words on the next line."""
    found: list[tuple[str, str]] = []
    for line in lines:
        match = ENTRY.match(line)
        if match:
            found.append((match[1], match[2] or ""))
        elif line.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}".strip())
    return found


class CommandLine(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        text: list[str] = []
        whole = sections(help_of())
        for name, _ in entries(whole["Commands"]):
            text += self.command(name)
        text += ["## Exit codes", ""]
        for code, meaning in entries([line[2:] for line in whole["Exit codes"]]):
            text += [f"`{code}`", f": {_escaped(meaning)}", ""]
        return self.parse_text_to_nodes("\n".join(text), allow_section_headings=True)

    def command(self, name: str) -> list[str]:
        found = sections(help_of(name))
        usage, *words = found[""]
        text = [f"## {name}", "", "```text", usage.removeprefix("Usage: "), "```", ""]
        text += [line.strip() for line in words] + [""]
        for title in ("Arguments", "Options"):
            for option, does in entries(found.get(title, [])):
                text += [f"`{option}`", f": {_escaped(does)}", ""]
        lines = [line.strip().removeprefix("Example: ") for line in found.get("Examples", []) if line.strip()]
        if lines:
            text += ["```sh", *lines, "```", ""]
        return text


def _escaped(words: str) -> str:
    return re.sub(r"([*_`<\[\]$|])", r"\\\1", words)


def setup(app: Sphinx):
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

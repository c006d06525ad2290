"""Find the code blocks of a page, and run them as a reader would who goes through it from the top."""

import re
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.cli.cases import obil

ROOT = Path(__file__).parent.parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
# a comment above a block that is only an illustration says why; readers do not see it
BLOCK = re.compile(r"(?:^<!-- not run: ([^\n]+) -->\n)?^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A code block, and why it is not run if it is not."""

    page: str
    line: int  # of its first line of code, from 1
    language: str
    code: str
    not_run: str | None


def blocks_of(page: str, *languages: str) -> list[Block]:
    """Return the blocks of a page in some languages, or all of them."""
    text = (ROOT / page).read_text()
    found = [
        Block(page, 1 + text.count("\n", 0, match.start(3)), match[2], match[3], match[1])
        for match in BLOCK.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def run_python(page: str, names: dict[str, Any], *, edit: Callable[[str], str] = str) -> dict[str, Any]:
    """Run the Python blocks of a page one after the other, each edited before; return the names after them."""
    for block in blocks_of(page, "python"):
        if block.not_run is None:
            code = "\n" * (block.line - 1) + edit(block.code)  # so that an error names the line of the page
            exec(compile(code, str(ROOT / page), "exec"), names)  # our own docs
    return names


def commands_of(block: Block) -> list[list[str]]:
    """Return the arguments of each command of a console block."""
    lines = block.code.replace("\\\n", " ").splitlines()
    return [shlex.split(line.removeprefix("$"), comments=True) for line in lines if line.startswith("$ ")]


def run_commands(page: str) -> None:
    """Run the `obil` commands of a page in this folder; other commands have to name what exists."""
    for block in blocks_of(page, "console"):
        for command in commands_of(block) if block.not_run is None else ():
            where = f"{page}:{block.line}: {shlex.join(command)}"
            match command:
                case ["obil", *arguments]:
                    result = obil(*arguments)
                    assert result.exit_code == 0, f"{where}\n{result.output}"
                case ["make", target, *_]:
                    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), where
                case [python, "-m", module, *_] if python.endswith("/python"):
                    assert find_spec(module) is not None, where
                case ["pip", "install", what]:
                    assert extras_of(what) <= extras(), where
                case _:
                    raise AssertionError(f"{where}: a command that no test runs is marked <!-- not run: why -->")


def extras_of(what: str) -> set[str]:
    """Return the extras that an argument of pip names.

    >>> sorted(extras_of(".[torch,spark]")), extras_of(".")
    (['spark', 'torch'], set())
    """
    named = re.search(r"\[(.+)\]$", what)
    return set(named[1].split(",")) if named else set()


def extras() -> set[str]:
    """Return the extras of the project."""
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])

"""How commands fail: one line on stderr in the shell's words, and an exit code that scripts can tell apart."""

from __future__ import annotations

import re

from rich.text import Text

from lakescan.cli.output import TerminalConsole
from lakescan.errors import CommitConflict, CommitStateUnknown, LakescanError

EXIT_CODES = {
    0: "It is done.",
    1: "It failed; the line on stderr says why. Nothing was changed, unless the line says so.",
    2: "The command line is wrong: there is no such command or option, or an argument is missing.",
    3: "Another writer changed the table at the same time (`CommitConflict`): run the command again.",
    4: "It is not known whether the commit was made (`CommitStateUnknown`): look at the table before repeating it.",
    5: "`lakescan health` has findings.",
    70: "A defect of lakescan, with a traceback.",
    130: "It was interrupted.",
}
_LIBRARIES = ("pyiceberg", "obstore", "sqlalchemy", "botocore", "thrift", "pyarrow")

# What messages advise in Python, as commands say it.
_WORDS = (
    (r"(?:see )?Table\.history\(\)", "lakescan history TABLE"),
    (r"compact\(purge=True\)", "lakescan compact --purge"),
    (r"\b(?:Table\.)?remove_orphans\(\)", "lakescan remove-orphans"),
    (r"\bcheckpoint\(\)", "lakescan checkpoint"),
    (r"pass relocate=\{old_prefix: new_prefix\}", """pass --relocate '{"old prefix": "new prefix"}'"""),
    (r"(?:with )?relocate=\{one: the other\}", """with --relocate '{"one": "the other"}'"""),
    (r"\brollback takes either version= or timestamp=", "give either --version or --timestamp"),
    (r"\bset_current_snapshot takes either version= or ref=", "give either --version or --ref"),
    (r"\brestore\(\) takes a version or a timestamp: give one of them", "give either --version or --timestamp"),
    (r"\bset_current_snapshot\b", "lakescan set-current"),
)


class ScriptFailed(Exception):
    """A statement of a script failed; its error is the cause.

    Args:
        source: The script's file, or 'standard input'.
        line: The line in which the statement begins, from 1.
    """

    def __init__(self, source: str, line: int) -> None:
        super().__init__(f"{source}, line {line}: ")


def shell_advice(message: str) -> str:
    """A message whose advice is commands and options instead of calls."""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return message


def exit_code(error: BaseException) -> int | None:
    """The exit code of an error that needs no traceback; None for a defect."""
    if isinstance(error, ScriptFailed) and error.__cause__ is not None:
        return exit_code(error.__cause__)
    if isinstance(error, CommitConflict):
        return 3
    if isinstance(error, CommitStateUnknown):
        return 4
    if isinstance(error, LakescanError | OSError) or _is_of_library(error):
        return 1
    return None


def print_error(error: BaseException) -> None:
    """Print the error as one line; as several, if they underline a place in SQL.

    The error of a script begins with the line of its statement.
    """
    place = ""
    if isinstance(error, ScriptFailed) and error.__cause__ is not None:
        place, error = str(error), error.__cause__
    places = isinstance(error, LakescanError) and "\n" in str(error)
    text = str(error) if places else shell_advice(" ".join(str(error).split()))
    console = TerminalConsole(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(place, (type(error).__name__, "red"), f": {text}"))


def _is_of_library(error: BaseException) -> bool:
    """Whether a library that accesses tables raised the error: its message is enough, without a traceback."""
    return any(kind.__module__.partition(".")[0] in _LIBRARIES for kind in type(error).__mro__)

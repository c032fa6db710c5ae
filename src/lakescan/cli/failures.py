"""How commands fail: one line on stderr that names commands and options, and an exit code for scripts."""

from __future__ import annotations

import re

from rich.text import Text

from lakescan.cli.output import TerminalConsole
from lakescan.errors import CommitConflict, CommitStateUnknown, LakescanError

EXIT_CODES = {
    0: "Success.",
    1: "The command failed; the line on stderr says why. Nothing was changed, unless the line says so.",
    2: "The command line is wrong: an unknown command or option, or a missing argument.",
    3: "Another writer changed the table at the same time (`CommitConflict`): run the command again.",
    4: "The outcome of the commit is unknown (`CommitStateUnknown`): look at the table before repeating it.",
    5: "`lakescan health --fail` has findings.",
    70: "A bug in lakescan, with a traceback.",
    130: "Interrupted.",
}
_LIBRARIES = ("pyiceberg", "obstore", "sqlalchemy", "botocore", "thrift", "pyarrow")

# Advice for Python in messages, and the command or option that replaces it.
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
    """A statement of a script failed; its own error is the `__cause__`.

    The text is source and line, followed by a colon.

    Args:
        source: The script's file, or 'standard input'.
        line: The line in which the statement begins, from 1.
    """

    def __init__(self, source: str, line: int) -> None:
        super().__init__(f"{source}, line {line}: ")


def shell_advice(message: str) -> str:
    """Replace Python calls in a message's advice by the commands and options of the command line."""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return message


def exit_code(error: BaseException) -> int | None:
    """Return the exit code for an error that needs no traceback, or None for a bug.

    The code is 3 for a commit conflict, 4 for an unknown state of a commit, and else 1.
    """
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
    """Print an error to stderr as one line, or as several lines if it underlines a place in SQL.

    The error of a script begins with the line number of the failed statement.
    """
    place = ""
    if isinstance(error, ScriptFailed) and error.__cause__ is not None:
        place, error = str(error), error.__cause__
    places = isinstance(error, LakescanError) and "\n" in str(error)
    text = str(error) if places else shell_advice(" ".join(str(error).split()))
    console = TerminalConsole(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(place, (type(error).__name__, "red"), f": {text}"))


def _is_of_library(error: BaseException) -> bool:
    """Return whether an error's class is of a table access library: its message is enough, without a traceback."""
    return any(kind.__module__.partition(".")[0] in _LIBRARIES for kind in type(error).__mro__)

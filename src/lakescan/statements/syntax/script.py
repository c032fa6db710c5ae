"""Split a script into statements at semicolons, as Spark's own command line does."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Semicolons inside these do not end a statement: string literals, names in backticks, comments. An unclosed one
# extends to the end of the script.
_OPAQUE = re.compile(
    r"""
    \b[rR](?:'[^']*(?:'|\Z)|"[^"]*(?:"|\Z))          # raw strings, without escapes
    | '(?:[^'\\]|\\.)*(?:'|\\?\Z) | "(?:[^"\\]|\\.)*(?:"|\\?\Z)
    | `[^`]*(?:`|\Z)
    | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)         # dollar-quoted strings
    | --(?:\\\n|[^\n])*
    """,
    re.DOTALL | re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class ScriptStatement:
    """One statement of a script.

    Attributes:
        text: The statement without its closing semicolon.
        line: The line of the script where its first word is, from 1.
        is_ended: Whether a semicolon ends it. Only the last statement may lack one.
    """

    text: str
    line: int
    is_ended: bool


def split_statements(script: str) -> list[ScriptStatement]:
    """Split a script at the semicolons outside of string literals, quoted names and comments.

    Block comments may be nested. Comments stay with the statement that follows them. Parts that hold only comments or
    spaces are left out.

    >>> [(each.line, each.text) for each in split_statements("SELECT 1;\\nSELECT ';'")]
    [(1, 'SELECT 1'), (2, "SELECT ';'")]
    """
    found: list[ScriptStatement] = []
    start, first_word, at, line, counted = 0, -1, 0, 1, 0

    def add(end: int, is_ended: bool) -> None:
        nonlocal line, counted
        if first_word >= 0:
            line, counted = line + script.count("\n", counted, first_word), first_word
            found.append(ScriptStatement(script[start:end].strip(), line, is_ended))

    while at < len(script):
        opaque = _OPAQUE.match(script, at) if script[at] in "rR'\"`$-" else None
        if opaque is not None:
            if not opaque[0].startswith("--") and first_word < 0:
                first_word = at
            at = opaque.end()
        elif script.startswith("/*", at):
            at = _comment_end(script, at)
        elif script[at] == ";":
            add(at, is_ended=True)
            at += 1
            start, first_word = at, -1
        else:
            if first_word < 0 and not script[at].isspace():
                first_word = at
            at += 1
    add(len(script), is_ended=False)
    return found


def _comment_end(script: str, start: int) -> int:
    """Return the end of the block comment at `start`, including nested comments, or of the script if it is unclosed."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(script, start):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    return len(script)

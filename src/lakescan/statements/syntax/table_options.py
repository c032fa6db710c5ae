"""Options of one table in a statement: Spark's `t WITH (key = value)`, and Flink's `t /*+ OPTIONS('key'='value') */`.

sqlglot reads neither. Spark's clause is written as a comment behind the table's name, as Flink's hint is one already.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from lakescan.errors import InvalidStatement
from lakescan.statements.syntax.text import OPTIONS_AS_COMMENT, apply_edits, literal_text, tokens, underline_place

_GAP = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?!\+).*?\*/)*", re.DOTALL)
_OPTIONS = re.compile(r"/\*\+\s*(OPTIONS|WITH)\s*(\(.*?\))\s*\*/", re.DOTALL | re.IGNORECASE)
_COMMENTS = re.compile(r"--[^\n]*|/\*(?!\+).*?\*/|/\*\+(.*?)\*/", re.DOTALL)
_ENDS = ("VAR", "IDENTIFIER", "STRING", "NUMBER", "R_PAREN")
# Spark's hints about the distribution of rows, which change no result.
_OF_DISTRIBUTION = {"BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLE_MERGE", "SHUFFLE_HASH"}
_OF_DISTRIBUTION |= {"SHUFFLE_REPLICATE_NL", "COALESCE", "REPARTITION", "REPARTITION_BY_RANGE", "REBALANCE"}

_log = logging.getLogger("lakescan.sql")


def hide_with_clauses(text: str) -> str:
    """The text with `/*+WITH (...)*/` for each clause `WITH (...)` behind the name of a table."""
    if "with" not in text.lower():
        return text
    found, edits = tokens(text), []
    for n, (before, word) in enumerate(pairwise(found), 1):
        is_clause = word.text.upper() == "WITH" and word.token_type.name not in ("IDENTIFIER", "STRING")
        behind = found[n + 1 : n + 2]
        is_name = before.token_type.name in _ENDS or re.fullmatch(r"\w+", before.text) is not None
        if not is_clause or not is_name or not behind or behind[0].token_type.name != "L_PAREN":
            continue
        end = _closing(found, n + 1, text)
        body = text[behind[0].start : found[end].end + 1]
        if "*/" in body:
            raise InvalidStatement(f"an option contains '*/'{underline_place(text, word.start, found[end].end + 1)}")
        edits.append((word.start, found[end].end + 1, f"/*+WITH {body}*/"))
    return apply_edits(text, edits)


def restore_with_clauses(text: str) -> str:
    """The text with the clauses that `with_clauses_as_hints` has written as comments, for Spark's own tables."""
    return OPTIONS_AS_COMMENT.sub(r"\1", text)


def _closing(found: list[Any], at: int, text: str) -> int:
    """The number of the token that closes a parenthesis."""
    depth = 0
    for n in range(at, len(found)):
        depth += (found[n].token_type.name == "L_PAREN") - (found[n].token_type.name == "R_PAREN")
        if depth == 0:
            return n
    place = underline_place(text, found[at].start, found[at].end + 1)
    raise InvalidStatement(f"not valid SQL: this parenthesis is not closed{place}")


def options_behind(text: str, end: int) -> tuple[dict[str, str], int] | None:
    """The options of a table whose name ends at a place in the text, and where they end; None without options.

    Raises `InvalidStatement` for options that cannot be read.
    """
    gap = _GAP.match(text, end)
    at = end if gap is None else gap.end()
    found = _OPTIONS.match(text, at)
    return None if found is None else (read_options(text, found.start(2), found.end(2)), found.end())


def read_options(text: str, start: int, end: int) -> dict[str, str]:
    """Read `('key' = 'value', key value, ...)`, which is a part of a text."""
    words = tokens(text[start:end])[1:-1]
    place = underline_place(text, start, end)
    found: dict[str, str] = {}
    for part in _parts(words):
        at = 1
        while at + 1 < len(part) and part[at].text in (".", "-") and part[at].token_type.name != "STRING":
            at += 2
        value = part[at + 1 :] if part[at : at + 1] and part[at].text in ("=", "==") else part[at:]
        sign = "-" if len(value) == 2 and value[0].text == "-" else ""
        if len(value) != 1 + bool(sign):
            raise InvalidStatement(f"options are written ('key' = 'value', ...){place}")
        key = "".join(_text(each, text[start:end]) for each in part[:at])
        if key in found:
            raise InvalidStatement(f"the option {key!r} is given twice{place}")
        found[key] = sign + _text(value[-1], text[start:end])
    if not found:
        raise InvalidStatement(f"options are written ('key' = 'value', ...){place}")
    return found


def _parts(words: list[Any]) -> Iterator[list[Any]]:
    """The words between commas."""
    part: list[Any] = []
    for each in words:
        if each.token_type.name == "COMMA":
            yield part
            part = []
        else:
            part.append(each)
    if part or words:
        yield part


def _text(word: Any, text: str) -> str:
    if word.token_type.name == "STRING":
        return literal_text(text[word.start : word.end + 1])
    return str(word.text)


def check_hints(text: str, used: Collection[int]) -> None:
    """Look at the hints of a query: `used` are the ends of those of tables.

    Hints about the distribution of rows change no result. Spark logs a warning for a hint that it does not have, and so
    does this. Raises `InvalidStatement` for OPTIONS that are not behind the name of a table.
    """
    if "/*+" not in text:
        return
    found = tokens(text)
    ends = [0, *(each.end + 1 for each in found if each.token_type.name != "HINT")]
    starts = [*(each.start for each in found if each.token_type.name != "HINT"), len(text)]
    for first, last in zip(ends, starts, strict=True):
        for hint in _COMMENTS.finditer(text, first, last):
            if hint[1] is None or hint.end() in used:
                continue
            for name in _names(hint[1]):
                if name in ("OPTIONS", "WITH"):
                    place = underline_place(text, hint.start(), hint.end())
                    raise InvalidStatement(f"{name} belongs behind the name of a table{place}")
                if name not in _OF_DISTRIBUTION:
                    _log.warning("Unrecognized hint: %s", hint[1].strip())


def _names(body: str) -> list[str]:
    """The names of the hints in one comment: `BROADCAST(a), COALESCE(2)`."""
    plain = body
    while (shorter := re.sub(r"\([^()]*\)", "", plain)) != plain:
        plain = shorter
    return [each.upper() for each in re.findall(r"\w+", plain)]

"""Rewrite Spark syntax that sqlglot cannot parse, such as `t@v3`, `TABLE t` and `t WITH (...)`."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

from lakescan.common.identifiers import split_name
from lakescan.errors import InvalidStatement
from lakescan.statements.syntax.text import (
    OPTIONS_AS_COMMENT,
    apply_edits,
    literal_text,
    text_of,
    tokens,
    underline_place,
)

_AT = re.compile(r"(?:v(\d+)|(\d{17}))\Z", re.IGNORECASE)
_WORD = re.compile(r"\w+\Z")
# Words that may come before and after `TABLE t` where it is a query. Elsewhere TABLE is a name or marks an argument.
_BEFORE = {"UNION", "INTERSECT", "EXCEPT", "MINUS", "ALL", "DISTINCT"}
_BEHIND = {"UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "|>"}
_BEHIND |= {")", ";", "WINDOW"}


def rewrite_syntax(text: str) -> str:
    """Rewrite a text into syntax that sqlglot parses and that means the same in Spark.

    Raises `InvalidStatement` for text that cannot be tokenized, `MissingDependency` without sqlglot.
    """
    text = hide_with_clauses(_rewrite_table_queries(_rewrite_time_travel(text)))
    return _parenthesize_values(_replace_call_keywords(_join_bytes(text)))


_BYTES = re.compile(r"\b[xX]\s+'")
_WORDED = {"SUBSTR": ("FROM", "FOR"), "OVERLAY": ("PLACING", "FROM", "FOR")}
_ENDS_OF_VALUES = {"STRING", "NUMBER", "R_PAREN", "R_BRACKET", "NULL", "TRUE", "FALSE", "HEX_STRING"}


def _join_bytes(text: str) -> str:
    """Rewrite `X '1F'` to `X'1F'`."""
    if not _BYTES.search(text):
        return text
    return apply_edits(
        text,
        [
            (one.end + 1, other.start, "")
            for one, other in pairwise(tokens(text))
            if one.text.upper() == "X" and one.token_type.name == "VAR" and other.token_type.name == "STRING"
        ],
    )


def _replace_call_keywords(text: str) -> str:
    """Rewrite `overlay(a PLACING b FROM 1 FOR 2)` and `substr(a FROM 1 FOR 2)` to use commas."""
    if not re.search(r"\b(?:overlay|substr)\s*\(", text, re.IGNORECASE):
        return text
    found = tokens(text)
    edits = []
    for n, each in enumerate(found[:-1]):
        words = _WORDED.get(each.text.upper(), ())
        if not words or found[n + 1].token_type.name != "L_PAREN":
            continue
        depth = 0
        for inner in found[n + 1 :]:
            depth += (inner.text in "([") - (inner.text in ")]") if inner.token_type.name != "STRING" else 0
            if depth == 0:
                break
            if depth == 1 and inner.text.upper() in words and inner.token_type.name not in ("STRING", "IDENTIFIER"):
                edits.append((inner.start, inner.end + 1, ","))
    return apply_edits(text, edits)


def _parenthesize_values(text: str) -> str:
    """Rewrite `VALUES 1, 2 AS t(a)` to `VALUES (1), (2) AS t(a)`."""
    if "values" not in text.lower():
        return text
    found = tokens(text)
    edits: list[tuple[int, int, str]] = []
    for n, each in enumerate(found[:-1]):
        if each.token_type.name == "VALUES" and found[n + 1].token_type.name != "L_PAREN":
            edits += _value_parentheses(found, n + 1)
    return apply_edits(text, edits)


def _value_parentheses(found: list[Any], at: int) -> list[tuple[int, int, str]]:
    """Return the edits that put each value of a VALUES list in parentheses, unless it is in parentheses already.

    `found` are the statement's tokens, and `at` is the index of the first value.
    """
    edits: list[tuple[int, int, str]] = []
    start, depth = at, 0
    for n in range(at, len(found) + 1):
        each = found[n] if n < len(found) else None
        kind = "" if each is None else each.token_type.name
        is_end = each is None or (
            depth == 0
            and (
                kind in ("R_PAREN", "ALIAS", "SEMICOLON")
                or (n > start and kind in ("VAR", "IDENTIFIER") and found[n - 1].token_type.name in _ENDS_OF_VALUES)
            )
        )
        if is_end or (depth == 0 and kind == "COMMA"):
            if n > start and found[start].token_type.name != "L_PAREN":
                edits.append((found[start].start, found[start].start, "("))
                edits.append((found[n - 1].end + 1, found[n - 1].end + 1, ")"))
            if is_end:
                return edits
            start = n + 1
        elif each is not None and kind != "STRING":
            depth += (each.text in ("(", "[")) - (each.text in (")", "]"))
    return edits


def _rewrite_time_travel(text: str) -> str:
    """Rewrite Delta's `t@v3` and `t@20260131120000000`, and SYSTEM_VERSION, to `VERSION | TIMESTAMP AS OF`."""
    if "@" not in text and "system_version" not in text.lower():
        return text
    found = tokens(text)
    edits = [
        (word.start, word.end + 1, "VERSION")
        for before, word in pairwise(found)
        if before.text.upper() == "FOR" and word.text.upper() == "SYSTEM_VERSION"
    ]
    for name, mark, what in zip(found, found[1:], found[2:], strict=False):
        together = name.end + 1 == mark.start and mark.end + 1 == what.start and mark.text == "@"
        if together and (at := _AT.match(what.text)):
            version, moment = at.groups()
            clause = f" VERSION AS OF {version}" if version else f" TIMESTAMP AS OF '{_moment(moment)}'"
            edits.append((mark.start, what.end + 1, clause))
    return apply_edits(text, edits)


def _moment(digits: str) -> str:
    day, time = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}", f"{digits[8:10]}:{digits[10:12]}:{digits[12:14]}"
    return f"{day} {time}.{digits[14:]}"


def _rewrite_table_queries(text: str) -> str:
    """Rewrite each query `TABLE t` to `SELECT * FROM t`."""
    if "table" not in text.lower():
        return text
    found = tokens(text)
    opened = _match_parentheses(found)
    edits = []
    for n, each in enumerate(found):
        if each.token_type.name == "TABLE" and _is_query(found, n, opened):
            edits.append((each.start, each.end + 1, "SELECT * FROM"))
    return apply_edits(text, edits)


def _match_parentheses(found: list[Any]) -> dict[int, int]:
    """Map the index of each closing parenthesis to the index of its opening one. Unmatched ones are left out."""
    opened, pending = {}, []
    for n, each in enumerate(found):
        if each.token_type.name == "L_PAREN":
            pending.append(n)
        elif each.token_type.name == "R_PAREN" and pending:
            opened[n] = pending.pop()
    return opened


def _is_query(found: list[Any], at: int, opened: Mapping[int, int]) -> bool:
    """Return whether the word TABLE at token `at` begins a query, judged by the tokens around `TABLE name`.

    `opened` is the result of `_match_parentheses`.
    """
    behind = _end_of_name(found, at + 1)
    if behind is None or (behind < len(found) and found[behind].text.upper().split()[0] not in _BEHIND):
        return False
    if at == 0:
        return True
    before = found[at - 1]
    if before.token_type.name == "L_PAREN":  # but not an argument: f(TABLE t)
        return at == 1 or found[at - 2].token_type.name not in ("VAR", "IDENTIFIER")
    if before.token_type.name == "R_PAREN":  # after the queries of WITH
        start = opened.get(at - 1, 0)
        return start > 0 and found[start - 1].text.upper() == "AS"
    return before.text.upper() in _BEFORE and before.token_type.name != "IDENTIFIER"


def _end_of_name(found: list[Any], at: int) -> int | None:
    """Return the index after the table's name or `IDENTIFIER(...)` at token `at`; None if no name begins there."""
    if at + 1 < len(found) and found[at].text.upper() == "IDENTIFIER" and found[at + 1].text == "(":
        depth = 0
        for n in range(at + 1, len(found)):
            depth += (found[n].text == "(") - (found[n].text == ")")
            if depth == 0:
                return n + 1
        return None
    while at < len(found) and (found[at].token_type.name == "IDENTIFIER" or _WORD.match(found[at].text)):
        if at + 1 >= len(found) or found[at + 1].text != ".":
            return at + 1
        at += 2
    return None


def resolve_identifiers(text: str, tree: Any, values: Mapping[str, Any]) -> str:
    """Return the text with each table name `IDENTIFIER(...)` replaced by the name, if its argument is constant.

    `values` are the statement's parameters. Raises `InvalidStatement` for an argument that is not the name of a table.
    """
    edits = []
    for node in _calls_of_identifier(tree):
        name = text_of(node.expressions[0], values) if len(node.expressions) == 1 else None
        if name is None:
            continue
        start, end = place_of_call(node, text)
        parts = split_name(name.strip())
        if parts is None:
            raise InvalidStatement(
                f"IDENTIFIER({name!r}) is not the name of a table{underline_place(text, start, end)}"
            )
        edits.append((start, end, ".".join(f"`{part.replace('`', '``')}`" for part in parts)))
    return apply_edits(text, edits)


def _calls_of_identifier(tree: Any) -> Iterator[Any]:
    from sqlglot import exp

    for table in tree.find_all(exp.Table):
        call = table.this
        is_whole = not table.args.get("db")
        if isinstance(call, exp.Anonymous) and call.name.upper() == "IDENTIFIER" and is_whole:
            yield call


def place_of_call(node: Any, text: str) -> tuple[int, int]:
    """Return the start and end of a function call in the text, including its parentheses."""
    start, depth = int(node.meta["start"]), 0
    for each in tokens(text[start:])[1:]:
        depth += (each.text == "(") - (each.text == ")")
        if depth == 0:
            return start, start + int(each.end) + 1
    return start, len(text)


# sqlglot cannot parse table options. Spark's clause `WITH (...)` is rewritten as a comment after the table's name, like
# Flink's hint `/*+ OPTIONS(...) */`.

_GAP = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?!\+).*?\*/)*", re.DOTALL)
_OPTIONS = re.compile(r"/\*\+\s*(OPTIONS|WITH)\s*(\(.*?\))\s*\*/", re.DOTALL | re.IGNORECASE)
_COMMENTS = re.compile(r"--[^\n]*|/\*(?!\+).*?\*/|/\*\+(.*?)\*/", re.DOTALL)
_ENDS = ("VAR", "IDENTIFIER", "STRING", "NUMBER", "R_PAREN")
# Spark's hints about the distribution of rows, which do not change the result.
_OF_DISTRIBUTION = {"BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLE_MERGE", "SHUFFLE_HASH"}
_OF_DISTRIBUTION |= {"SHUFFLE_REPLICATE_NL", "COALESCE", "REPARTITION", "REPARTITION_BY_RANGE", "REBALANCE"}

_log = logging.getLogger("lakescan.sql")


def hide_with_clauses(text: str) -> str:
    """Rewrite each clause `WITH (...)` after a table's name to a comment, `/*+WITH (...)*/`.

    Raises `InvalidStatement` for an option that contains `*/`, and for an unclosed parenthesis.
    """
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
    """Undo `hide_with_clauses`, for tables that Spark itself reads."""
    return OPTIONS_AS_COMMENT.sub(r"\1", text)


def _closing(found: list[Any], at: int, text: str) -> int:
    """Return the index of the token that closes the parenthesis at `at`; raises `InvalidStatement` without one."""
    depth = 0
    for n in range(at, len(found)):
        depth += (found[n].token_type.name == "L_PAREN") - (found[n].token_type.name == "R_PAREN")
        if depth == 0:
            return n
    place = underline_place(text, found[at].start, found[at].end + 1)
    raise InvalidStatement(f"not valid SQL: this parenthesis is not closed{place}")


def options_behind(text: str, end: int) -> tuple[dict[str, str], int] | None:
    """Read the options of a table whose name ends at `end`: a comment `/*+ OPTIONS(...) */` or `/*+WITH (...)*/`.

    Returns the options and their end in the text, or None without options. Raises `InvalidStatement` for options that
    cannot be parsed.
    """
    gap = _GAP.match(text, end)
    at = end if gap is None else gap.end()
    found = _OPTIONS.match(text, at)
    return None if found is None else (read_options(text, found.start(2), found.end(2)), found.end())


def read_options(text: str, start: int, end: int) -> dict[str, str]:
    """Read `('key' = 'value', key value, ...)` from `text[start:end]`. Values become text.

    Raises `InvalidStatement` for other text, for no options, and for a key that is set twice.
    """
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
    """Yield the lists of tokens between commas."""
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
    """Check the hints of a query that are not table options. `used` holds the ends of the hints that are.

    Hints about the distribution of rows are ignored. As in Spark, an unknown hint is logged as a warning. Raises
    `InvalidStatement` for OPTIONS that do not follow the name of a table.
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
                    raise InvalidStatement(f"{name} must follow the name of a table{place}")
                if name not in _OF_DISTRIBUTION:
                    _log.warning("Unrecognized hint: %s", hint[1].strip())


def _names(body: str) -> list[str]:
    """Return the names of the hints in one comment, such as `BROADCAST(a), COALESCE(2)`, in upper case."""
    plain = body
    while (shorter := re.sub(r"\([^()]*\)", "", plain)) != plain:
        plain = shorter
    return [each.upper() for each in re.findall(r"\w+", plain)]

"""References to columns and struct members, as users write them in text."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[^`.]+", re.DOTALL)
_SPLITS = re.compile(r"[,()]")
_PART = re.compile(rf"`((?:[^`]|``)*)`|({_PLAIN.pattern})", re.DOTALL)


def parse_reference(text: str) -> tuple[str, ...]:
    """Split a reference to a column into names, from the column down to the member.

    All parameters that take a column as text use this syntax: `select`, `where` and `col`, `partition_by`, keys, sort
    orders and options. Names are separated by dots. A name that contains dots or backquotes is put in backquotes, and a
    backquote inside it is doubled. Text that is not a valid reference (`a..b`) is returned as one name, because a
    column may have that name.

    Example:
        >>> parse_reference("address.city")
        ('address', 'city')
        >>> parse_reference("`a.b`")
        ('a.b',)
    """
    names, position = [], 0
    while part := _PART.match(text, position):
        quoted, plain = part.groups()
        names.append(plain if quoted is None else quoted.replace("``", "`"))
        if part.end() == len(text):
            return tuple(names)
        if text[part.end()] != ".":
            break
        position = part.end() + 1
    return (text,)


_ITEMS = re.compile(r"(?:(?<![^\s.,(])`(?:[^`]|``)*`|.)", re.DOTALL)  # a quoted name, else one letter


def split_list(text: str, *, keep_calls: bool = False) -> tuple[str, ...]:
    """Split text at commas outside of backquoted names, and strip the items; empty items are included.

    With `keep_calls`, commas inside parentheses do not split either.

    Example:
        >>> split_list("id, `a,b`")
        ('id', '`a,b`')
        >>> split_list("bucket(16, id), day", keep_calls=True)
        ('bucket(16, id)', 'day')
    """
    items, depth = [""], 0
    for item in _ITEMS.findall(text):
        depth += keep_calls * ((item == "(") - (item == ")"))
        if item == "," and not depth:
            items.append("")
        else:
            items[-1] += item
    return tuple(each.strip() for each in items)


def dotted_path(names: Iterable[str]) -> str:
    """Join names by dots into a reference that `parse_reference` splits into the same names.

    Names with dots, backquotes, commas, parentheses or surrounding spaces are put in backquotes.
    """
    return ".".join(name if _is_plain(name) else backquote(name) for name in names)


def backquote(name: str) -> str:
    """Put a name in backquotes, doubling backquotes inside it, as in Spark SQL; it is then not split at dots."""
    return "`" + name.replace("`", "``") + "`"


def _is_plain(name: str) -> bool:
    """Return whether a name needs no backquotes.

    Names with surrounding spaces need them, because lists and aliases strip spaces. So do names with commas or
    parentheses, which separate list items and transforms.
    """
    return _PLAIN.fullmatch(name) is not None and name == name.strip() and not _SPLITS.search(name)

"""References to columns: how users write the name of a column, or of a member of a struct, as text."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[^`.]+", re.DOTALL)
_SPLITS = re.compile(r"[,()]")
_PART = re.compile(rf"`((?:[^`]|``)*)`|({_PLAIN.pattern})", re.DOTALL)


def parse_reference(text: str) -> tuple[str, ...]:
    """Split a reference to a column into names, from the column down to the member.

    This is the syntax of every place that takes a column as text: `select`, `where` and `col`, `partition_by`, keys,
    sort orders and options. Names are parted by dots. A name with dots or backquotes is put in backquotes, in which a
    backquote is doubled. Text that is no reference (`a..b`) is taken as one name, because columns may be named so.

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
    """Split text at commas outside of quoted names, and with `keep_calls` outside of parentheses.

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
    """Join names into a reference that `parse_reference` splits into the same names; quotes those that need it."""
    return ".".join(name if _is_plain(name) else backquote(name) for name in names)


def backquote(name: str) -> str:
    """A name in backquotes, as Spark's SQL takes any: it is not split at dots."""
    return "`" + name.replace("`", "``") + "`"


def _is_plain(name: str) -> bool:
    """Whether a name needs no backquotes. Spaces around need them, since lists and aliases strip these; so do commas
    and parentheses, at which lists and transforms are split."""
    return _PLAIN.fullmatch(name) is not None and name == name.strip() and not _SPLITS.search(name)

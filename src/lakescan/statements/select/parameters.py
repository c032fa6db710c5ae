"""Lists and mappings as parameters: expressions of parameters for their elements, which engines take one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakescan.statements.syntax.text import edited, tokens

_Values = dict[str, Any]


def with_collections(text: str, values: Mapping[str, Any]) -> tuple[str, _Values]:
    """The text with `array(:ids_0, :ids_1)` and `map(:m_k0, :m_v0)` for parameters that are lists and mappings.

    No value becomes a part of the text. Returns the text, and the values of all parameters by name.

    Example:
        >>> with_collections("SELECT :ids", {"ids": [7, 8]})
        ('SELECT array(:ids_0, :ids_1)', {'ids_0': 7, 'ids_1': 8})
    """
    collections = {name: value for name, value in values.items() if _is_collection(value)}
    if not collections:
        return text, dict(values)
    found: _Values = {name: value for name, value in values.items() if name not in collections}
    made = {name: _expression(name, value, values, found) for name, value in collections.items()}
    words = list(tokens(text))
    edits = [
        (colon.start, name.end + 1, made[name.text])
        for before, colon, name in zip([None, *words], words, words[1:], strict=False)
        if colon.token_type.name == "COLON"
        and colon.end + 1 == name.start
        and name.text in made
        and (before is None or before.end + 1 != colon.start or before.token_type.name in ("L_PAREN", "COMMA", "EQ"))
    ]
    return edited(text, edits), found


def _is_collection(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _expression(name: str, value: Any, taken: Mapping[str, Any], found: _Values) -> str:
    """The expression of a value, whose parts become parameters in `found`, with names that no other has."""
    if isinstance(value, Mapping):
        parts = [
            _expression(f"{name}_{side}{n}", each, taken, found)
            for n, pair in enumerate(value.items())
            for side, each in zip("kv", pair, strict=True)
        ]
        return f"map({', '.join(parts)})"
    if _is_collection(value):
        items: Sequence[Any] = value
        return f"array({', '.join(_expression(f'{name}_{n}', each, taken, found) for n, each in enumerate(items))})"
    while name in taken or name in found:
        name += "_"
    found[name] = value
    return f":{name}"

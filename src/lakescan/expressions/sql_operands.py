"""Split the text of a condition at AND, OR and NOT, by its tokens: the operands keep the text that the user wrote."""

from __future__ import annotations

from typing import Any

from lakescan.expressions.scalar.parse import tokens_of

_OPENING, _CLOSING = ("L_PAREN", "L_BRACKET", "L_BRACE"), ("R_PAREN", "R_BRACKET", "R_BRACE")


def operands_of(text: str) -> tuple[str | None, list[str]]:
    """Return the operator that binds least, AND, OR or NOT, and its operands; None and the text if there is none.

    Raises `InvalidFilter` for text without tokens.

    Example:
        >>> operands_of("a = 1 and (b = 2 or c)")
        ('AND', ['a = 1', '(b = 2 or c)'])
    """
    tokens = tokens_of(text)
    depths = _depths(tokens)
    while _kind(tokens[0]) == "L_PAREN" and min(depths[:-1]) > 0 and _kind(tokens[-1]) == "R_PAREN":
        tokens, depths = tokens[1:-1], [depth - 1 for depth in depths[1:-1]]
    for operator in ("OR", "AND"):
        if places := _places(tokens, depths, operator):
            starts, ends = [0, *(place + 1 for place in places)], [*places, len(tokens)]
            return operator, [_token_text(text, tokens[start:end]) for start, end in zip(starts, ends, strict=True)]
    if _kind(tokens[0]) == "NOT":
        return "NOT", [_token_text(text, tokens[1:])]
    return None, [_token_text(text, tokens)]


def _kind(token: Any) -> str:
    return str(token.token_type.name)


def _token_text(text: str, tokens: list[Any]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def _depths(tokens: list[Any]) -> list[int]:
    """How many brackets and CASEs are open after each token."""
    depths, opened = [], []
    for token in tokens:
        kind = _kind(token)
        if kind in _OPENING or kind == "CASE":
            opened.append(kind)
        elif opened and (kind in _CLOSING or (kind == "END" and opened[-1] == "CASE")):
            opened.pop()
        depths.append(len(opened))
    return depths


def _places(tokens: list[Any], depths: list[int], operator: str) -> list[int]:
    """The places of an operator outside of brackets; the AND of a BETWEEN is none."""
    places, in_between = [], False
    for place, (token, depth) in enumerate(zip(tokens, depths, strict=True)):
        kind = _kind(token)
        if depth == 0 and kind == "BETWEEN":
            in_between = True
        elif depth == 0 and kind == "AND" and in_between:
            in_between = False
        elif depth == 0 and kind == operator:
            places.append(place)
    return places

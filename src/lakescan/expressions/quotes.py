"""Quotes in SQL text: Spark 4 reads `'it''s'` as one text with a quote in it, sqlglot as two that are put together."""

from __future__ import annotations

from itertools import pairwise


def escape_doubled_quotes(text: str) -> str:
    """The text with doubled quotes inside of texts escaped by a backslash; no position in it changes.

    Raises sqlglot's `TokenError` for text that cannot be taken apart.

    Example:
        >>> with_escaped_quotes("name = 'it''s'")
        "name = 'it\\\\'s'"
    """
    if "''" not in text and '""' not in text:
        return text
    import sqlglot

    letters = list(text)
    tokens = sqlglot.tokenize(text, read="spark")
    for one, other in pairwise(tokens):
        both_texts = one.token_type.name == other.token_type.name == "STRING" and one.end + 1 == other.start
        if both_texts and text[one.end] == text[other.start]:
            letters[one.end] = "\\"
    return "".join(letters)

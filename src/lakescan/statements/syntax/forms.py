"""The forms of statements: what the grammar takes, for reading and for the documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lakescan.statements.syntax.words import TokenReader


@dataclass(frozen=True)
class Form:
    """One form of a statement, or of an action of ALTER TABLE.

    - `keywords`: how it begins; for actions, behind the table's name.
    - `syntax`: what follows them, for the documents: `[...]` may be left out.
    - `example`: such a statement; of an action, what follows ALTER TABLE and the table's name.
    - `read`: reads what follows the keywords.
    """

    keywords: str
    syntax: str
    example: str
    read: Callable[..., Any]


def match_form(words: TokenReader, forms: Iterable[Form]) -> Form:
    """The form that the next words begin, the longest first; raises `InvalidStatement`, which names those that may be.

    Its keywords are read.
    """
    longest = sorted(forms, key=lambda each: -len(each.keywords.split()))
    for each in longest:
        if words.takes(*each.keywords.split()):
            return each
    begun = [words.words[words.at : words.at + n] for n in (3, 2, 1)]
    for found in begun:
        names = [each.text.upper() for each in found]
        fitting = [each.keywords.split() for each in longest if each.keywords.split()[: len(names)] == names]
        if found and fitting:
            words.at += len(names)
            raise words.unexpected_word(*sorted({" ".join(each[len(names) :]) for each in fitting} - {""}))
    raise words.unexpected_word(*sorted({each.keywords.split()[0] for each in longest}))

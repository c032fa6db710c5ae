"""Read the tokens of a statement from left to right: names, keywords, and expressions that stay text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

from lakescan.common.identifiers import split_name
from lakescan.errors import InvalidStatement, nearest
from lakescan.expressions.scalar.parse import escape_doubled_quotes
from lakescan.statements.syntax.text import (
    Sql,
    TableName,
    apply_edits,
    literal,
    literal_text,
    text_of,
    tokens,
    tokens_of_parts,
    underline_place,
)

_NAME = re.compile(r"\w+\Z")
_TEXTS = ("STRING", "RAW_STRING", "HEX_STRING", "NATIONAL_STRING", "NUMBER")
_OPENING = {"L_PAREN": "R_PAREN", "L_BRACKET": "R_BRACKET"}
_CLOSING = {"R_PAREN": "L_PAREN", "R_BRACKET": "L_BRACKET"}
# A value begins after these words, so an END there is the name of a column.
_BEFORE_VALUES = {"WHEN", "THEN", "ELSE", "CASE", "AND", "OR", "NOT", "SET", "ON", "WHERE", "IN", "LIKE", "BETWEEN"}
# A value ends before these, so a CASE there is the name of a column.
_BEHIND_VALUES = {"=", "==", "<=>", "<>", "!=", "<", ">", "<=", ">=", ",", ")", "]", ".", "AND", "OR", "IS", "IN"}
# Clauses that may follow an expression and are not part of it.
_CLAUSES: tuple[str, ...] = (
    "AS",
    "FROM",
    "WHERE",
    "SELECT",
    "LIMIT",
    "OFFSET",
    "ORDER BY",
    "GROUP BY",
    "SORT BY",
    "HAVING",
    "UNION",
)
_CLAUSES += ("EXCEPT", "INTERSECT", "USING", "RETURNING", "SET", "VALUES", "BY")
_NO_ALIAS = {"ANTI", "CROSS", "EXCEPT", "FULL", "INNER", "INTERSECT", "JOIN", "LATERAL", "LEFT", "NATURAL", "ON"}
_NO_ALIAS |= {"RIGHT", "SEMI", "MINUS", "UNION", "USING"}


_Item = TypeVar("_Item")


class TokenReader:
    """The tokens of one statement, and the position of the next one to read.

    Tokens are addressed by index (`n`, `start`, `end`). Searches skip the inside of parentheses, brackets and CASE ...
    END. Methods that read move the position, and raise `InvalidStatement`, underlining the token, for anything else.
    Their parameter `what` describes the expected text in this message.

    - `text`: the statement. `values`: the values of its parameters, by name.
    - `words`: the tokens, without closing semicolons. `at`: the index of the next token.

    Raises `InvalidStatement` for text that cannot be tokenized, has unmatched brackets or has several statements.
    """

    def __init__(self, text: str, values: Mapping[str, Any] | None = None) -> None:
        self.text = text
        self.values: Mapping[str, Any] = values or {}
        found = [word for token in tokens(text) for word in _split(token, text)]
        while found and found[-1].token_type.name == "SEMICOLON":
            found.pop()
        self.words = found
        self.at: int = 0
        self._closing = self._match_brackets()
        if any(each.token_type.name == "SEMICOLON" for each in found):
            at = next(n for n, each in enumerate(found) if each.token_type.name == "SEMICOLON")
            raise self.error("one statement at a time: call sql for each", at)

    def _match_brackets(self) -> dict[int, int]:
        """Map the index of each parenthesis, bracket or CASE that opens to the index of the token that closes it.

        Raises `InvalidStatement` for an unmatched parenthesis or bracket.
        """
        closing: dict[int, int] = {}
        pending: list[tuple[int, str]] = []
        for n, each in enumerate(self.words):
            kind = each.token_type.name
            if kind in _OPENING or (self.spells(n, "CASE") and self._opens_case(n)):
                pending.append((n, kind))
            elif kind in _CLOSING:
                while pending and pending[-1][1] == "CASE":  # a column named `case`
                    pending.pop()
                if not pending or pending[-1][1] != _CLOSING[kind]:
                    raise self.error(f"nothing opens this {each.text!r}", n)
                closing[pending.pop()[0]] = n
            elif self.spells(n, "END") and pending and pending[-1][1] == "CASE" and self._ends_value(n - 1):
                closing[pending.pop()[0]] = n
        if unclosed := [n for n, kind in pending if kind != "CASE"]:
            raise self.error(f"this {self.words[unclosed[-1]].text!r} is not closed", unclosed[-1])
        return closing

    def _opens_case(self, n: int) -> bool:
        behind = self.words[n + 1].text.upper() if n + 1 < len(self.words) else "="
        return not self.is_member(n) and behind not in _BEHIND_VALUES

    def _ends_value(self, n: int) -> bool:
        """Return whether a value may end with token `n`, so that a value cannot begin at the next one."""
        each = self.words[n]
        if each.token_type.name == "IDENTIFIER" or self.is_member(n):
            return True
        is_word = _NAME.match(each.text) or each.token_type.name in (*_TEXTS, *_CLOSING, "PLACEHOLDER")
        return bool(is_word) and each.text.upper() not in _BEFORE_VALUES

    def is_member(self, n: int) -> bool:
        """Return whether token `n` follows a dot."""
        return n > 0 and self.words[n - 1].token_type.name == "DOT"

    def spells(self, n: int, *names: str) -> bool:
        """Return whether the tokens from `n` on are the keywords `names`, in any case and without quotes."""
        found = self.words[n : n + len(names)]
        return len(found) == len(names) and all(
            each.text.upper() == name and each.token_type.name not in ("IDENTIFIER", *_TEXTS)
            for each, name in zip(found, names, strict=True)
        )

    @property
    def is_at_end(self) -> bool:
        """Whether all tokens are read."""
        return self.at >= len(self.words)

    def sees(self, *names: str) -> bool:
        """Return whether the next tokens are the keywords `names`. Nothing is read."""
        return self.spells(self.at, *names)

    def takes(self, *names: str) -> bool:
        """Read the keywords `names` if they come next, and return whether they did. Otherwise nothing is read."""
        if self.sees(*names):
            self.at += len(names)
            return True
        return False

    def needs(self, *names: str) -> None:
        """Read the keywords `names`; raises `InvalidStatement` if they do not come next."""
        for name in names:
            if not self.takes(name):
                raise self.unexpected_word(name)

    def ends(self, *expected: str) -> None:
        """Raise `InvalidStatement` if tokens are left. The message also names `expected`, which may follow here."""
        if not self.is_at_end:
            raise self.unexpected_word(*expected, "the end of the statement")

    def sees_symbol(self, symbol: str) -> bool:
        """Return whether the next token is this symbol, such as `(` or `,`. Nothing is read."""
        if self.is_at_end or self.words[self.at].token_type.name in ("IDENTIFIER", *_TEXTS):
            return False
        return bool(self.words[self.at].text == symbol)

    def takes_symbol(self, symbol: str) -> bool:
        """Read this symbol if it comes next, and return whether it did."""
        if self.sees_symbol(symbol):
            self.at += 1
            return True
        return False

    def needs_symbol(self, symbol: str) -> None:
        """Read this symbol; raises `InvalidStatement` if it does not come next."""
        if not self.takes_symbol(symbol):
            raise self.unexpected_word(repr(symbol))

    def items(self, read: Callable[[], _Item], opening: str = "(", closing: str = ")") -> list[_Item]:
        """Read one or more items separated by commas, between the symbols `opening` and `closing`.

        `read` reads one item.
        """
        self.needs_symbol(opening)
        found = [read()]
        while self.takes_symbol(","):
            found.append(read())
        self.needs_symbol(closing)
        return found

    def listed_items(self, read: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Read one or more items separated by commas, with or without parentheses around them.

        `read` reads one item.
        """
        if self.sees_symbol("("):
            return tuple(self.items(read))
        found = [read()]
        while self.takes_symbol(","):
            found.append(read())
        return tuple(found)

    @property
    def sees_parameter(self) -> bool:
        """Whether a named parameter (`:name`) comes next."""
        two = self.words[self.at : self.at + 2]
        return len(two) == 2 and two[0].token_type.name == "COLON" and two[0].end + 1 == two[1].start

    def parameter(self, what: str, *kinds: type) -> Any:
        """Read the named parameter that comes next, and return its value.

        Raises `InvalidStatement` for a parameter without a value, or with a value of another type than `kinds`.
        """
        at, name = self.at, str(self.words[self.at + 1].text)
        if name not in self.values:
            raise self.error(f"the parameter :{name} has no value in args", at, at + 1)
        value = self.values[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.error(f"expected {what}, and the parameter :{name} is {value!r:.40}", at, at + 1)
        self.at += 2
        return value

    def integer(self, what: str) -> int:
        """Read a whole number without a sign, or a parameter whose value is one.

        Raises `InvalidStatement` for others.
        """
        at = self.at
        if self.sees_parameter:
            number: int = self.parameter(what, int)
            if number < 0:
                raise self.error(f"expected {what}, and the parameter is {number}", at, at + 1)
            return number
        is_number = not self.is_at_end and self.words[at].token_type.name == "NUMBER"
        if not is_number or not self.words[at].text.isdecimal():
            raise self.unexpected_word(what)
        self.at += 1
        return int(self.words[at].text)

    def text_literal(self, what: str) -> str:
        """Read a string literal and return its value.

        Adjacent literals are joined. A parameter with a string may come instead.
        """
        if self.sees_parameter:
            return str(self.parameter(what, str))
        start = self.at
        while not self.is_at_end and self.words[self.at].token_type.name in ("STRING", "RAW_STRING"):
            self.at += 1
        if start == self.at:
            raise self.unexpected_word(what)
        texts = [literal_text(self.text[each.start : each.end + 1]) for each in self.words[start : self.at]]
        quote = [self.text[each.start] for each in self.words[start : self.at]]
        found = texts[0]
        for n in range(1, len(texts)):
            one, other = self.words[start + n - 1], self.words[start + n]
            is_doubled = one.end + 1 == other.start and quote[n] == quote[n - 1] != "r"
            found += (quote[n] if is_doubled else "") + texts[n]
        return found

    def closing(self, n: int) -> int:
        """Return the index of the token that closes the bracket, parenthesis or CASE at `n`."""
        return self._closing[n]

    def behind(self, n: int) -> int:
        """Return the index of the token after `n`, or after the matching bracket if `n` opens one."""
        return self._closing.get(n, n) + 1

    def find(self, stop: Callable[[int], bool], start: int | None = None, end: int | None = None) -> int:
        """Return the index of the first token, outside nested brackets, where `stop` returns true; otherwise `end`.

        The search begins at the next token unless `start` is given.
        """
        at, end = self.at if start is None else start, len(self.words) if end is None else end
        while at < end and not stop(at):
            at = self.behind(at)
        return min(at, end)

    def between(self, start: int, end: int, what: str) -> Sql:
        """Return the text of the tokens from `start` up to, not including, `end`.

        Raises `InvalidStatement` for an empty range. `what` describes the missing text.
        """
        if start >= end:
            raise self.error(f"{what} is missing", start)
        first = self.words[start].start
        return Sql(self.text[first : self.words[end - 1].end + 1], first)

    def with_literals(self, found: Sql) -> Sql:
        """Return a part of the text with its parameters replaced by literals.

        Raises `InvalidStatement` for a parameter without a value, `UnsupportedFeature` for a value that cannot be a
        literal.
        """
        end, edits = found.start + len(found.text), []
        for n, (mark, name) in enumerate(pairwise(self.words)):
            if mark.start < found.start or name.end >= end or mark.token_type.name != "COLON":
                continue
            before = self.text[mark.start - 1 : mark.start]
            if mark.end + 1 != name.start or before.isalnum() or before in ("_", "`", ")", "]"):  # a member: v:a
                continue
            if name.text not in self.values:
                raise self.error(f"the parameter :{name.text} has no value in args", n, n + 1)
            edits.append((mark.start - found.start, name.end + 1 - found.start, literal(self.values[name.text])))
        return Sql(apply_edits(found.text, edits), found.start)

    def expression(self, start: int, end: int, what: str) -> Sql:
        """Return the text of an expression from token `start` up to, not including, `end`.

        Raises `InvalidStatement` if it is empty, or if a comma or a clause such as FROM occurs outside of parentheses.
        """
        found = self.between(start, end, what)
        at = self.find(lambda n: n > start and self._ends_expression(n), start, end)
        if at < end:
            raise self.error(f"{self.words[at].text!r} cannot occur within {what}", at)
        return found

    def _ends_expression(self, n: int) -> bool:
        if self.words[n].token_type.name == "COMMA":
            return True
        is_clause = any(self.spells(n, *each.split()) for each in _CLAUSES) and not self.spells(n - 1, "DISTINCT")
        return is_clause and not self.is_member(n) and self._ends_value(n - 1)

    def until(self, stop: Callable[[int], bool], what: str) -> Sql:
        """Read an expression up to the first token where `stop` returns true, or to the end of the text.

        Raises the errors of `expression`.
        """
        start, self.at = self.at, self.find(stop)
        return self.expression(start, self.at, what)

    def split_items(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the start and end of each item in a list of tokens.

        Commas outside of nested brackets separate the items.
        """
        found, at = [], start
        while True:
            comma = self.find(lambda n: self.words[n].token_type.name == "COMMA", at, end)
            found.append((at, comma))
            if comma >= end:
                return found
            at = comma + 1

    def is_name(self, n: int) -> bool:
        """Return whether token `n` may be a name or a part of one: a quoted name or a word, even a keyword.

        False after the end.
        """
        if n >= len(self.words):
            return False
        each = self.words[n]
        kind = each.token_type.name
        return kind == "IDENTIFIER" or (kind not in _TEXTS and _NAME.match(each.text) is not None)

    def name(self, what: str) -> str:
        """Read a name with one part. `what` describes it in the message of the error."""
        if not self.is_name(self.at):
            raise self.unexpected_word(what)
        self.at += 1
        return str(self.words[self.at - 1].text)

    def names(self, what: str) -> tuple[str, ...]:
        """Read a name with one or more parts, or `IDENTIFIER(...)`, and return the parts without quotes."""
        if self.sees("IDENTIFIER") and self.at + 1 < len(self.words) and self.words[self.at + 1].text == "(":
            opening = self.at + 1
            self.at = self.behind(opening)
            return self._identifier_name(opening)
        parts = [self.name(what)]
        while not self.is_at_end and self.words[self.at].token_type.name == "DOT":
            self.at += 1
            parts.append(self.name(what))
        return tuple(parts)

    def table_name(self, what: str) -> TableName:
        """Read the name of a table, or `IDENTIFIER(...)`, without an alias."""
        first, parts = self.at, self.names(what)
        return TableName(parts, None, self.words[first].start, self.words[self.at - 1].end + 1)

    def _identifier_name(self, opening: int) -> tuple[str, ...]:
        """Return the parts of the name in `IDENTIFIER(...)`, whose parenthesis is the token `opening`.

        Raises `InvalidStatement` if its argument is not constant or not a name.
        """
        import sqlglot

        argument = self.between(opening + 1, self.closing(opening), "the name in IDENTIFIER(...)").text
        try:
            tree = sqlglot.parse_one(escape_doubled_quotes(argument), dialect="spark")
        except sqlglot.errors.SqlglotError:
            tree = None
        name = None if tree is None else text_of(tree, self.values)
        parts = None if name is None else split_name(name.strip())
        if parts is None:
            said = (
                f"IDENTIFIER({argument}) is not a constant name: use a string, a parameter or a concatenation of these"
            )
            raise self.error(said, opening - 1, self.closing(opening))
        return parts

    def alias(self, *stops: str) -> str | None:
        """Read an alias, with or without AS; None without one. `stops` are keywords that may follow instead.

        Raises `InvalidStatement` for a column list after the alias, and for a misspelled keyword.
        """
        is_explicit = self.takes("AS")
        if not is_explicit and (self.is_at_end or any(self.sees(each) for each in (*stops, *_NO_ALIAS))):
            return None
        if not is_explicit and not self.is_name(self.at):
            return None
        at, name = self.at, self.name("an alias")
        if not self.is_at_end and self.words[self.at].text == "(":
            raise self.error("an alias cannot have a column list here", self.at, self.closing(self.at))
        is_other = not self.is_at_end and not any(self.sees(each) for each in stops)
        if is_other and not is_explicit and nearest(name, stops):
            raise self.error(f"expected {' or '.join(stops)}, not {name!r}.{nearest(name, stops)}", at)
        return name

    def unexpected_word(self, *what: str) -> InvalidStatement:
        """Build the error for the next token, where one of `what` is expected.

        It suggests a keyword that is spelled alike.
        """
        wanted = " or ".join([", ".join(what[:-1]), what[-1]] if len(what) > 1 else what)
        if self.is_at_end:
            return self.error(f"expected {wanted}, and the text ends", self.at)
        found = self.words[self.at]
        keywords = [each for each in what if each.isupper()]
        hint = nearest(found.text, keywords) if len(found.text) > 2 and found.text.upper() not in keywords else ""
        return self.error(f"expected {wanted}, not {self.text[found.start : found.end + 1]!r}.{hint}", self.at)

    def error(self, what: str, first: int, last: int | None = None) -> InvalidStatement:
        """Build the error with the message `what` that underlines the tokens from `first` to `last`.

        Without `last`, only `first` is underlined. An index after the last token underlines the end of the text.
        """
        if not self.words:
            return InvalidStatement(f"not valid SQL: {what}: the text is empty")
        what = what.removesuffix(".")
        if first >= len(self.words):
            end = self.words[-1].end + 1
            return InvalidStatement(f"not valid SQL: {what}{underline_place(self.text, end, end + 1)}")
        last_word = self.words[max(first, min(first if last is None else last, len(self.words) - 1))]
        return InvalidStatement(
            f"not valid SQL: {what}{underline_place(self.text, self.words[first].start, last_word.end + 1)}"
        )

    def refuse(self, what: str, first: int) -> NoReturn:
        """Raise `InvalidStatement` with the message `what`, underlining the token `first`."""
        raise self.error(what, first)


def _split(token: Any, text: str) -> list[Any]:
    """Split a token of several words, such as ORDER BY or PRIMARY KEY, into one token per word."""
    if " " not in token.text or token.token_type.name in ("IDENTIFIER", *_TEXTS):
        return [token]
    return list(tokens_of_parts(text, token.start, token.end + 1))


@dataclass(frozen=True)
class Form:
    """One form of a statement, or of an action of ALTER TABLE.

    - `keywords`: the keywords at its beginning. For an action, these follow the table's name.
    - `syntax`: the syntax after the keywords, for the documentation. Parts in `[...]` are optional.
    - `example`: an example of the statement, or of the part after ALTER TABLE and the table's name.
    - `read`: the function that reads the part after the keywords.
    """

    keywords: str
    syntax: str
    example: str
    read: Callable[..., Any]


def match_form(words: TokenReader, forms: Iterable[Form]) -> Form:
    """Read the keywords of the longest form that matches the next tokens, and return the form.

    Raises `InvalidStatement` if no form matches. The message names the possible keywords.
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

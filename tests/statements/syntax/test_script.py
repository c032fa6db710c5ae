"""Scripts are split only at semicolons that end statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.statements.syntax.script import split_statements

STATEMENTS = (
    "SELECT 1",
    "SELECT ';'",
    "SELECT 'it''s; \\'fine\\';'",
    'SELECT ";"',
    "SELECT r'\\' , 2",
    "SELECT `a;b``;` FROM t",
    "SELECT 1 -- not; here\n+ 2",
    "SELECT 1 -- goes on \\\n; here\n+ 2",
    "SELECT /* ; /* ; */ ; */ 1",
    "SELECT $tag$ ; $$ ; $tag$",
    "SELECT bar'x'",
    "SELECT 4 / 2 - 1",
)


@given(st.lists(st.sampled_from(STATEMENTS), max_size=6), st.sampled_from([";", ";\n", " ;\n\n", ";;\n"]))
def test_a_script_is_its_statements_in_order(statements: list[str], separator: str) -> None:
    found = split_statements(separator.join(statements))
    assert [each.text for each in found] == statements
    assert all(each.is_ended for each in found[:-1])


@pytest.mark.parametrize("text", ["", " \n", ";;", "-- only; a comment", "/* only; */ ; -- comments"])
def test_empty_parts_are_not_statements(text: str) -> None:
    assert split_statements(text) == []


def test_a_statement_has_the_line_of_its_first_word() -> None:
    script = "-- a comment\n\nSELECT\n 1;\n\n/* two\n lines */ SELECT 2; SELECT 3;\n\n'x'"
    assert [each.line for each in split_statements(script)] == [3, 7, 7, 9]


@pytest.mark.parametrize("rest", ["'a; b", '"a; b', "`a; b", "/* a; b", "$x$ a; b", "r'a; b"])
def test_an_unclosed_quote_or_comment_extends_to_the_end(rest: str) -> None:
    first, last = split_statements(f"SELECT 1; SELECT {rest}")
    assert (first.text, last.text, last.is_ended) == ("SELECT 1", f"SELECT {rest}", False)


@given(st.text("aré;'\"`$-/*\\\n "))
def test_no_text_is_lost_or_repeated(script: str) -> None:
    at = 0
    for each in split_statements(script):
        at = script.index(each.text, at) + len(each.text)

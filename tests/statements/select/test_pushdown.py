"""The conditions, columns and limits of a statement that reach the scan of each table."""

from __future__ import annotations

import pytest

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.statements.select.pushdown import find_pushdowns
from lakescan.statements.select.relations import Pushdown
from lakescan.statements.select.session import QuerySettings
from lakescan.statements.select.table_references import occurrences
from lakescan.statements.syntax.parse import parse_tree

_MEMBERS = t.Struct((t.Field(11, "a", t.INT), t.Field(12, "b", t.STRING)))
_A = Schema((t.Field(1, "x", t.LONG), t.Field(2, "y", t.LONG), t.Field(3, "n", t.STRING), t.Field(4, "s", _MEMBERS)))
_B = Schema((t.Field(1, "x", t.LONG), t.Field(2, "z", t.LONG), t.Field(3, "d", t.DATE)))
_SCHEMAS = {"a": _A, "b": _B}


def pushed(text: str) -> list[Pushdown]:
    """Return the pushdown of the tables a and b, in the order of the text."""
    tree = parse_tree(text)
    found = [each for each in occurrences(tree, text) if each.names[-1] in _SCHEMAS]
    result = find_pushdowns(tree, {each: _SCHEMAS[each.names[-1]] for each in found}, {}, QuerySettings())
    return [result[each] for each in sorted(found, key=lambda each: each.start)]


def conditions(text: str) -> list[str]:
    return [str(each.predicate) for each in pushed(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM a WHERE x = 1 AND y + x > 2", ["(x = 1 and x is not null and y is not null)"]),
        ("SELECT * FROM a JOIN b ON a.x = b.x WHERE y = 1 AND z = 2", ["y = 1", "z = 2"]),
        ("SELECT * FROM a JOIN b ON a.x = b.x AND y = 1 AND b.x < 3", ["y = 1", "x < 3"]),
        ("SELECT * FROM a, b WHERE a.x = 1 AND (z = 2 OR z = 3)", ["x = 1", "(z = 2 or z = 3)"]),
        ("SELECT * FROM a WHERE x IN (SELECT x FROM b WHERE z = 1)", ["true", "z = 1"]),
        ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND z = 1 AND y = 2)", ["true", "z = 1"]),
        ("SELECT * FROM a one JOIN a two ON one.x = two.y WHERE one.x = 1", ["x = 1", "true"]),
        ("SELECT * FROM a WHERE s.a = 1 AND a.s.b = 'q'", ["(s.a = 1 and s.b = 'q')"]),
        ("SELECT * FROM a WHERE X = 1 AND A.`Y` = 2", ["(x = 1 and y = 2)"]),
        ("SELECT * FROM a, b WHERE (y = 1 AND z = 2) OR (y = 3 AND z = 4)", ["(y = 1 or y = 3)", "(z = 2 or z = 4)"]),
        ("SELECT * FROM a, b WHERE ((y = 1 AND z = 2 AND a.x = b.x) OR z = 4)", ["true", "(z = 2 or z = 4)"]),
        ("SELECT * FROM a, b WHERE y = 1 OR z = 2", ["true", "true"]),
        ("SELECT * FROM a LEFT JOIN b ON (y = 1 AND z = 2) OR (y = 3 AND z = 4)", ["true", "(z = 2 or z = 4)"]),
        ("SELECT * FROM a, b WHERE NOT ((y = 1 AND z = 2) OR (y = 3 AND z = 4))", ["true", "true"]),
    ],
)
def test_conditions_are_pushed_to_their_table(text: str, expected: list[str]) -> None:
    assert _loose(conditions(text)) == _loose(expected)


def _loose(texts: list[str]) -> list[set[str]]:
    """Split conjunctions into parts: planning may add null tests, which change nothing."""
    return [{part for part in text.strip("()").split(" and ") if "is not null" not in part} for text in texts]


@pytest.mark.parametrize(
    ("join", "where", "expected"),
    [
        ("LEFT JOIN b ON a.x = b.x AND z = 1 AND y = 2", "", ["true", "z = 1"]),
        ("RIGHT JOIN b ON a.x = b.x AND z = 1 AND y = 2", "", ["y = 2", "true"]),
        ("FULL JOIN b ON a.x = b.x AND z = 1 AND y = 2", "", ["true", "true"]),
        ("LEFT JOIN b ON a.x = b.x", "WHERE z = 1", ["true", "z = 1"]),
        ("LEFT JOIN b ON a.x = b.x", "WHERE z IS NULL", ["true", "true"]),
        ("LEFT JOIN b ON a.x = b.x", "WHERE coalesce(z, 1) = 1", ["true", "true"]),
        ("FULL JOIN b ON a.x = b.x", "WHERE z = 1", ["true", "z = 1"]),
        ("LEFT SEMI JOIN b ON a.x = b.x AND z = 1 AND y = 2", "", ["y = 2", "z = 1"]),
        ("LEFT ANTI JOIN b ON a.x = b.x AND z = 1 AND y = 2", "", ["true", "z = 1"]),
        ("CROSS JOIN b", "WHERE z = 1", ["true", "z = 1"]),
        ("NATURAL JOIN b", "WHERE z = 1", ["true", "true"]),
        ("JOIN b USING (x)", "WHERE x = 1 AND z = 1", ["x = 1", "z = 1"]),
        ("LEFT JOIN b USING (x)", "WHERE x = 1 AND z = 1", ["x = 1", "z = 1"]),
        ("RIGHT JOIN b USING (x)", "WHERE x = 1 AND y = 1", ["y = 1", "x = 1"]),
        ("FULL JOIN b USING (x)", "WHERE x = 1 AND z = 1", ["true", "z = 1"]),
    ],
)
def test_outer_joins_do_not_push_conditions_to_the_nullable_side(join: str, where: str, expected: list[str]) -> None:
    assert _loose(conditions(f"SELECT a.x FROM a {join} {where}")) == _loose(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM (SELECT x AS k, y FROM a) WHERE k = 1", ["x = 1"]),
        ("SELECT * FROM (SELECT * FROM a) q WHERE q.x = 1", ["x = 1"]),
        ("WITH q AS (SELECT x k FROM a WHERE y = 2) SELECT * FROM q WHERE k = 1", ["(y = 2 and x = 1)"]),
        ("WITH q(k) AS (SELECT x FROM a) SELECT * FROM q WHERE k = 1", ["x = 1"]),
        ("WITH q AS (SELECT x FROM a) SELECT * FROM q WHERE x = 1 UNION ALL SELECT * FROM q", ["true"]),
        ("SELECT * FROM (SELECT x FROM a UNION ALL SELECT x FROM b) WHERE x = 1", ["x = 1", "x = 1"]),
        ("SELECT * FROM (SELECT x FROM a EXCEPT SELECT z FROM b) WHERE x = 1", ["x = 1", "z = 1"]),
        ("SELECT * FROM (SELECT n FROM a UNION SELECT x FROM b) WHERE n = 1", ["true", "true"]),
        ("SELECT * FROM (SELECT x, count(*) AS c FROM a GROUP BY x) WHERE x = 1 AND c = 2", ["x = 1"]),
        ("SELECT * FROM (SELECT x, max(y) AS y FROM a GROUP BY x) WHERE y = 1", ["true"]),
        ("SELECT * FROM (SELECT x, y FROM a GROUP BY ROLLUP (x, y)) WHERE x = 1", ["true"]),
        ("SELECT * FROM (SELECT x FROM a LIMIT 5) WHERE x = 1", ["true"]),
        ("SELECT * FROM (SELECT x, row_number() OVER (ORDER BY y) r FROM a) WHERE x = 1", ["true"]),
        ("SELECT * FROM (SELECT DISTINCT x, y FROM a) WHERE x = 1", ["x = 1"]),
        ("SELECT * FROM (SELECT my_function(x) AS k, y FROM a) WHERE y = 1", ["true"]),
        ("SELECT * FROM (SELECT max(x) AS x FROM a) WHERE x = 1", ["true"]),
        ("SELECT * FROM a TABLESAMPLE (10 PERCENT) WHERE x = 1", ["true"]),
        ("SELECT * FROM a LATERAL VIEW explode(array(1)) e AS y WHERE y = 1 AND x = 2", ["x = 2"]),
        ("SELECT x FROM a HAVING x = 1", ["true"]),
        ("SELECT x FROM a LATERAL VIEW explode(array(1)) s AS a WHERE s.a = 1", ["true"]),
        ("WITH q AS (SELECT x FROM a) SELECT * FROM q WHERE x = 1 UNION ALL SELECT * FROM IDENTIFIER('q')", ["true"]),
        ("WITH a AS (SELECT x FROM a) SELECT * FROM a WHERE x = 1", ["x = 1"]),
        ("SELECT * FROM b LEFT JOIN (SELECT x AS k FROM a) q ON b.x = q.k WHERE q.k IS NULL", ["true", "true"]),
        ("SELECT * FROM unknown u, a WHERE y = 1 AND a.x = 2", ["x = 2"]),
    ],
)
def test_conditions_are_pushed_through_subqueries_if_that_is_safe(text: str, expected: list[str]) -> None:
    assert _loose(conditions(text)) == _loose(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT y FROM a WHERE x = 1", [("x", "y")]),
        ("SELECT * FROM a", [None]),
        ("SELECT count(*) FROM b", [("d",)]),
        ("SELECT a.*, z FROM a JOIN b USING (x)", [None, None]),
        ("SELECT y FROM a, (SELECT * FROM b) q", [("y",), None]),
        ("SELECT y FROM a NATURAL JOIN b", [None, None]),
        ("SELECT s.a FROM a ORDER BY Y", [("y", "s")]),
        ("SELECT struct(*) FROM a", [None]),
        ("SELECT a FROM a", [None]),
        ("SELECT m FROM b q(k, l, m)", [None]),
        ("SELECT identifier('y') FROM a", [None]),
        ("SELECT m FROM b, LATERAL (SELECT b.*) q(k, l, m)", [None]),
        ("SELECT y FROM a WHERE x IN (SELECT z FROM b)", [("x", "y"), ("x", "z")]),
    ],
)
def test_columns_that_are_not_named_are_not_read(text: str, expected: list[tuple[str, ...] | None]) -> None:
    assert [each.columns for each in pushed(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT x FROM a LIMIT 5", 5),
        ("SELECT x, 1 AS one FROM a LIMIT 5 OFFSET 2", 7),
        ("SELECT x FROM a WHERE x = 1 LIMIT 5", 5),
        ("SELECT x FROM a WHERE my_function(x) LIMIT 5", None),
        ("SELECT x FROM a ORDER BY x LIMIT 5", None),
        ("SELECT DISTINCT x FROM a LIMIT 5", None),
        ("SELECT max(x) FROM a LIMIT 5", None),
        ("SELECT explode(array(x)) FROM a LIMIT 5", None),
        ("SELECT x FROM a JOIN b USING (x) LIMIT 5", None),
        ("SELECT x FROM a TABLESAMPLE (5 ROWS) LIMIT 2", None),
        ("SELECT * FROM (SELECT x FROM a) LIMIT 2", None),
    ],
)
def test_a_limit_is_pushed_if_any_rows_suffice(text: str, expected: int | None) -> None:
    assert pushed(text)[0].limit == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1 FROM a JOIN b ON a.x = b.z", [["x among 1.z"], ["z among 0.x"]]),
        (
            "SELECT 1 FROM a, b WHERE a.x = b.z AND a.s.a = b.x",
            [["x among 1.z", "s.a among 1.x"], ["z among 0.x", "x among 0.s.a"]],
        ),
        ("SELECT 1 FROM a LEFT JOIN b ON a.x = b.z", [[], ["z among 0.x"]]),
        ("SELECT 1 FROM a LEFT JOIN b ON a.x = b.z WHERE a.y = b.x", [["y among 1.x"], ["z among 0.x", "x among 0.y"]]),
        ("SELECT 1 FROM a RIGHT JOIN b USING (x)", [["x among 1.x"], []]),
        ("SELECT 1 FROM a FULL JOIN b ON a.x = b.z", [[], []]),
        ("SELECT 1 FROM a LEFT ANTI JOIN b ON a.x = b.z", [[], ["z among 0.x"]]),
        ("SELECT 1 FROM a LEFT SEMI JOIN b ON a.x = b.z", [["x among 1.z"], ["z among 0.x"]]),
        ("SELECT 1 FROM a JOIN b ON a.x = b.z OR a.y = 1", [[], []]),
        ("SELECT 1 FROM a JOIN b ON a.x <=> b.z", [[], []]),
        ("SELECT 1 FROM a JOIN b ON a.x = b.z + 1", [[], []]),
        ("SELECT 1 FROM a WHERE x IN (SELECT z FROM b)", [["x among 1.z"], []]),
        ("SELECT 1 FROM a WHERE x IN (SELECT max(z) FROM b)", [[], []]),
        ("SELECT 1 FROM a WHERE x NOT IN (SELECT z FROM b)", [[], []]),
        ("SELECT 1 FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.z = y)", [["y among 1.z"], ["z among 0.y"]]),
        ("SELECT 1 FROM a WHERE EXISTS (SELECT max(d) FROM b WHERE b.z = y)", [[], ["z among 0.y"]]),
        ("SELECT 1 FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.z = y)", [[], ["z among 0.y"]]),
        ("SELECT (SELECT max(d) FROM b WHERE b.z = y) FROM a", [["z among 1.y"], []]),
        (
            "SELECT 1 FROM a JOIN (SELECT z AS q, count(*) FROM b GROUP BY z) g ON x = q",
            [["x among 1.z"], ["z among 0.x"]],
        ),
        ("SELECT 1 FROM a JOIN (SELECT z FROM b LIMIT 3) g ON x = z", [["x among 1.z"], []]),
        (
            "SELECT 1 FROM a JOIN (SELECT x FROM b UNION ALL SELECT z FROM b AS c) u ON u.x = y",
            [["y among 1.x 2.z"], ["x among 0.y"], ["z among 0.y"]],
        ),
    ],
)
def test_joins_push_keys_of_the_other_side(text: str, expected: list[list[str]]) -> None:
    tree = parse_tree(text)
    found = sorted(occurrences(tree, text), key=lambda each: each.start)
    result = find_pushdowns(tree, {each: _SCHEMAS[each.names[-1]] for each in found}, {}, QuerySettings())
    places = {each: n for n, each in enumerate(found)}
    among = [
        [
            f"{'.'.join(path)} among {' '.join(f'{places[v.occurrence]}.{chr(46).join(v.path)}' for v in values)}"
            for path, values in result[each].among
        ]
        for each in found
    ]
    assert among == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1 FROM q AS one JOIN q AS two ON one.x = two.y WHERE one.x = 1 AND two.x = 2", "(x = 1 or x = 2)"),
        ("SELECT 1 FROM q AS one JOIN q AS two ON one.x = two.y WHERE one.x = 1", "true"),
        ("SELECT 1 FROM q WHERE x = 1 AND y = 2 UNION ALL SELECT 1 FROM q WHERE x = 3", "((x = 1 and y = 2) or x = 3)"),
        ("SELECT 1 FROM q WHERE x = 1 UNION ALL SELECT 1 FROM q LEFT JOIN b ON q.x = 2 AND b.x = 1", "true"),
        ("SELECT 1 FROM q WHERE x = 1 AND 1 < (SELECT max(x) FROM q AS z)", "true"),
    ],
)
def test_a_with_query_read_twice_gets_the_union_of_both_needs(text: str, expected: str) -> None:
    assert conditions(f"WITH q AS (SELECT * FROM a) {text}")[0] == expected


def test_conditions_are_pushed_through_with_queries_in_any_order() -> None:
    text = "WITH q AS (SELECT * FROM a), r AS (SELECT * FROM q WHERE y < 9) SELECT 1 FROM r JOIN r AS s ON r.x = s.y"
    assert conditions(f"{text} WHERE r.x = 1 AND s.x = 2") == ["(y < 9 and (x = 1 or x = 2))"]

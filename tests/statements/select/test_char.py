"""CHAR(n) of Delta tables: comparisons ignore the padding, as in Spark, in queries and in statements."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from tests.support.delta_rules import table_with_rules


def char(text: str) -> dict[str, str]:
    return {"__CHAR_VARCHAR_TYPE_STRING": text}


def made(folder: Path, *, has_vectors: bool = False) -> lakescan.Table:
    """Make rows 1 and 2; `c` and `d` have the same text in row 1."""
    columns = {"id": "integer", "c": "string", "d": "string", "v": "string", "s": "string"}
    types = {"c": char("char(5)"), "d": char("char(8)"), "v": char("varchar(5)")}
    table = table_with_rules(folder, columns, types)
    texts = {"c": ["ab", "abc"], "d": ["ab", "abd"], "v": ["ab", "abc"], "s": ["ab", "ab   "]}
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), **texts}))
    if has_vectors:
        lakescan.table(folder).alter().set_properties({"delta.enableDeletionVectors": "true"}).commit()
    return lakescan.table(folder)


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("c = 'ab'", [1]),
        ("'ab' = c", [1]),
        ("c <=> 'ab'", [1]),
        ("c <> 'ab'", [2]),
        ("c < 'ab'", []),
        ("c <= 'ab'", [1]),
        ("c = 'ab         '", [1]),
        ("c < 'ab    \t'", []),
        ("c < 'ab   z'", [1]),
        ("c IN ('ab', 'abc     x')", [1]),
        ("c IN ('abc      ')", [2]),
        ("c NOT IN ('ab', 'zz')", [2]),
        ("CASE c WHEN 'ab' THEN true ELSE false END", [1]),
        ("c = lower('AB')", [1]),
        ("c = :text", [1]),
        ("c = d", [1]),
        ("c < d", [2]),
        ("c IN (d)", [1]),
        # Compared with other texts, CHAR is a text with trailing spaces.
        ("c = v", []),
        ("c = s", []),
        ("d = s", []),
        ("c LIKE 'ab'", []),
        ("c BETWEEN 'ab' AND 'ab'", []),
        ("c IN ('ab', NULL)", []),
        ("nullif(c, 'ab') IS NULL", []),
        ("CAST(c AS STRING) = 'ab'", []),
        ("coalesce(c, 'x') = 'ab'", []),
        ("concat(c, '') = 'ab   '", [1]),
        ("length(c) = 5", [1, 2]),
    ],
)
def test_char_is_compared_as_in_spark(tmp_path: Path, condition: str, ids: list[int]) -> None:
    table = made(tmp_path)
    args = {"text": "ab"} if ":text" in condition else None
    found = lakescan.sql(f"SELECT id FROM ch WHERE {condition} ORDER BY id", args, ch=table).to_arrow()
    assert found["id"].to_pylist() == ids


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("c BETWEEN 'ab' AND 'ab'", []),
        ("NOT (c BETWEEN 'ab' AND 'ab')", [1, 2]),
        ("c BETWEEN 'ab' AND 'abb'", [1]),
        ("c IN ('ab', NULL)", []),
        ("c IN ('ab   ', NULL)", [1]),
        ("c IN ('ab', 'zz')", [1]),
        ("c >= 'ab' AND c <= 'ab'", [1]),
    ],
)
def test_filters_compare_char_as_queries_do(tmp_path: Path, condition: str, ids: list[int]) -> None:
    """Texts in BETWEEN, and in lists with a null, are compared with the padding."""
    table = made(tmp_path)
    query = lakescan.sql(f"SELECT id FROM ch WHERE {condition} ORDER BY id", ch=table).to_arrow()
    found = table.scan().where(condition).to_arrow().sort_by("id")
    assert (query["id"].to_pylist(), found["id"].to_pylist()) == (ids, ids)
    assert table.delete(condition).deleted == len(ids)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM (SELECT c AS x FROM ch) WHERE x = 'ab'",
        "WITH q AS (SELECT * FROM ch) SELECT count(*) FROM q WHERE c = 'ab'",
        "SELECT count(*) FROM (SELECT c FROM ch GROUP BY c HAVING c = 'ab')",
        "SELECT count(*) FILTER (WHERE c = 'ab') FROM ch",
        "SELECT count(*) FROM ch a JOIN ch b ON a.c = b.d",
        "SELECT count(*) FROM ch JOIN (SELECT d AS c FROM ch) USING (c)",
        "SELECT count(*) FROM (SELECT c FROM ch UNION ALL SELECT 'x') WHERE c = 'ab'",
        "SELECT count(*) FROM ch WHERE EXISTS (SELECT 1 FROM ch b WHERE b.d = ch.c)",
    ],
)
def test_columns_of_queries_stay_char(tmp_path: Path, query: str) -> None:
    assert lakescan.sql(query, ch=made(tmp_path)).to_arrow().to_pydict().popitem()[1] == [1]


@pytest.mark.parametrize("has_vectors", [False, True], ids=["copy-on-write", "vectors"])
def test_statements_find_rows_by_char(tmp_path: Path, has_vectors: bool) -> None:
    table = made(tmp_path, has_vectors=has_vectors)
    result = table.update({"s": "'new'"}, where="c = 'ab'")
    assert (result.updated, result.delete_files) == (1, int(has_vectors))
    assert lakescan.sql("UPDATE ch SET v = 'n' WHERE c IN ('ab')", ch=table).updated == 1
    source = pa.table({"k": ["abd", "x"]})
    merge = table.merge(source, on="t.d = rpad(s.k, 8, ' ')").when_matched_update({"s": "s.k"})
    assert merge.execute().updated == 1
    assert table.to_arrow().sort_by("id").select(["v", "s"]).to_pylist() == [
        {"v": "n", "s": "new"},
        {"v": "abc", "s": "abd"},
    ]
    assert lakescan.sql("DELETE FROM ch WHERE c = 'ab'", ch=table).deleted == 1
    assert table.delete("c = 'abc'").deleted == 1
    assert table.to_arrow().num_rows == 0


def spread(folder: Path, *files: list[str | None]) -> lakescan.Table:
    """Make one file for each list of texts in a column `c` of CHAR(3)."""
    table = table_with_rules(folder, {"id": "integer", "c": "string"}, {"c": char("char(3)")})
    for texts in files:
        table.append(pa.table({"id": pa.array(range(len(texts)), pa.int32()), "c": pa.array(texts, pa.string())}))
    return lakescan.table(folder)


@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("c = 'NO'", 1),
        ("'NO ' = c", 1),
        ("c <=> 'SE     '", 3),  # longer than the column: files have no information on it
        ("c IN ('NO', 'SE')", 2),
        ("c IN ('NO', NULL)", 1),
        ("x.c = 'NO' AND x.id = 0", 1),
        ("c <> 'NO'", 3),
        ("NOT c IN ('NO')", 3),
    ],
)
def test_files_are_skipped_by_char_whether_they_have_its_padding_or_not(
    tmp_path: Path, condition: str, files: int
) -> None:
    table = spread(tmp_path, ["NO"], ["SE "], ["DK", None])
    query = lakescan.sql(f"SELECT c FROM x WHERE {condition}", x=table)
    planned = next(line for line in query.explain().splitlines() if "files by statistics" in line)
    assert int(planned.split()[3]) == files


_TEXTS = ["", "a", "ab", "a\t", "a\tb", "a!", "b", "\t", "a ", "ab ", "å", "abc", "\x1f", None]


@pytest.mark.parametrize("op", ["=", "<", "<=", ">", ">=", "<>"])
def test_bounds_of_char_hold_for_padded_texts_with_any_characters(tmp_path: Path, op: str) -> None:
    table = spread(tmp_path, *([one, other] for one in _TEXTS for other in ("a", "\t\t")))
    texts = [text for text in table.to_arrow()["c"].to_pylist() if text is not None]
    compare = {"=": str.__eq__, "<": str.__lt__, "<=": str.__le__, ">": str.__gt__, ">=": str.__ge__, "<>": str.__ne__}[
        op
    ]
    for text in filter(None, _TEXTS):
        found = table.scan().where(f"c {op} '{text}'").to_arrow()["c"].to_pylist()
        assert sorted(found) == sorted(each for each in texts if compare(each, text.ljust(3))), text
        found = lakescan.sql(f"SELECT c FROM x WHERE c {op} '{text}'", x=table).to_arrow()["c"].to_pylist()
        assert sorted(found) == sorted(each for each in texts if compare(each, text.ljust(3))), text


def test_chars_within_columns_are_read_with_their_padding_and_compared_with_it(tmp_path: Path) -> None:
    """As in Spark, the padding is ignored only in comparisons of top-level CHAR(n) columns."""
    member = {"name": "c", "type": "string", "nullable": True, "metadata": {}}
    texts = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    columns = {
        "s": {"type": "struct", "fields": [member]},
        "l": {"type": "array", "elementType": "string", "containsNull": True},
        "m": texts,
    }
    made = table_with_rules(tmp_path, columns, {})  # files have the texts without padding
    made.append(pa.table({"s": [{"c": "n"}], "l": [["n"]], "m": pa.array([[("k", "n")]], pa.map_("string", "string"))}))
    log = tmp_path / "_delta_log" / f"{0:020d}.json"
    commit = [json.loads(line) for line in log.read_text().splitlines()]
    for action in commit:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            kinds = ["struct<c:char(3)>", "array<char(2)>", "map<char(2),char(3)>"]
            for column, kind in zip(schema["fields"], kinds, strict=True):
                column["metadata"] = char(kind)
            action["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, commit)))
    (tmp_path / "_delta_log" / f"{0:020d}.crc").unlink(missing_ok=True)
    table = lakescan.table(tmp_path)
    assert table.to_arrow().to_pylist() == [{"s": {"c": "n  "}, "l": ["n "], "m": [("k ", "n  ")]}]
    counts = {text: table.scan().where(text).count() for text in ("s.c = 'n'", "s.c = 'n  '", "s.c > 'n'", "s.c < 'n'")}
    assert counts == {"s.c = 'n'": 0, "s.c = 'n  '": 1, "s.c > 'n'": 1, "s.c < 'n'": 0}

"""Random types, values and conditions, as SQL text that both sides run."""

from __future__ import annotations

from random import Random
from typing import Any

from pyspark.sql import types as s

WORDS = ["a", "b", "A", "é", "a b", "x/y", "k=v", "100%", "z" * 20, "日本", "🙂", "it''s", 'q"q', "NULL", "0"]
DATES = ["2026-01-01", "1970-01-01", "1969-12-31", "2024-02-29", "1899-06-15", "9999-12-31", "2026-11-25"]
TIMES = [
    "2026-01-01 00:00:00",
    "1970-01-01 00:00:00.000001",
    "1969-12-31 23:59:59.999999",
    "2024-02-29 12:30:00.5",
    "1950-06-15 07:08:09.123456",
    "2100-12-31 23:00:00",
]
DOUBLES = ["0.0", "1.5", "-2.25", "NaN", "Infinity", "-Infinity", "1.0E-30", "1.0E10", "123456.789", "0.1"]
BYTES = ["", "00", "FF", "0102", "DEADBEEF", "61", "E697A5"]
NAMES = [
    "Part",
    "a b",
    "ünï",
    "select",
    "1st",
    "x-y",
    "c",
    "n",
    "Val",
    "tag",
    "emoji🙂",
    "k=v",
    "%41",
    "q,r",
    "dollar$",
]
PLAIN = ["Part", "c", "n", "Val", "tag", "n2", "word", "_x", "day", "at"]
LEAVES: list[s.DataType] = [
    s.BooleanType(),
    s.IntegerType(),
    s.IntegerType(),
    s.LongType(),
    s.FloatType(),
    s.DoubleType(),
    s.DecimalType(9, 2),
    s.DecimalType(18, 6),
    s.DecimalType(30, 10),
    s.StringType(),
    s.StringType(),
    s.BinaryType(),
    s.DateType(),
    s.TimestampType(),
    s.TimestampNTZType(),
]
SMALL: list[s.DataType] = [s.ByteType(), s.ShortType()]  # only in Delta
_WHOLE = {s.ByteType: 7, s.ShortType: 15, s.IntegerType: 31, s.LongType: 63}


def quoted(*parts: str) -> str:
    """Quote a name as SQL does."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def ddl(kind: s.DataType) -> str:
    """Return a type in SQL, with quoted member names."""
    if isinstance(kind, s.StructType):
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {ddl(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, s.ArrayType):
        return f"ARRAY<{ddl(kind.elementType)}>"
    if isinstance(kind, s.MapType):
        return f"MAP<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return str(kind.simpleString()).upper()


def kind(random: Random, leaves: list[s.DataType], depth: int = 2) -> s.DataType:
    """Return a random type, nested one time in four."""
    if depth and random.random() < 0.25:
        inner = kind(random, leaves, depth - 1)
        match random.randrange(3):
            case 0:
                names = random.sample(["x", "y", "Z", "w"], random.randint(1, 3))
                return s.StructType([s.StructField(n, kind(random, leaves, depth - 1)) for n in names])
            case 1:
                return s.ArrayType(inner)
        return s.MapType(random.choice([s.StringType(), s.IntegerType()]), inner)
    return random.choice(leaves)


def literal(random: Random, kind: s.DataType, nulls: float = 0.15) -> str:
    """Return a value of exactly this type, as SQL."""
    if random.random() < nulls:
        return f"CAST(NULL AS {ddl(kind)})"
    if isinstance(kind, s.StructType):
        members = (f"'{f.name}', {literal(random, f.dataType, nulls)}" for f in kind.fields)
        return f"named_struct({', '.join(members)})"
    if isinstance(kind, s.ArrayType):
        values = [literal(random, kind.elementType, nulls) for _ in range(random.randint(0, 3))]
        return f"array({', '.join(values)})" if values else f"CAST(array() AS {ddl(kind)})"
    if isinstance(kind, s.MapType):
        keys = {literal(random, kind.keyType, 0) for _ in range(random.randint(0, 3))}
        pairs = [f"{key}, {literal(random, kind.valueType, nulls)}" for key in sorted(keys)]
        return f"map({', '.join(pairs)})" if pairs else f"CAST(map() AS {ddl(kind)})"
    return leaf(random, kind)


def leaf(random: Random, kind: s.DataType) -> str:
    """Return a value that is neither nested nor null."""
    if type(kind) in _WHOLE:
        number, most = random.randint(-3, 12), 2 ** _WHOLE[type(kind)]
        # Not the least value: Java's truncate wraps there, and its filters then lose the rows.
        return f"CAST({random.choice([number] * 6 + [most - 1, 100 - most])} AS {ddl(kind)})"
    match kind:
        case s.BooleanType():
            return random.choice(["true", "false"])
        case s.FloatType() | s.DoubleType():
            return f"CAST('{random.choice(DOUBLES)}' AS {ddl(kind)})"
        case s.DecimalType():
            whole = random.choice(["0", "1", "-1", "12", "9" * (kind.precision - kind.scale), "7"])
            return f"CAST('{whole}.{random.choice(['0', '5', '25'])}' AS {ddl(kind)})"
        case s.StringType():
            return f"'{random.choice(WORDS)}'"
        case s.BinaryType():
            return f"X'{random.choice(BYTES)}'"
        case s.DateType():
            return f"DATE '{random.choice(DATES)}'"
        case s.TimestampType():
            return f"TIMESTAMP '{random.choice(TIMES)}'"
        case s.TimestampNTZType():
            return f"TIMESTAMP_NTZ '{random.choice(TIMES)}'"
    return f"CAST(NULL AS {ddl(kind)})"


def rows(random: Random, schema: s.StructType, ids: list[int], filled: frozenset[str] = frozenset()) -> str:
    """Return a query of new rows with these ids, in the table's columns and types."""
    made = []
    for number in ids:
        values = [
            f"CAST({number} AS {ddl(f.dataType)})" if f.name == "id" else literal(random, f.dataType)
            for f in schema.fields
        ]
        made.append(
            "SELECT " + ", ".join(f"{v} AS {quoted(f.name)}" for v, f in zip(values, schema.fields, strict=True))
        )
    return " UNION ALL ".join(made)


def leaves_of(schema: s.StructType, *above: str) -> list[tuple[str, s.DataType]]:
    """Return columns and members that are not nested, by their quoted names."""
    found = []
    for field in schema.fields:
        if isinstance(field.dataType, s.StructType):
            found += leaves_of(field.dataType, *above, field.name)
        elif not isinstance(field.dataType, s.ArrayType | s.MapType):
            found.append((quoted(*above, field.name), field.dataType))
    return found


def condition(random: Random, schema: s.StructType, depth: int = 1, prefix: str = "") -> str:
    """Return a condition on columns of the table."""
    if depth and random.random() < 0.35:
        two = [condition(random, schema, depth - 1, prefix) for _ in range(2)]
        return random.choice(["({} AND {})", "({} OR {})", "(NOT ({}) OR {})"]).format(*two)
    choices = leaves_of(schema)
    name, of = random.choice([*choices, *[each for each in choices if each[0] == "`id`"] * 2])
    return _test(random, prefix + name, of)


def _test(random: Random, name: str, of: s.DataType) -> str:
    value = leaf(random, of)
    tests = [f"{name} IS NULL", f"{name} IS NOT NULL", f"{name} = {value}", f"{name} <=> {value}", f"{name} <> {value}"]
    if not isinstance(of, s.BooleanType):
        tests += [f"{name} {op} {value}" for op in ("<", "<=", ">", ">=")]
        tests += [f"{name} IN ({value}, {leaf(random, of)})", f"{name} NOT IN ({value}, {leaf(random, of)})"]
        tests.append(f"{name} BETWEEN {value} AND {leaf(random, of)}")
    if isinstance(of, s.FloatType | s.DoubleType):
        tests += [f"isnan({name})", f"NOT isnan({name})"]
    if isinstance(of, s.StringType):
        tests += [f"{name} LIKE 'a%'", f"{name} LIKE '%b'", f"{name} NOT LIKE 'z%'"]
    if isinstance(of, s.IntegerType | s.LongType):
        tests += [f"{name} % 3 = 1", f"{name} + 1 > 5"]
    return random.choice(tests)


WIDER: dict[Any, list[s.DataType]] = {
    s.ByteType: [s.ShortType(), s.IntegerType(), s.LongType()],
    s.ShortType: [s.IntegerType(), s.LongType()],
    s.IntegerType: [s.LongType()],
    s.FloatType: [s.DoubleType()],
}


def wider(random: Random, of: s.DataType) -> s.DataType | None:
    """Return a type that holds all values of another, or None."""
    if isinstance(of, s.DecimalType):
        return s.DecimalType(min(38, of.precision + random.randint(1, 8)), of.scale)
    return random.choice(WIDER[type(of)]) if type(of) in WIDER else None

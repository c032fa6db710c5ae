"""Parse and print column types in SQL: Spark's names, Flink's `TIMESTAMP(p)`, `BYTES` and `ROW`, and Iceberg's own."""

from __future__ import annotations

from collections.abc import Iterator

from lakescan.common import types as t
from lakescan.common.references import backquote
from lakescan.errors import UnsupportedFeature, nearest
from lakescan.statements.syntax.token_reader import TokenReader

_SIMPLE = {
    "BOOLEAN": t.BOOLEAN,
    "TINYINT": t.BYTE,
    "BYTE": t.BYTE,
    "SMALLINT": t.SHORT,
    "SHORT": t.SHORT,
    "INT": t.INT,
    "INTEGER": t.INT,
    "BIGINT": t.LONG,
    "LONG": t.LONG,
    "FLOAT": t.FLOAT,
    "REAL": t.FLOAT,
    "DOUBLE": t.DOUBLE,
    "DATE": t.DATE,
    "STRING": t.STRING,
    "TEXT": t.STRING,
    "BINARY": t.BINARY,
    "BYTES": t.BINARY,
    "VARBINARY": t.BINARY,
    "UUID": t.UUID,
    "VARIANT": t.VARIANT,
    "VOID": t.UNKNOWN,
    "UNKNOWN": t.UNKNOWN,
    "TIMESTAMPTZ": t.Timestamp(),
    "TIMESTAMP_NS": t.Timestamp("ns", zoned=False),
    "TIMESTAMPTZ_NS": t.Timestamp("ns"),
}
_TEXTS = ("CHAR", "CHARACTER", "VARCHAR")
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME")
_OTHERS = (*_TIMES, "FIXED", "ARRAY", "MAP", "MULTISET", "STRUCT", "ROW", *_TEXTS, *_DECIMALS)
# Flink's types that a table's column cannot have, and the advice for the error.
_FLINK = {
    "RAW": ("RAW", "Store the serialized bytes as BYTES."),
    "NULL": ("NULL", "Name the type of its values."),
    "DESCRIPTOR": ("DESCRIPTOR", ""),
    "STRUCTURED": ("STRUCTURED", "Use ROW<...>."),
}
_DIGITS = 38  # the largest precision of a decimal
_MICROSECONDS, _NANOSECONDS = 6, 9  # digits of a second


def parse_type(text: str) -> t.Type:
    """Parse a column type.

    Raises `InvalidStatement` for text that is not a type, `UnsupportedFeature` for types that tables cannot have.

    Example:
        >>> parse_type("MAP<STRING, DECIMAL(10, 2)>")
        MapOf(...)
    """
    words = TokenReader(text)
    found = read_type(words)
    words.ends()
    return found


def read_type(words: TokenReader, texts: list[str] | None = None) -> t.Type:
    """Read a column type.

    The string types in it are added to `texts` as they are written, such as `varchar(20)` or `string`.

    Flink's types are mapped as in Iceberg's connector for Flink: `BINARY(n)` is `fixed[n]`, `VARBINARY(n)` is `binary`,
    and `MULTISET<T>` is a map from each element to its count. `T ARRAY` and `T MULTISET` are other spellings of
    `ARRAY<T>` and `MULTISET<T>`.

    `TIMESTAMP` without a precision is Spark's type, with a time zone. With a precision, or with `WITHOUT TIME ZONE`, it
    is the type of the SQL standard and Flink, without a time zone unless `WITH [LOCAL] TIME ZONE` follows. Up to 6
    fractional digits are stored as microseconds, up to 9 as nanoseconds.

    Raises `InvalidStatement` for text that is not a type, `UnsupportedFeature` for types that tables cannot have.
    """
    found = _read_type(words, texts)
    while words.sees("ARRAY") or words.sees("MULTISET") or words.spells(words.at, "NOT", "NULL", "ARRAY"):
        element = t.Field(0, "element", found, words.takes("NOT", "NULL"))
        found = t.ListOf(element) if words.takes("ARRAY") else _multiset(words, found)
    return found


def _read_type(words: TokenReader, texts: list[str] | None) -> t.Type:
    at = words.at
    if not words.is_name(at):
        raise words.unexpected_word("a column type")
    name = words.words[at].text.upper()
    words.at += 1
    if name == "DOUBLE":
        words.takes("PRECISION")
    if name == "BINARY" and words.sees_symbol("("):
        return t.Fixed(_length(words, "the number of bytes"))
    if name in _SIMPLE:
        if name == "VARBINARY" and words.sees_symbol("("):
            _length(words, "the number of bytes")
        if words.sees_symbol("("):
            raise words.error(f"{name} takes no number", words.at, words.closing(words.at))
        if texts is not None and _SIMPLE[name] == t.STRING:
            texts.append("string")
        return _SIMPLE[name]
    match name:
        case "TIMESTAMP" | "TIMESTAMP_LTZ" | "TIMESTAMP_NTZ" | "TIME":
            return _time(words, name, at)
        case "ARRAY":
            words.needs_symbol("<")
            element = _element(words, "element", texts)
            words.needs_symbol(">")
            return t.ListOf(element)
        case "MAP":
            words.needs_symbol("<")
            key = t.Field(0, "key", read_type(words, texts), required=True)
            words.takes("NOT", "NULL")
            words.needs_symbol(",")
            value = _element(words, "value", texts)
            words.needs_symbol(">")
            return t.MapOf(key, value)
        case "STRUCT" | "ROW":
            brackets = "()" if name == "ROW" and words.sees_symbol("(") else "<>"
            return t.Struct(tuple(words.items(lambda: _member(words, texts), *brackets)))
        case "MULTISET":
            words.needs_symbol("<")
            element_type = read_type(words, texts)
            words.takes("NOT", "NULL")
            words.needs_symbol(">")
            return _multiset(words, element_type)
        case "FIXED":
            return t.Fixed(_length(words, "the number of bytes"))
    if name in _DECIMALS:
        return _decimal(words, at)
    if name in _TEXTS:
        [length] = words.items(lambda: words.integer("the number of characters"))
        if texts is not None:
            texts.append(f"{'varchar' if name == 'VARCHAR' else 'char'}({length})")
        return t.STRING
    if name in _FLINK:
        kind, remedy = _FLINK[name]
        raise UnsupportedFeature(f"a column of type {kind}", remedy)
    if name == "INTERVAL":
        raise UnsupportedFeature("a column of an interval type", "Store a number of seconds, or two timestamps.")
    raise words.error(f"{words.words[at].text!r} is not a column type.{nearest(name, [*_SIMPLE, *_OTHERS])}", at)


def _length(words: TokenReader, what: str) -> int:
    """Read `(n)`; raises `InvalidStatement` for zero and for other text. `what` describes the number in the message."""
    at = words.at
    [length] = words.items(lambda: words.integer(what))
    if length < 1:
        raise words.error(f"{what} is at least 1", at, words.at - 1)
    return length


def _multiset(words: TokenReader, element: t.Type) -> t.Type:
    """Build the type of a multiset: a map from elements to counts, as Iceberg's connector for Flink stores it."""
    words.takes("MULTISET")
    return t.MapOf(t.Field(0, "key", element, required=True), t.Field(0, "value", t.INT, required=True))


def _time(words: TokenReader, name: str, at: int) -> t.Type:
    """Read the part after TIMESTAMP or TIME: a precision, and WITH or WITHOUT TIME ZONE.

    `name` is the type's name, and `at` the index of its token. Raises `InvalidStatement` for too many digits, and
    `UnsupportedFeature` for TIME WITH TIME ZONE.
    """
    digits = words.items(lambda: words.integer("the digits of a second"))[0] if words.sees_symbol("(") else None
    if digits is not None and digits > (_MICROSECONDS if name == "TIME" else _NANOSECONDS):
        most = _MICROSECONDS if name == "TIME" else _NANOSECONDS
        raise words.error(f"{name} keeps at most {most} digits of a second, not {digits}", at, words.at - 1)
    zoned = name == "TIMESTAMP_LTZ" or (digits is None and name == "TIMESTAMP")
    if name in ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"):
        return t.Timestamp("ns" if (digits or 0) > _MICROSECONDS else "us", zoned=zoned)
    if words.takes("WITHOUT"):
        words.needs("TIME", "ZONE")
        zoned = False
    elif words.takes("WITH"):
        words.takes("LOCAL")
        words.needs("TIME", "ZONE")
        zoned = True
        if name == "TIME":
            raise UnsupportedFeature("a column of type TIME WITH TIME ZONE", "Use TIMESTAMP, or TIME.")
    if name == "TIME":
        return t.TIME
    return t.Timestamp("ns" if (digits or 0) > _MICROSECONDS else "us", zoned=zoned)


def _decimal(words: TokenReader, at: int) -> t.Type:
    if not words.sees_symbol("("):
        return t.Decimal(10, 0)
    digits = words.items(lambda: words.integer("a number of digits"))
    precision, scale = digits[0], digits[1] if len(digits) > 1 else 0
    if len(digits) > 2 or not 0 < precision <= _DIGITS or scale > precision:
        raise words.error(f"a decimal has 1 to {_DIGITS} digits, and a scale within these", at, words.at - 1)
    return t.Decimal(precision, scale)


def _element(words: TokenReader, name: str, texts: list[str] | None) -> t.Field:
    kind = read_type(words, texts)
    return t.Field(0, name, kind, words.takes("NOT", "NULL"))


def _member(words: TokenReader, texts: list[str] | None) -> t.Field:
    """Read a member of a struct: `name[:] type [NOT NULL] [[COMMENT] 'text']`."""
    name = words.name("the name of a member")
    words.takes_symbol(":")
    kind, required = read_type(words, texts), False
    if words.takes("NOT", "NULL"):
        required = True
    else:
        words.takes("NULL")
    is_commented = words.takes("COMMENT") or (not words.is_at_end and words.words[words.at].token_type.name == "STRING")
    comment = words.text_literal("the comment") if is_commented else None
    return t.Field(0, name, kind, required, comment)


_NAMES = {
    t.BOOLEAN: "BOOLEAN",
    t.BYTE: "TINYINT",
    t.SHORT: "SMALLINT",
    t.INT: "INT",
    t.LONG: "BIGINT",
    t.FLOAT: "FLOAT",
    t.DOUBLE: "DOUBLE",
    t.DATE: "DATE",
    t.TIME: "TIME",
    t.STRING: "STRING",
    t.BINARY: "BINARY",
    t.UUID: "UUID",
    t.VARIANT: "VARIANT",
    t.UNKNOWN: "VOID",
    t.Timestamp(): "TIMESTAMP",
    t.Timestamp(zoned=False): "TIMESTAMP_NTZ",
    t.Timestamp("ns"): "TIMESTAMPTZ_NS",
    t.Timestamp("ns", zoned=False): "TIMESTAMP_NS",
}


def type_text(kind: t.Type) -> str:
    """Return a type as SQL text.

    Example:
        >>> type_text(t.ListOf(t.Field(1, "element", t.LONG)))
        'ARRAY<BIGINT>'
    """
    match kind:
        case t.Decimal():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case t.Fixed():
            return f"FIXED({kind.length})"
        case t.ListOf():
            return f"ARRAY<{type_text(kind.element.type)}{_not_null(kind.element)}>"
        case t.MapOf():
            return f"MAP<{type_text(kind.key.type)}, {type_text(kind.value.type)}{_not_null(kind.value)}>"
        case t.Struct():
            return f"STRUCT<{', '.join(_member_text(each) for each in kind.fields)}>"
    return _NAMES.get(kind) or str(kind).upper()


def spark_text(kind: t.Type, texts: Iterator[str]) -> str:
    """Return a type as Spark's catalogs write it. `texts` has the text of each string type in it, in order.

    Example:
        >>> spark_text(t.ListOf(t.Field(1, "element", t.STRING)), iter(["varchar(3)"]))
        'array<varchar(3)>'
    """
    match kind:
        case t.ListOf():
            return f"array<{spark_text(kind.element.type, texts)}>"
        case t.MapOf():
            return f"map<{spark_text(kind.key.type, texts)},{spark_text(kind.value.type, texts)}>"
        case t.Struct():
            members = (f"{name_text(each.name)}:{spark_text(each.type, texts)}" for each in kind.fields)
            return f"struct<{','.join(members)}>"
        case t.STRING:
            return next(texts)
    return type_text(kind).lower().replace(", ", ",")


def name_text(name: str) -> str:
    """Return a name as SQL text, in backquotes unless it is a plain ASCII identifier.

    Example:
        >>> name_text("a b")
        '`a b`'
    """
    return name if name.isascii() and name.isidentifier() else backquote(name)


def text_literal(text: str) -> str:
    """Return a string as an SQL literal.

    Example:
        >>> text_literal("it's")
        "'it\\\\'s'"
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _member_text(field: t.Field) -> str:
    doc = "" if field.doc is None else f" COMMENT {text_literal(field.doc)}"
    return f"{name_text(field.name)}: {type_text(field.type)}{_not_null(field)}{doc}"


def _not_null(field: t.Field) -> str:
    return " NOT NULL" if field.required else ""

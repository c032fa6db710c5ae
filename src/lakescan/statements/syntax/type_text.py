"""Column types and columns as SQL text, which the grammar reads as the same types."""

from __future__ import annotations

from collections.abc import Iterator

from lakescan.common import types as t
from lakescan.common.references import backquote

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
    """A type as SQL text.

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
    """A type as Spark's catalogs write it, with the next of `texts` for each text in it.

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
    """A name as SQL takes it: in backquotes unless it is a plain word.

    Example:
        >>> name_text("a b")
        '`a b`'
    """
    return name if name.isascii() and name.isidentifier() else backquote(name)


def text_literal(text: str) -> str:
    """A text as an SQL literal.

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

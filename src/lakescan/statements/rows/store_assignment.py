"""Spark's rules of store assignment (ANSI): the types that a column can store. Also resolves names of assigned columns.

The rules are those of Spark's `Cast.canANSIStoreAssign`, which Delta uses too. Numbers are stored as other numbers,
dates and timestamps as each other, and any atomic value as a string. A string is cast to a number, date, timestamp or
boolean when the statement runs. A value that does not fit the column fails the statement, even in sessions without ANSI
mode: nothing overflows or becomes null.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lakescan.common import types as t
from lakescan.common.references import backquote
from lakescan.errors import InvalidStatement, SchemaMismatch
from lakescan.expressions.scalar import nested
from lakescan.statements.duckdb.types import ForeignType, comparable_type
from lakescan.statements.syntax.dml import Assignment, Clause, Delete, DmlStatement, Insert, Merge, Update
from lakescan.statements.syntax.text import TableName, text_literal
from lakescan.writing.conform import places_of

_NAMES: dict[t.Type, str] = {
    t.BOOLEAN: "BOOLEAN",
    t.BYTE: "TINYINT",
    t.SHORT: "SMALLINT",
    t.INT: "INT",
    t.LONG: "BIGINT",
    t.FLOAT: "FLOAT",
    t.DOUBLE: "DOUBLE",
    t.DATE: "DATE",
    t.STRING: "STRING",
    t.BINARY: "BINARY",
}
_DIGITS: dict[t.Type, int] = {t.BYTE: 3, t.SHORT: 5, t.INT: 10, t.LONG: 19}


@dataclass(frozen=True)
class MemberRules:
    """Whether a stored struct may have other members than its column, and a text may be stored in other columns.

    - `may_add`: whether it may have more members, which the write adds to the table.
    - `may_lack`: whether members may be missing. Delta's schema evolution fills them, and Iceberg's rejects the struct.
    - `takes_texts`: whether a text is cast to a number, date, timestamp or boolean, as Delta does. Spark itself refuses
      that.
    """

    may_add: bool = False
    may_lack: bool = False
    takes_texts: bool = True


JUST_THESE = MemberRules()


def cast_to_column(
    value_sql: str,
    found: t.Type,
    column: t.Field,
    *,
    ansi: bool,
    checks_floats: bool = False,
    members: MemberRules = JUST_THESE,
    own: str | None = None,
) -> str:
    """Return the SQL of a value, cast to the type of a column.

    Structs, arrays and maps are left to the writer, which matches members by name, unless they have nulls without a
    type, as in `array()`, or values inside that need a cast (see `differs_inside`). Values of types that Spark does not
    have (Arrow times of day, UUIDs) are left to the writer too.

    Args:
        value_sql: An expression, in parentheses if it has operators. Without `ansi`, it may occur more than once in the
            result.
        found: The type of the value.
        column: The column.
        ansi: Whether casts of the session fail for values that do not fit (`spark.sql.ansi.enabled`).
        checks_floats: Whether a DOUBLE of 2^53 or more (FLOAT: 2^24) fails the statement for an integer column. It may
            be a rounded integer, because pandas converts integers with nulls to floats.
        members: The rules for other members of a struct.
        own: The SQL of the column's current value, which provides the members that a struct lacks; None for null.

    Returns:
        The SQL of the cast, or `value_sql` if no cast is needed.

    Raises:
        SchemaMismatch: The column cannot store a value of this type or with these members.

    Example:
        >>> cast_to_column("s.price", t.DOUBLE, t.Field(1, "price", t.INT), ansi=True)
        'CAST(s.price AS INT)'
    """
    kind = comparable_type(column.type)
    check_members(column.name, found, kind, members)
    if own is not None and isinstance(found, t.Struct) and isinstance(kind, t.Struct) and found != kind:
        value_sql = _keep_members(value_sql, found, kind, own)
    needs_cast = nested.is_filled(found, kind) or differs_inside(found, kind, ansi=ansi)
    if needs_cast and (name := _nested_type_name(kind)) is not None:
        return f"CAST({value_sql} AS {name})"
    is_left = isinstance(found, ForeignType) or (_is_nested(found) and _is_nested(kind))
    if found in (kind, t.UNKNOWN) or is_left:
        return value_sql
    if not _is_assignable(found, kind) or (found == t.STRING and not members.takes_texts):
        raise SchemaMismatch(
            f"column {column.name!r} is {column.type}, and its value {found}: Spark's rules of store assignment do not "
            f"convert {found} to {column.type}. Cast the value explicitly if that is intended"
        )
    name = _type_name(kind)
    column_name = column.name.replace("\\", "\\\\").replace("'", "\\'")
    if checks_floats and found in t.FLOATING and kind in t.INTEGRAL:
        limit = t.exact_integers(found)
        problem = (
            f"column {column_name} is {name}, and floats of {limit:,} and more may be rounded integers. Pass integers: "
            "pandas keeps integers with nulls in columns of type Int64. CAST the value if that is intended"
        )
        value = f"CAST({value_sql} AS {name})"
        return f"if(abs({value_sql}) >= {limit}, raise_error('{problem}'), {value})"
    if ansi or _always_fits(found, kind):
        return f"CAST({value_sql} AS {name})"
    fails = f"raise_error(concat('column {column_name} is {name}, and a value does not fit: ', {value_sql}))"
    return f"coalesce(try_cast({value_sql} AS {name}), if({value_sql} IS NULL, NULL, {fails}))"


class Cast(Protocol):
    """Converts the SQL of a value to the type of its column or struct member. See `cast_to_column`."""

    def __call__(self, place: int, path: tuple[str, ...], value: str, column: t.Field, own: str | None = None) -> str:
        """Return the SQL of `value` cast to the type of `column`.

        `place` is the index of the whole value in the query, and `path` the names that lead to the member in it. `own`
        is as in `cast_to_column`.
        """


def column_caster(
    types: Sequence[t.Type], *, ansi: bool, checks_floats: bool = False, members: MemberRules = JUST_THESE
) -> Cast:
    """Return a function that casts the values of a query to the types of columns or of their members.

    Args:
        types: The types of the query's values, by index.
        ansi: See `cast_to_column`.
        checks_floats: See `cast_to_column`.
        members: See `cast_to_column`.

    Example:
        >>> column_caster([t.DOUBLE], ansi=True)(0, (), "s.price", t.Field(1, "price", t.INT))
        'CAST(s.price AS INT)'
    """

    def cast(place: int, path: tuple[str, ...], value: str, column: t.Field, own: str | None = None) -> str:
        found = types[place]
        for name in path:
            assert isinstance(found, t.Struct)
            found = next(each.type for each in found.fields if each.name == name)
        return cast_to_column(value, found, column, ansi=ansi, checks_floats=checks_floats, members=members, own=own)

    return cast


def check_members(path: str, found: t.Type, kind: t.Type, members: MemberRules = JUST_THESE) -> None:
    """Raise `SchemaMismatch` for structs whose members differ from the column's, at any depth.

    A missing member would lose its value, and an additional one could not be stored, unless `members` allows it. Order
    and case do not matter. `path` is the column's name for messages, `found` the type of the value, and `kind` the
    column's.
    """
    match found, kind:
        case t.Struct(), t.Struct():
            pairs, missing, more = _matched_members(found, kind)
            lacks, has_more = missing and not members.may_lack, more and not members.may_add
            if lacks or has_more:
                what = f"lacks the member {missing[0].name!r}" if lacks else f"has the member {more[0].name!r}, too"
                raise SchemaMismatch(
                    f"column {path!r} has the members {_member_names(kind)}, and its value, with "
                    f"{_member_names(found)}, {what}. "
                    "Pass exactly the column's members. MERGE and INSERT WITH SCHEMA EVOLUTION add new ones"
                )
            for theirs, ours in pairs:
                check_members(f"{path}.{ours.name}", theirs.type, ours.type, members)
        case t.ListOf(), t.ListOf():
            check_members(f"{path}.element", found.element.type, kind.element.type, members)
        case t.MapOf(), t.MapOf():
            check_members(f"{path}.key", found.key.type, kind.key.type, members)
            check_members(f"{path}.value", found.value.type, kind.value.type, members)


def _member_names(struct: t.Struct) -> str:
    return ", ".join(each.name for each in struct.fields)


def _matched_members(
    found: t.Struct, kind: t.Struct
) -> tuple[list[tuple[t.Field, t.Field]], list[t.Field], list[t.Field]]:
    """Return pairs of members with the same name, the members only in `kind`, and the members only in `found`.

    Each pair has the member of `found` first. Case does not matter.
    """
    places = places_of(kind.fields, found.fields)
    pairs = [(found.fields[n], each) for each, n in zip(kind.fields, places, strict=True) if n is not None]
    missing = [each for each, n in zip(kind.fields, places, strict=True) if n is None]
    return pairs, missing, [each for n, each in enumerate(found.fields) if n not in places]


def _keep_members(value: str, found: t.Struct, kind: t.Struct, own: str) -> str:
    """Return the SQL of the struct `value`, with members that it lacks taken from the table's current struct `own`.

    `found` is the type of the value, and `kind` the type of the result. A null value stays null.
    """
    pairs, missing, _ = _matched_members(found, kind)
    theirs = {ours.name: each for each, ours in pairs}
    nested_ones = [each for each, ours in pairs if isinstance(ours.type, t.Struct) and each.type != ours.type]
    if not missing and not nested_ones:
        return value
    members = []
    for each in kind.fields:
        place = f"{own}.{backquote(each.name)}"
        if (one := theirs.get(each.name)) is not None:
            text = f"{value}.{backquote(one.name)}"
            is_struct = isinstance(one.type, t.Struct) and isinstance(each.type, t.Struct)
            place = _keep_members(text, one.type, each.type, place) if is_struct else text  # type: ignore[arg-type]
        members.append(f"{text_literal(each.name)}, {place}")
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE named_struct({', '.join(members)}) END"


def differs_inside(found: t.Type, kind: t.Type, *, ansi: bool) -> bool:
    """Return whether a nested value equals the column's type except for types inside that store assignment casts.

    False if members have other names or another order, and, without `ansi`, if a cast inside may fail: its SQL would
    return null then.
    """
    if not (_is_nested(found) and _is_nested(kind)) or nested.are_same(found, kind):
        return False
    return _is_cast_inside(found, kind, ansi)


def _is_cast_inside(found: t.Type, kind: t.Type, ansi: bool) -> bool:
    match found, kind:
        case t.Struct(), t.Struct():
            pairs = list(zip(found.fields, kind.fields, strict=False))
            if len(found.fields) != len(kind.fields) or any(a.name.lower() != b.name.lower() for a, b in pairs):
                return False
            return all(_is_cast_inside(a.type, b.type, ansi) for a, b in pairs)
        case t.ListOf(), t.ListOf():
            return _is_cast_inside(found.element.type, kind.element.type, ansi)
        case t.MapOf(), t.MapOf():
            return _is_cast_inside(found.key.type, kind.key.type, ansi) and _is_cast_inside(
                found.value.type, kind.value.type, ansi
            )
    wanted = comparable_type(kind)
    if found in (wanted, t.UNKNOWN):
        return True
    return _is_assignable(found, wanted) and (ansi or _always_fits(found, wanted))


def _is_nested(kind: t.Type) -> bool:
    return isinstance(kind, t.Struct | t.ListOf | t.MapOf)


def _is_number(kind: t.Type) -> bool:
    return kind in t.INTEGRAL or kind in t.FLOATING or isinstance(kind, t.Decimal)


def _is_time(kind: t.Type) -> bool:
    return kind == t.DATE or isinstance(kind, t.Timestamp)


def _is_assignable(found: t.Type, kind: t.Type) -> bool:
    if _is_number(kind):
        return _is_number(found) or found == t.STRING
    if _is_time(kind):
        return _is_time(found) or found == t.STRING
    if kind == t.BOOLEAN:
        return found == t.STRING
    return kind == t.STRING and (_is_number(found) or _is_time(found) or found in (t.BOOLEAN, t.BINARY, t.UUID, t.TIME))


def _always_fits(found: t.Type, kind: t.Type) -> bool:
    """Return whether every value of the type `found` fits the type `kind`, so the cast never fails."""
    if found == t.STRING:
        return False
    if kind == t.STRING or kind in t.FLOATING or _is_time(kind):
        return True
    if found in t.INTEGRAL and kind in t.INTEGRAL:
        return t.INTEGRAL.index(found) <= t.INTEGRAL.index(kind)
    if isinstance(kind, t.Decimal) and isinstance(found, t.Decimal):
        rounds = found.scale > kind.scale  # up to one digit more
        return found.precision - found.scale + rounds <= kind.precision - kind.scale
    if isinstance(kind, t.Decimal) and found in _DIGITS:
        return _DIGITS[found] <= kind.precision - kind.scale
    return False


def _nested_type_name(kind: t.Type) -> str | None:
    """Return the SQL name of a type; None if the type, or one inside it, has no SQL name."""
    inner = [_nested_type_name(each.type) for each in t.children(kind)]
    if None in inner:
        return None
    if isinstance(kind, t.Struct):
        names = [each.name.replace("`", "``") for each in kind.fields]
        return f"STRUCT<{', '.join(f'`{name}`: {of}' for name, of in zip(names, inner, strict=True))}>"
    if isinstance(kind, t.ListOf | t.MapOf):
        return f"{'ARRAY' if isinstance(kind, t.ListOf) else 'MAP'}<{', '.join(map(str, inner))}>"
    has_name = kind in _NAMES or isinstance(kind, t.Decimal | t.Timestamp)
    return _type_name(kind) if has_name else None


def _type_name(kind: t.Type) -> str:
    if isinstance(kind, t.Decimal):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if isinstance(kind, t.Timestamp):
        return "TIMESTAMP" if kind.zoned else "TIMESTAMP_NTZ"
    return _NAMES[kind]


def column_of(parts: tuple[str, ...], target: TableName, columns: Collection[str]) -> tuple[str, ...]:
    """Return the name of an assigned column without the table's name or alias before it.

    As in Spark, the first parts are the table's name if a column follows them. Otherwise the name begins with a column,
    which may be a struct with the table's name.

    Args:
        parts: The parts of the name.
        target: The table. Its alias, or without one any trailing part of its name, may qualify columns.
        columns: The names of the table's columns.

    Example:
        >>> column_of(("t", "price"), TableName(("db", "t")), ["id", "price"])
        ('price',)
    """
    names = {each.lower() for each in columns}
    lower = tuple(part.lower() for part in parts)
    for size in range(len(parts) - 1, 0, -1):
        if lower[:size] in _qualifiers(target) and lower[size] in names:
            return parts[size:]
    return parts


def _qualifiers(target: TableName) -> set[tuple[str, ...]]:
    if target.alias is not None:
        return {(target.alias.lower(),)}
    parts = tuple(part.lower() for part in target.parts)
    names = [parts, parts[:-1]] if parts[-1].startswith("branch_") else [parts]
    return {each[n:] for each in names for n in range(len(each))}


def match_names(name: str, names: Sequence[str], *, case_sensitive: bool) -> list[str]:
    """Return the names that match a name in a statement: the exact match, or else all that differ only in case.

    Args:
        name: The name in the statement.
        names: Names of columns, or of the members of a struct.
        case_sensitive: Whether names that differ only in case are different (`spark.sql.caseSensitive`).

    Example:
        >>> match_names("ID", ["id", "price"], case_sensitive=False)
        ['id']
    """
    if name in names:
        return [name]
    return [] if case_sensitive else [each for each in names if each.lower() == name.lower()]


def strip_qualifiers(statement: DmlStatement, columns: Sequence[str], *, case_sensitive: bool = False) -> DmlStatement:
    """Return the statement without the table's name in front of assigned columns. See `column_of`.

    Raises:
        InvalidStatement: A column is set twice.
    """
    match statement:
        case Update(target=target, assignments=assignments):
            return replace(statement, assignments=_strip_assignments(assignments, target, columns, case_sensitive))
        case Merge(target=target, clauses=clauses):
            plain = tuple(_strip_clause(each, target, columns, case_sensitive) for each in clauses)
            return replace(statement, clauses=plain)
        case Delete() | Insert():
            return statement


def _strip_clause(clause: Clause, target: TableName, columns: Sequence[str], case_sensitive: bool) -> Clause:
    if not clause.assignments:
        return clause
    return replace(clause, assignments=_strip_assignments(clause.assignments, target, columns, case_sensitive))


def _strip_assignments(
    assignments: tuple[Assignment, ...], target: TableName, columns: Sequence[str], case_sensitive: bool
) -> tuple[Assignment, ...]:
    found: list[Assignment] = []
    names: set[tuple[str, ...]] = set()
    for each in assignments:
        column = column_of(each.column, target, columns)
        same = match_names(column[0], columns, case_sensitive=case_sensitive)
        key = (same[0] if len(same) == 1 else column[0], *column[1:])
        if key in names:
            raise InvalidStatement(f"the column {'.'.join(column)} is set twice")
        names.add(key)
        found.append(replace(each, column=column))
    return tuple(found)

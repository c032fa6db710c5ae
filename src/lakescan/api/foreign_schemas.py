"""Convert schemas of Spark, pandas, Polars, pyiceberg, deltalake and others to columns of a new table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakescan.common.references import backquote
from lakescan.errors import InvalidOption
from lakescan.statements.syntax.text import literal

_EXPECTED = (
    "expected SQL text, an Arrow schema, a schema of PySpark (StructType), pandas (dtypes), Polars, pyiceberg or "
    "deltalake, or a frame that has one"
)


@dataclass(frozen=True)
class ForeignSchema:
    """A converted schema: SQL text or an Arrow schema.

    - `columns`: the schema.
    - `key`: the names of the identifier fields; only pyiceberg schemas have them.
    - `is_of_frame`: whether the schema comes from pandas or Polars, whose nanosecond timestamps are often a mere
      default.
    """

    columns: str | pa.Schema
    key: tuple[str, ...] = ()
    is_of_frame: bool = False


def convert_schema(given: Any) -> ForeignSchema:
    """Convert a schema of another library, or the schema of a data frame. SQL text and Arrow schemas are kept.

    Raises `InvalidOption` for an object without a schema, and for columns without a type.

    Example:
        >>> convert_schema(StructType([StructField("id", LongType(), nullable=False)])).columns
        '`id` bigint NOT NULL'
    """
    if isinstance(given, str | pa.Schema):
        return ForeignSchema(given)
    match _library(given):
        case "pyspark":
            schema = given if hasattr(given, "fields") else getattr(given, "schema", None)
            if isinstance(schema, pa.Schema):  # Sail returns an Arrow schema
                return ForeignSchema(schema)
            if hasattr(schema, "fields"):
                return ForeignSchema(", ".join(_spark_columns(schema)))
        case "pandas":
            return ForeignSchema(_pandas_schema(given), is_of_frame=True)
        case "polars":
            return ForeignSchema(_polars_schema(given), is_of_frame=True)
        case "pyiceberg" if hasattr(given, "as_arrow"):
            return ForeignSchema(given.as_arrow(), tuple(sorted(given.identifier_field_names())))
    for name in ("__arrow_c_schema__", "to_arrow"):
        if hasattr(given, name):
            found = given if name == "__arrow_c_schema__" else given.to_arrow()
            return ForeignSchema(pa.schema(found))
    if isinstance(found := getattr(given, "schema", None), pa.Schema):
        return ForeignSchema(found)
    if hasattr(given, "__arrow_c_stream__"):
        return ForeignSchema(pa.RecordBatchReader.from_stream(given).schema)
    raise InvalidOption(f"columns={given!r} of type {type(given).__name__} is not a schema: {_EXPECTED}")


def convert_type(name: str, given: Any) -> str | pa.DataType:
    """Convert the type of one column of another library to SQL text or an Arrow type; SQL text stays.

    Raises `InvalidOption`, with the column's name `name`, for an unknown type.
    """
    if isinstance(given, str | pa.DataType):
        return given
    if _library(given) == "pyspark" and hasattr(given, "simpleString"):
        return _spark_type(given() if isinstance(given, type) else given)
    if _library(given) == "polars":
        return _polars_schema({name: given}).field(0).type
    if _library(given) in ("pandas", "numpy"):
        import pandas as pd

        return _pandas_schema(pd.Series({name: given})).field(0).type
    if _library(given) == "pyiceberg":
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(given)
    if hasattr(given, "__arrow_c_schema__"):
        return pa.field(given).type
    raise InvalidOption(
        f"the type of {name!r} is {given!r}: give an SQL type as text, or a type of Arrow, PySpark, pandas or Polars"
    )


def _library(given: Any) -> str:
    modules = [each.__module__.split(".")[0] for each in (given if isinstance(given, type) else type(given)).__mro__]
    names = ("pyspark", "pandas", "polars", "pyiceberg", "numpy")
    return next((name for name in names if name in modules), "")


def _spark_columns(struct: Any) -> Iterator[str]:
    for field in struct.fields:
        yield f"{backquote(field.name)} {_spark_type(field.dataType)}{_spark_rest(field)}"


def _spark_rest(field: Any) -> str:
    comment = (field.metadata or {}).get("comment")
    return ("" if field.nullable else " NOT NULL") + (f" COMMENT {literal(comment)}" if comment else "")


def _spark_type(kind: Any) -> str:
    """Return the SQL text of a PySpark data type, with the comments and nullability of struct members."""
    if hasattr(kind, "fields"):
        members = (f"{backquote(each.name)}: {_spark_type(each.dataType)}{_spark_rest(each)}" for each in kind.fields)
        return f"STRUCT<{', '.join(members)}>"
    if hasattr(kind, "elementType"):
        return f"ARRAY<{_spark_type(kind.elementType)}>"
    if hasattr(kind, "keyType"):
        return f"MAP<{_spark_type(kind.keyType)}, {_spark_type(kind.valueType)}>"
    name: str = kind.simpleString()
    return name


def _pandas_schema(given: Any) -> pa.Schema:
    import pandas as pd

    if isinstance(given, pd.DataFrame):
        return _check_types(pa.Schema.from_pandas(given, preserve_index=False).remove_metadata(), given.dtypes)
    if not isinstance(given, pd.Series):
        raise InvalidOption(f"columns={given!r} of type {type(given).__name__} is not a schema: {_EXPECTED}")
    empty = pd.DataFrame({name: pd.Series([], dtype=kind) for name, kind in given.items()})
    return _check_types(pa.Schema.from_pandas(empty, preserve_index=False).remove_metadata(), given)


def _check_types(schema: pa.Schema, types: Any) -> pa.Schema:
    """Return the schema; raise `InvalidOption` for pandas object columns without values that reveal a type.

    `types` are the pandas types by column name.
    """
    for field in schema:
        if pa.types.is_null(field.type):
            raise InvalidOption(
                f"the column {field.name!r} of pandas type {types[field.name]} has no type: name it in SQL, or give "
                "the column a type such as 'string' or pandas.ArrowDtype"
            )
    return schema


def _polars_schema(given: Any) -> pa.Schema:
    import polars as pl

    if isinstance(given, pl.LazyFrame):
        given = given.collect_schema()
    elif isinstance(given, pl.DataFrame):
        given = given.schema
    return pl.DataFrame(schema=given).to_arrow().schema

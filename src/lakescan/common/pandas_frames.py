"""Conversion of Arrow tables to pandas data frames."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.errors import InvalidOption, missing_dependency

if TYPE_CHECKING:
    import pandas

_BACKENDS = ("pyarrow", "numpy_nullable")


def pandas_frame(table: pa.Table, dtype_backend: str | None = None, **arguments: Any) -> pandas.DataFrame:
    """Convert a table to a pandas data frame.

    Args:
        table: The rows.
        dtype_backend: The pandas data types to use: `"pyarrow"` for `pandas.ArrowDtype`, `"numpy_nullable"` for types
            such as `Int64`. Both keep integers with nulls exact. By default, pandas stores integers with nulls as
            doubles, which round integers of more than 53 bits.
        arguments: Passed to `pyarrow.Table.to_pandas`.

    Raises:
        InvalidOption: The backend is unknown, or `types_mapper` is also given.
        MissingDependency: pandas is not installed.

    Example:
        >>> pandas_frame(pa.table({"id": [1, None]}), dtype_backend="numpy_nullable").dtypes["id"]
        Int64Dtype()
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise missing_dependency("pandas", "frames", "to_pandas()") from error
    if dtype_backend is None:
        frame: pandas.DataFrame = table.to_pandas(**arguments)
        return frame
    if dtype_backend not in _BACKENDS:
        near = get_close_matches(str(dtype_backend), _BACKENDS, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidOption(f"dtype_backend={dtype_backend!r}: expected {' or '.join(map(repr, _BACKENDS))}.{hint}")
    if "types_mapper" in arguments:
        raise InvalidOption("to_pandas: dtype_backend and types_mapper both choose the pandas types: give only one")
    mapper = pd.ArrowDtype if dtype_backend == "pyarrow" else _nullable
    return table.to_pandas(types_mapper=mapper, **arguments)


def _nullable(kind: pa.DataType) -> Any:
    """Return the pandas type for an Arrow type with `dtype_backend="numpy_nullable"`; None for pandas' default.

    It is a nullable type such as `Int64` for booleans, numbers and strings, and `ArrowDtype` for types with integers
    inside.
    """
    import pandas as pd

    if _has_integers_inside(kind):  # pyarrow converts nested integers with nulls to doubles, too
        return pd.ArrowDtype(kind)
    types = {
        pa.bool_(): pd.BooleanDtype,
        pa.int8(): pd.Int8Dtype,
        pa.int16(): pd.Int16Dtype,
        pa.int32(): pd.Int32Dtype,
        pa.int64(): pd.Int64Dtype,
        pa.uint8(): pd.UInt8Dtype,
        pa.uint16(): pd.UInt16Dtype,
        pa.uint32(): pd.UInt32Dtype,
        pa.uint64(): pd.UInt64Dtype,
        pa.float32(): pd.Float32Dtype,
        pa.float64(): pd.Float64Dtype,
        pa.string(): pd.StringDtype,
    }
    found = types.get(kind)
    return None if found is None else found()


def _has_integers_inside(kind: pa.DataType) -> bool:
    inner = [kind.field(n).type for n in range(kind.num_fields)]
    return any(pa.types.is_integer(each) or _has_integers_inside(each) for each in inner)

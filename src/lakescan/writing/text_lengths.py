"""CHAR(n) and VARCHAR(n): the lengths of texts in characters, at any depth of a column.

As in Spark, a longer text loses spaces at its end as far as it is too long, and is refused if that does not suffice;
a CHAR is padded with spaces to its length.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import SchemaMismatch
from lakescan.writing.arrow_layout import with_children


@dataclass(frozen=True)
class TextLength:
    """The length of a text: at most `length` characters, exactly as many if `is_padded`."""

    length: int
    is_padded: bool

    def apply(self, texts: pa.Array, path: str, *, pads: bool) -> pa.Array:
        """Fit texts to the length; raises `SchemaMismatch` with an example. Without `pads`, short ones stay short."""
        sizes = pc.utf8_length(texts)
        if pc.any(pc.greater(sizes, self.length)).as_py():
            is_long = pc.fill_null(pc.greater(pc.utf8_length(pc.utf8_rtrim(texts, " ")), self.length), False)
            if count := pc.sum(is_long).as_py():
                example = texts.filter(is_long)[0].as_py()
                raise SchemaMismatch(
                    f"column {path!r} is {self}, and {count:,} texts of a batch are longer, for example {example!r}"
                )
            texts = pc.utf8_slice_codeunits(texts, 0, self.length)
        return pc.utf8_rpad(texts, self.length, " ") if self.is_padded and pads else texts

    def __str__(self) -> str:
        return f"{'CHAR' if self.is_padded else 'VARCHAR'}({self.length})"


@dataclass(frozen=True)
class NestedLengths:
    """The lengths of the children of a struct (its members), a list (its element) or a map (key and value)."""

    children: tuple[TextLength | NestedLengths | None, ...]

    def apply(self, values: pa.Array, path: str, *, pads: bool) -> pa.Array:
        """Fit the texts within; see `TextLength.apply`."""
        if pa.types.is_struct(values.type):
            members = [values.field(place) for place in range(values.type.num_fields)]
            fitted = [
                array if each is None else each.apply(array, f"{path}.{member.name}", pads=pads)
                for array, each, member in zip(members, self.children, values.type, strict=True)
            ]
            mask = values.is_null() if values.null_count else None
            return pa.StructArray.from_arrays(fitted, fields=list(values.type), mask=mask)
        is_map = pa.types.is_map(values.type)
        arrays = [values.keys, values.items] if is_map else [values.values]
        names = ["key", "value"] if is_map else ["element"]
        fitted = [
            array if each is None else each.apply(array, f"{path}.{name}", pads=pads)
            for array, each, name in zip(arrays, self.children, names, strict=True)
        ]
        return with_children(values, values.type, fitted)


Lengths = TextLength | NestedLengths

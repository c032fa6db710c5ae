"""Write `docs/options.md` and `src/lakescan/options/keywords.py` from the options: `python scripts/options_doc.py`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakescan.options.compact import CompactOptions
from lakescan.options.declaration import Group, Option, OptionSet, declarations
from lakescan.options.read import ReadOptions
from lakescan.options.write import WriteOptions

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "options.md"
KEYWORDS = ROOT / "src" / "lakescan" / "options" / "keywords.py"

_HEAD = """# Options

Options have the names that Iceberg, Delta and Spark give them. Case, hyphens and underscores do not matter:
`split-size`, `splitSize` and `split_size` are the same option. In Python they are keywords, which editors complete:

```python
lakescan.table("/lake/orders", version_as_of=3, split_size="64m")
spark.read.format("lakescan").option("versionAsOf", 3).option("split-size", "64m").load("/lake/orders")
```

Every value may be given as text. No option is ignored. An unknown option is an error that names the nearest one, and an
option of the other format or an invalid value is an error, too. For Delta tables, a read accepts the options of writes,
and a write those of reads, without effect, as in Delta on Spark. For type checkers, a dictionary of options
(`**{"split-size": "64m"}`) has the type `dict[str, Any]`.

Options of a read or write take precedence over the Spark session, and the session over the table's properties. A
session sets options of Iceberg tables by `spark.datasource.iceberg.NAME` (how reads are planned and how files are
read and written), and by Iceberg's own `spark.sql.iceberg.vectorization.enabled`, `data-planning-mode`,
`delete-planning-mode`, `distribution-mode`, `compression-codec` and `compression-level`. `spark.read.format` and
`df.write.format` use the values that the session had at `lakescan.spark.register`. Names may have Flink's prefixes
`table.exec.iceberg.` and `connector.iceberg.`.

[Storage options](storage_options.md) lists the keys of `storage-options`.

This page is made from the source by `scripts/options_doc.py`.
"""
_READS = """## Reads and streams

For `lakescan.table`, `Scan.options`, `Table.changes`, `Table.stream`, `spark.read` and `spark.readStream`.
"""
_WRITES = """## Writes

For `Table.append`, `Table.overwrite`, `Table.compact`, `lakescan.save`, `df.write` and `df.writeStream`.
"""
_COMPACTIONS = """## Compactions

For `Table.compact`, which takes the options of writes as well. The names are those of Iceberg's `rewrite_data_files`.
"""
_COLUMNS = "| option | formats | value | default | meaning |\n|---|---|---|---|---|"
_NOTES = {
    Group.STATE: "Give at most one of them, besides `time-zone`. A stream takes `branch` only.",
    Group.RANGE: "A batch read takes one start and at most one end. A stream takes one start.",
    Group.FEED: "A change feed takes one start and at most one end. A stream takes one start.",
    Group.STREAM: "Of several limits, the strictest counts. Options that skip commits go before `on-change`.",
    Group.CREATE: "Properties have no effect on a table that exists. Its partitions must be those that are given.",
}
_OPENING = {
    ReadOptions: "In Python, the path is the first argument of `lakescan.table`. An open table takes none of these.",
    WriteOptions: "In Python, the path is the second argument of `lakescan.save`. An open table takes none of these.",
}

# The types of the arguments of `lakescan.table`.
_ARGUMENTS = {
    "format": "str | None",
    "storage_options": "Mapping[str, Any] | None",
    "relocate": "Mapping[str, str] | None",
    "key_manager": "KeyManager | str | None",
}
_MODULE = '''"""The keywords of functions that take options, for editors and type checkers.

This module is made from the declarations by `scripts/options_doc.py`. An option whose own name is in camel case has
that name, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, tzinfo
from typing import Any, TypedDict

from lakescan.expressions.predicate import Predicate
from lakescan.storage.encryption import KeyManager
'''


def page() -> str:
    """Return the page of all options."""
    parts = [_HEAD, _READS, *_tables(ReadOptions), _WRITES, *_tables(WriteOptions), _COMPACTIONS, *_compactions()]
    return "\n".join(parts).rstrip() + "\n"


def _compactions() -> Iterator[str]:
    rows = [_row(each) for each in declarations(CompactOptions).values() if each.group is Group.REWRITE]
    yield f"{_COLUMNS}\n" + "\n".join(rows) + "\n"


def _tables(options: type[OptionSet]) -> Iterator[str]:
    for group in Group:
        rows = [_row(each) for each in declarations(options).values() if each.group is group]
        if rows:
            note = _OPENING[options] if group is Group.OPENING else _NOTES.get(group)
            yield f"### {group.value}\n"
            if note:
                yield f"{note}\n"
            yield _COLUMNS
            yield "\n".join(rows) + "\n"


def _row(option: Option) -> str:
    cells = (_names(option), _formats(option.formats), option.value.expects, option.default, option.doc)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _names(option: Option) -> str:
    others = (
        f"`{name}`" + (f" ({_formats(formats)})" if formats != option.formats else "")
        for name, formats in option.aliases.items()
    )
    return " or ".join([f"`{option.name}`", *others])


def _formats(names: tuple[str, ...]) -> str:
    return "both" if len(names) > 1 else names[0].capitalize()


def keywords() -> str:
    """Return the source of the keywords module."""
    reads = declarations(ReadOptions)
    opening = [name for name, option in reads.items() if option.group is Group.OPENING]
    classes = {
        ("ReadKeywords", "TypedDict", "Options of a read or a stream."): set(reads) - {*opening, "where"},
        ("ScanKeywords", "ReadKeywords", "Options of a scan."): {"where"},
        ("TableKeywords", "ScanKeywords", "Options of `lakescan.table`."): {"cache_folder", "allowed_locations"},
        ("OpenKeywords", "TableKeywords", "Arguments and options of `lakescan.table`."): {*opening}
        - {"path", "cache_folder", "allowed_locations"},
    }
    lines = [_MODULE]
    for head, members in classes.items():
        lines += _class(*head, {name: option for name, option in reads.items() if name in members})
    written = {
        name: option
        for name, option in declarations(WriteOptions).items()
        if option.group is not Group.OPENING and not option.is_prefix and name != "partition_by"
    }
    lines += _class("WriteKeywords", "TypedDict", "Options of a write.", written)
    rewriting = {name: each for name, each in declarations(CompactOptions).items() if each.group is Group.REWRITE}
    lines += _class("CompactKeywords", "WriteKeywords", "Options of a compaction.", rewriting)
    return "\n".join(lines)


def _class(name: str, base: str, doc: str, members: Mapping[str, Option]) -> Iterator[str]:
    yield f'\nclass {name}({base}, total=False):\n    """{doc}"""\n'
    for attribute, option in members.items():
        accepts = _ARGUMENTS.get(attribute, option.value.accepts)
        hint = textwrap.fill(f'"""{_hint(option)}"""', 120, initial_indent="    ", subsequent_indent="    ")
        for spelled in dict.fromkeys((attribute, *(each for each in option.names if each.isidentifier()))):
            yield f"    {spelled}: {accepts}\n{hint}"
    yield ""


def _hint(option: Option) -> str:
    """Return the text that an editor shows for an option."""
    expects = "" if option.value.expects in option.doc else f" Takes {option.value.expects}."
    default = f" By default: {option.default}." if option.default else ""
    theirs = "" if len(option.formats) > 1 else f" ({option.formats[0].capitalize()})"
    return f"{option.doc}{expects}{default}{theirs}"


if __name__ == "__main__":
    PAGE.write_text(page())
    KEYWORDS.write_text(keywords())

"""Write `docs/options.md` from the options themselves: `python scripts/options_doc.py`."""

from __future__ import annotations

from pathlib import Path

from lakescan.options.read import OPTIONS
from lakescan.options.write import WRITE_OPTIONS

PAGE = Path(__file__).parent.parent / "docs" / "options.md"
_HEAD = """# Options

Options have the names that Iceberg, Delta and Spark give them. Case, hyphens and underscores do not matter:
`split-size`, `splitSize` and `split_size` are the same option. An unknown option is an error that names the nearest
valid one.

This page is made from the source by `scripts/options_doc.py`.
"""


def page() -> str:
    """The whole page."""
    reads = [
        f"| `{each.name}` | {_formats(each.formats)} | {_cell(each.doc)} | {_cell(each.expects)} |" for each in OPTIONS
    ]
    writes = [
        f"| `{name}` | {_formats(('iceberg', 'delta') if formats == 'both' else (formats,))} | {_cell(doc)} |"
        for name, (_, formats, doc) in WRITE_OPTIONS.items()
    ]
    return "\n".join(
        [
            _HEAD,
            "## Reads and streams",
            "",
            "For `lakescan.table`, `Scan.options`, `Table.follow`, `spark.read` and `spark.readStream`.",
            "",
            "| option | formats | meaning | value |",
            "|---|---|---|---|",
            *reads,
            "",
            "## Writes",
            "",
            "For `Table.append`, `Table.overwrite`, `Table.compact`, `lakescan.save`, `df.write` and `df.writeStream`.",
            "`table-property.NAME` sets a property",
            "of a new table, `snapshot-property.NAME` one of the commit (Iceberg).",
            "",
            "| option | formats | meaning |",
            "|---|---|---|",
            *writes,
            "",
        ]
    )


def _formats(names: tuple[str, ...]) -> str:
    return "both" if len(names) > 1 else names[0].capitalize()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())

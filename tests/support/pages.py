"""Run the pages of the site as a reader does, block by block in an empty folder, and compare the output.

- A `python` block runs in the page's namespace. A `sql` block runs in this process, or on Spark if the page needs it,
  and shows its rows. An `sh` block runs the lines that begin with `lakescan`; others are installations or targets.
- A block `text title="Output"` after one of them is its expected output. `...` in it stands for anything.
  Sizes in bytes are not compared, because compressed metadata contains ids and times.
- `no-run` after the language skips a block; a comment above gives the reason.
- `spark: true` at the head of a page gives its blocks a session, `spark`.

`python -m tests.support.pages PAGE ...` updates the output blocks of pages that no longer match.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDERS = ("guides", "how")
OUTPUT = 'text title="Output"'
# Ids, times, folders, durations; also sizes, because compressed metadata contains ids.
_VARIES = (
    r"(?<=/)/\S*(?=/lake)",
    r"\b\d{17,}\b",
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    r"\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?([+-]\d\d:\d\d|Z)?",
    r"(?<=planned in: ).*",
)
_SIZE = re.compile(r"\b\d+(\.\d+)? (B|KB)\b")
_BLOCK = re.compile(r"^```([^\n`]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block with the output block after it; `expected` is None if the page shows none."""

    language: str
    code: str
    line: int
    expected: str | None
    span: tuple[int, int]  # the output's place in the page


def pages() -> list[Path]:
    """Return the pages whose blocks run."""
    return [
        DOCS / "index.md",
        DOCS / "start.md",
        *(page for each in FOLDERS for page in sorted((DOCS / each).glob("*.md"))),
    ]


def needs_spark(page: Path) -> bool:
    """Return whether the page's header requests a session."""
    head = re.match(r"---\n(.*?)---\n", page.read_text(), re.DOTALL)
    return bool(head and re.search(r"^spark: true$", head[1], re.MULTILINE))


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a page that run, in order."""
    found = [each for each in _BLOCK.finditer(text) if not each[1].endswith(" no-run")]
    for at, match in enumerate(found):
        language = match[1].split()[0]
        if match[1] == OUTPUT or language not in ("python", "sql", "sh"):
            continue
        behind = found[at + 1] if at + 1 < len(found) else None
        output = behind if behind and behind[1] == OUTPUT else None
        yield Block(
            language,
            match[2],
            text.count("\n", 0, match.start()) + 2,
            output[2] if output else None,
            output.span(2) if output else (0, 0),
        )


class Run:
    """One page's blocks in one namespace; the current folder must be empty."""

    def __init__(self, page: Path, spark: Any = None) -> None:
        self._page, self._spark = page, spark
        self._names: dict[str, Any] = {"__name__": "__main__", **({} if spark is None else {"spark": spark})}

    def shown_by(self, block: Block) -> str:
        """Run a block; return the printed text without trailing blanks."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            getattr(self, f"_{block.language}")(block)
        return "".join(f"{line.rstrip()}\n" for line in out.getvalue().rstrip().splitlines())

    def _python(self, block: Block) -> None:
        code = "\n" * (block.line - 1) + block.code  # so that tracebacks show the page's lines
        exec(compile(code, str(self._page), "exec"), self._names)

    def _sql(self, block: Block) -> None:
        import lakescan

        for text in filter(None, map(str.strip, block.code.split(";"))):
            found = lakescan.sql(text) if self._spark is None else lakescan.spark.sql(self._spark, text)
            if hasattr(found, "show"):
                found.show()
            elif found is not None:
                print(found)

    def _sh(self, block: Block) -> None:
        for line in filter(None, (each.split(" # ")[0].strip() for each in block.code.splitlines())):
            if line.startswith("lakescan "):
                command(line)
            else:
                assert is_known(line), f"{self._page}: neither an installation of known extras nor a target: {line}"


def command(line: str) -> None:
    """Run a line of the command `lakescan` in this process."""
    import shlex

    from lakescan.cli import main

    arguments, before = shlex.split(line), sys.argv
    sys.argv = arguments
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{line}: exit code {end.code}") from end
    finally:
        sys.argv = before


def is_known(line: str) -> bool:
    """Return whether a shell line is a target of the Makefile, or installs existing extras."""
    if made := re.fullmatch(r"make ([a-z0-9.-]+)", line):
        return made[1] in re.findall(r"^([a-z0-9.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    extras = set(re.findall(r"^([a-z]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    install = re.fullmatch(r"(?:python -m )?pip install '?lakescan(?:\[([a-z,]+)\])?'?", line)
    return bool(install) and set((install[1] or "all").split(",")) <= extras


def holds(expected: str, shown: str) -> bool:
    """Return whether the output matches the page; `...` matches anything within a line, or lines if alone on a line.

    The width of a table depends on its widest number, so repeated spaces count once.
    """
    expected, shown = (re.sub("  +", " ", _SIZE.sub("0 B", each)) for each in (expected, shown))
    lines = (".*".join(map(re.escape, line.split("..."))) for line in expected.rstrip().split("\n"))
    pattern = "\n".join("(?s:.*)" if line == ".*" else line for line in lines)
    return re.fullmatch(pattern, shown.rstrip()) is not None


def stable(shown: str) -> str:
    """Return the output with `...` for the parts that differ between runs."""
    for pattern in _VARIES:
        shown = re.sub(pattern, "...", shown)
    return shown


def rewritten(page: Path, spark: Any) -> str:
    """Return the page with each mismatching output replaced by the text that its block prints."""
    text = page.read_text()
    run, changed, done = Run(page, spark), [], 0
    for block in blocks(text):
        shown = run.shown_by(block)
        if block.expected is not None and not holds(block.expected, shown):
            changed += [text[done : block.span[0]], stable(shown)]
            done = block.span[1]
    return "".join([*changed, text[done:]])


def main(names: list[str]) -> None:
    """Update pages; start a session for a page that needs Spark."""
    from tests.support.session import local_session

    spark = None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    base = tempfile.TemporaryDirectory()  # for all pages: Spark's processes stay in the folder where they began
    for page in [Path(name).resolve() for name in names]:
        folder, name = f"{base.name}/{page.stem}", page.name
        os.mkdir(folder)
        with contextlib.chdir(folder):
            if needs_spark(page):
                import lakescan

                spark = spark or local_session("pages", {"spark.sql.warehouse.dir": f"{folder}/warehouse"})
                lakescan.spark.register(spark)
            page.write_text(rewritten(page, spark if needs_spark(page) else None))
        print(f"{name}: {len(list(blocks(page.read_text())))} blocks")
    if spark:
        spark.stop()
    base.cleanup()


if __name__ == "__main__":
    main(sys.argv[1:])

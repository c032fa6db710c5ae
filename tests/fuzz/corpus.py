"""Tables of the corpus as fuzz samples, if the corpus is available."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from tests.conftest import corpus_folder
from tests.fuzz.tables import Sample


def samples() -> tuple[Sample, ...]:
    """Return every table of the corpus; an empty tuple without the corpus."""
    if corpus_folder() is None:
        raise SystemExit("no corpus: set LAKESCAN_CORPUS to its folder")
    from tests.corpus.cases import all_cases

    return tuple(_sample(case.name, case.location, case.relocate) for case in all_cases())


def _sample(name: str, location: str, relocate: dict[str, str]) -> Sample:
    opened = Path(location)
    root = opened.parent.parent if opened.suffix in (".json", ".gz") else opened
    return Sample(
        name,
        partial(_copy, root),
        "" if root == opened else str(opened.relative_to(root)),
        rows_are_counted=False,
        places=tuple((old, new, str(root)) for old, new in relocate.items()),
    )


def _copy(root: Path, folder: Path) -> None:
    shutil.copytree(root, folder, symlinks=True)

"""The notebooks run from their first cell to their last, and are stored without outputs."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import notebooks

pytestmark = pytest.mark.usefixtures("no_other_catalogs")

ALL = sorted(notebooks.FOLDER.glob("*.ipynb"))
ON_SPARK = [each for each in ALL if "pyspark" in each.read_text()]
IN_PROCESS = [each for each in ALL if each not in ON_SPARK]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a notebook runs, with its temporary folders."""
    (tmp_path / "here").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "here"


@pytest.fixture
def formatter(monkeypatch: pytest.MonkeyPatch) -> notebooks.Formatter:
    """The parts of IPython's formatter that the notebooks need."""
    html = notebooks.Formatter()
    monkeypatch.setitem(sys.modules, "IPython", html.as_module())
    return html


@pytest.mark.parametrize("path", IN_PROCESS, ids=lambda path: path.stem)
def test_each_cell_of_a_notebook_runs_and_shows_tables(
    path: Path, folder: Path, formatter: notebooks.Formatter
) -> None:
    shown = notebooks.run(path, formatter)
    assert sum("<table" in each for each in shown) >= 5
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("path", ON_SPARK, ids=lambda path: path.stem)
def test_each_cell_of_a_notebook_on_spark_runs_and_shows_tables(
    spark, path: Path, folder: Path, formatter: notebooks.Formatter
) -> None:
    shown = notebooks.run(path, formatter)
    assert sum("<table" in each for each in shown) >= 3


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    stored = notebooks.read(path)
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    assert set(stored["metadata"]) == {"kernelspec", "language_info"}
    assert len({cell["id"] for cell in stored["cells"]}) == len(stored["cells"])
    for cell in stored["cells"]:
        assert cell["metadata"] == {}
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)


def test_the_sites_page_names_each_notebook_and_no_other() -> None:
    page = (notebooks.FOLDER.parent / "docs" / "notebooks.md").read_text()
    assert sorted(set(re.findall(r"notebooks/(\w+)\.ipynb", page))) == [path.stem for path in ALL]

"""The soak's check of a table reports rows that are lost, return, or are not followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.soak import work
from tests.soak.work import Work

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


class Panic(BaseException):
    """Raised as a Rust panic is."""


@pytest.fixture
def soaked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    """Make a table after some rounds of each loop, with changed and deleted rows."""
    monkeypatch.setattr(work, "BATCH", 10)
    monkeypatch.setattr(work, "LIVE", 20)
    made = Work("delta", str(tmp_path))
    made._follow()
    for _ in range(4):
        made._write()
    made.done.update(write=4, follow=1, read=1, maintain=1)
    return made


def test_the_check_passes_for_correct_rows(soaked: Work) -> None:
    soaked.check()
    assert soaked.failed == []
    assert (soaked._first, soaked._rows, soaked._changed) == (20, 40, {34})


@pytest.mark.parametrize(
    "harm",
    [
        lambda table: table.delete("id = 25"),
        lambda table: table.delete("id = 39"),
        lambda table: table.update({"note": "'note 34'"}, where="id = 34"),
        lambda table: table.overwrite(table.scan().as_of(version=4).to_arrow()),
    ],
    ids=["an older row is lost", "the newest row is lost", "an update is lost", "rows come back"],
)
def test_wrong_rows_are_reported(soaked: Work, harm: Any) -> None:
    harm(soaked._table())
    soaked.check()
    assert any("not those that were written" in each for each in soaked.failed)


def test_rows_that_were_not_followed_are_reported(soaked: Work) -> None:
    soaked._table().append(pa.Table.from_pylist([soaked._row(40)]))
    soaked._follow()
    soaked.check()
    assert any("41 rows were followed, but 40 were written" in each for each in soaked.failed)


def test_a_loop_that_never_ended_is_reported(soaked: Work) -> None:
    del soaked.done["maintain"]
    soaked.check()
    assert soaked.failed == ["delta: never done to its end: maintain"]


def test_a_panic_in_a_loop_is_reported(soaked: Work) -> None:
    def panics() -> None:
        raise Panic("of Rust")

    soaked._loop(panics)
    assert soaked.failed == ["delta, panics: Panic: of Rust"]

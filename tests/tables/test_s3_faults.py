"""Each request of a write to an object store fails once: rows exist once, or an error reports otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

import lakescan
from lakescan.common.retries import RetryPolicy
from lakescan.delta.commit import commit_file as put
from tests.support.faulty_s3 import FAULTS, LATE, REFUSED, TIMEOUT, FaultyS3, faulty_s3
from tests.support.s3 import KEY, REGION, SECRET
from tests.tables.support import rows


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[str, FaultyS3]]:
    with faulty_s3("lake") as found:
        yield found


def catalog(endpoint: str, folder: Path, **more: object) -> lakescan.Catalog:
    properties = {
        "name": "local",
        "type": "sql",
        "uri": f"sqlite:///{folder}/c.db",
        "warehouse": f"s3://lake/{folder.name}",
        "s3.endpoint": endpoint,
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.region": REGION,
    }
    made = lakescan.catalog({**properties, **more})
    made.create_namespace("db")
    return made


# Iceberg's commit is made in the catalog, and both formats write files alike: the answers to Delta's puts matter most.
CASES = [*(("delta", fault) for fault in FAULTS), ("iceberg", REFUSED), ("iceberg", LATE)]


@pytest.mark.slow
@pytest.mark.parametrize(("format", "fault"), CASES)
def test_a_fault_of_any_request_neither_loses_nor_doubles_rows(
    store: tuple[str, FaultyS3], tmp_path: Path, format: str, fault: str
) -> None:
    (endpoint, faulty), number = store, 0
    hasty = {"s3.request-timeout": TIMEOUT, "s3.connect-timeout": TIMEOUT} if fault == LATE else {}
    local = catalog(endpoint, tmp_path, **hasty)
    while number == 0 or faulty.has_met:
        name = f"db.t{number}"
        table = local.create_table(name, "id BIGINT, part STRING", format=format, partition_by=("part",))
        with patch.object(put, "PUTS", RetryPolicy(attempts=3, first=0)), faulty.armed(fault, number):
            made = outcome_of(lambda table=table: table.append(rows((1, "a"))))
        found = local.load_table(name)
        count = found.scan().count()
        assert made in (None, bool(count))
        assert count in (0, 1)
        found.append(rows((2, "a")))
        assert found.scan().to_arrow().num_rows == count + 1
        named = set(found.scan().plan().files["path"].to_pylist())
        assert not named & set(found.remove_orphans(older_than="2100-01-01", dry_run=True))
        number += 1
    assert number > 1


def outcome_of(change: Callable[[], object]) -> bool | None:
    """Return whether a change reports success; None if it reports an unknown outcome."""
    try:
        change()
    except lakescan.CommitStateUnknown:
        return None
    except lakescan.LakescanError:
        return False
    return True

"""DROP FEATURE of Delta tables by lakescan and by Delta on Spark: the same protocol and rows, and both continue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.delta_state import newest_version, state
from tests.support.rows import differences

import lakescan
from interop.test_delta import written
from interop.test_delta_commits import checked, forget

MADE = "CREATE TABLE {t} (id INT, word STRING, part STRING) USING delta PARTITIONED BY (part) "
ROWS = "INSERT INTO {t} SELECT id, concat('w', id), CASE WHEN id < 5 THEN 'a b' END FROM range(0, 10, 1, 2)"


def on(properties: str) -> str:
    return f"ALTER TABLE {{t}} SET TBLPROPERTIES ({properties})"


CASES: dict[str, tuple[str, list[str]]] = {
    "deletionVectors": (
        "deletionVectors",
        [MADE, ROWS, on("'delta.enableDeletionVectors'='true'"), "DELETE FROM {t} WHERE id IN (1, 3, 7)"],
    ),
    "deletionVectors with others": (
        "deletionVectors",
        [
            MADE + "TBLPROPERTIES ('delta.enableDeletionVectors'='true', 'delta.enableRowTracking'='true', "
            "'delta.columnMapping.mode'='name')",
            ROWS,
            "DELETE FROM {t} WHERE id IN (1, 3, 7)",
        ],
    ),
    "columnMapping": (
        "columnMapping",
        [
            MADE + "TBLPROPERTIES ('delta.columnMapping.mode'='name')",
            ROWS,
            "ALTER TABLE {t} RENAME COLUMN word TO text",
            "ALTER TABLE {t} RENAME COLUMN part TO p",
        ],
    ),
    "columnMapping by id": (
        "columnMapping",
        [MADE + "TBLPROPERTIES ('delta.columnMapping.mode'='id')", ROWS, "ALTER TABLE {t} RENAME COLUMN word TO w"],
    ),
    "partitions in wider types": (
        "typeWidening",
        [
            "CREATE TABLE {t} (id INT, d DATE, n INT) USING delta PARTITIONED BY (d, n) "
            "TBLPROPERTIES ('delta.enableTypeWidening'='true', 'delta.feature.timestampNtz'='supported')",
            "INSERT INTO {t} SELECT id, DATE '2026-01-31', id % 2 FROM range(4)",
            "ALTER TABLE {t} ALTER COLUMN d TYPE TIMESTAMP_NTZ",
            "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
            "INSERT INTO {t} SELECT id, TIMESTAMP_NTZ '2026-01-31 01:02:03.5', 5000000000 FROM range(10, 12)",
        ],
    ),
    "columnMapping with others": (
        "columnMapping",
        [
            MADE + "TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.enableDeletionVectors'='true')",
            ROWS,
            "ALTER TABLE {t} DROP COLUMN word",
            "DELETE FROM {t} WHERE id = 3",
        ],
    ),
    "typeWidening": (
        "typeWidening",
        [
            MADE + "TBLPROPERTIES ('delta.enableTypeWidening'='true')",
            ROWS,
            "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
            "INSERT INTO {t} VALUES (5000000000, 'large', 'a b')",
        ],
    ),
    "v2Checkpoint": (
        "v2Checkpoint",
        [MADE + "TBLPROPERTIES ('delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='1')", ROWS, ROWS],
    ),
    "vacuumProtocolCheck": ("vacuumProtocolCheck", [MADE, ROWS, on("'delta.feature.vacuumProtocolCheck'='supported'")]),
    "inCommitTimestamp": ("inCommitTimestamp", [MADE, ROWS, on("'delta.enableInCommitTimestamps'='true'")]),
    "rowTracking": ("rowTracking", [MADE, ROWS, on("'delta.enableRowTracking'='true'")]),
    "rowTracking beside mapping": (
        "rowTracking",
        [MADE + "TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.enableRowTracking'='true')", ROWS],
    ),
    "checkConstraints": (
        "checkConstraints",
        [MADE, ROWS, "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id >= 0)", "ALTER TABLE {t} DROP CONSTRAINT c"],
    ),
}


def protocol(folder: str) -> tuple[Any, ...]:
    found = state(Path(folder))[0]
    return found.min_reader_version, found.min_writer_version, found.reader_features, found.writer_features


@pytest.mark.parametrize("name", CASES)
def test_a_drop_makes_the_same_table_as_by_delta(jvm: Any, warehouse: Path, name: str) -> None:
    feature, before = CASES[name]
    theirs, expected = written(
        jvm, warehouse, f"drop jvm {name}", [*before, f"ALTER TABLE {{t}} DROP FEATURE {feature}"]
    )
    mine, folder = written(jvm, warehouse, f"drop own {name}", before)
    lakescan.sql(f"ALTER TABLE delta.`{folder}` DROP FEATURE {feature}")
    forget(jvm)
    assert protocol(folder) == protocol(expected)
    rows = jvm.sql(f"SELECT * FROM {theirs}").toArrow()
    assert differences(jvm.sql(f"SELECT * FROM {mine}").toArrow(), rows) == ""
    for each in (folder, expected):
        assert differences(lakescan.table(each).to_arrow(), rows) == ""
        assert checked(jvm, each)
    configured = [set(state(Path(each))[1].configuration) for each in (folder, expected)]
    assert configured[0] - {"delta.enableInCommitTimestamps"} == configured[1] - {"delta.enableInCommitTimestamps"}
    # Both continue to write both tables.
    for identifier, each in ((theirs, expected), (mine, folder)):
        jvm.sql(f"DELETE FROM {identifier} WHERE id = 8")
        lakescan.table(each).delete("id = 9")
        lakescan.table(each).append(lakescan.table(each).to_arrow().slice(0, 1))
        forget(jvm)
        found = jvm.sql(f"SELECT * FROM {identifier}").toArrow()
        assert not {8, 9} & set(found["id"].to_pylist())
        assert found.num_rows
        assert differences(lakescan.table(each).to_arrow(), found) == ""
        assert checked(jvm, each)


def test_delta_reads_a_history_truncated_by_lakescan(jvm: Any, warehouse: Path) -> None:
    import os

    _, before = CASES["deletionVectors"]
    mine, folder = written(jvm, warehouse, "drop truncated", before)
    drop = f"ALTER TABLE {mine} DROP FEATURE deletionVectors TRUNCATE HISTORY"
    with pytest.raises(lakescan.FeatureInUse):
        lakescan.sql(drop.replace(mine, f"delta.`{folder}`"))
    forget(jvm)
    with pytest.raises(Exception, match="DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"):
        jvm.sql(drop)
    for file in (Path(folder) / "_delta_log").rglob("*"):
        if file.is_file():
            then = file.stat().st_mtime - 30 * 3600
            os.utime(file, (then, then))
    lakescan.sql(drop.replace(mine, f"delta.`{folder}`"))
    forget(jvm)
    assert protocol(folder) == (1, 2, frozenset(), frozenset())
    assert sorted(jvm.sql(f"SELECT id FROM {mine}").toArrow()["id"].to_pylist()) == [0, 2, 4, 5, 6, 8, 9]
    assert checked(jvm, folder)


def test_each_side_drops_the_protection_added_by_the_other(jvm: Any, warehouse: Path) -> None:
    import os

    feature, before = CASES["vacuumProtocolCheck"]
    dropped = [*before, f"ALTER TABLE {{t}} DROP FEATURE {feature}"]
    theirs, expected = written(jvm, warehouse, "protected there", dropped)
    mine, folder = written(jvm, warehouse, "protected here", before)
    lakescan.sql(f"ALTER TABLE delta.`{folder}` DROP FEATURE {feature}")
    last = {each: newest_version(Path(each)) for each in (folder, expected)}
    for each in (folder, expected):
        for file in (Path(each) / "_delta_log").rglob("*"):
            if file.is_file():
                then = file.stat().st_mtime - 30 * 3600
                os.utime(file, (then, then))
    forget(jvm)
    jvm.sql(f"ALTER TABLE {mine} DROP FEATURE checkpointProtection TRUNCATE HISTORY")
    lakescan.sql(f"ALTER TABLE delta.`{expected}` DROP FEATURE checkpointProtection TRUNCATE HISTORY")
    forget(jvm)
    for identifier, each in ((theirs, expected), (mine, folder)):
        assert protocol(each) == (1, 2, frozenset(), frozenset())
        versions = [int(file.name[:20]) for file in (Path(each) / "_delta_log").glob("*.json")]
        assert min(versions) >= last[each]
        assert jvm.sql(f"SELECT * FROM {identifier}").count() == lakescan.table(each).count() == 10


def test_streams_and_time_travel_work_across_the_drop(jvm: Any, warehouse: Path) -> None:
    feature, before = CASES["deletionVectors"]
    mine, folder = written(jvm, warehouse, "drop and travel", before)
    last = newest_version(Path(folder))
    expected = jvm.sql(f"SELECT * FROM {mine}").toArrow()
    lakescan.sql(f"ALTER TABLE delta.`{folder}` DROP FEATURE {feature}")
    lakescan.table(folder).delete("id = 4")
    forget(jvm)
    assert differences(jvm.sql(f"SELECT * FROM {mine} VERSION AS OF {last}").toArrow(), expected) == ""
    jvm.sql(f"RESTORE TABLE {mine} TO VERSION AS OF {last}")
    assert differences(lakescan.table(folder).to_arrow(), expected) == ""

"""Options have the ecosystem's names; an unknown option is refused with the nearest valid name, never ignored."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import lakescan
from lakescan.common.option_values import parse_size
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.formats.table_format import StartAt, StreamStart
from lakescan.options import keywords
from lakescan.options.compact import CompactOptions
from lakescan.options.declaration import OptionSet, as_keyword, declarations, normalise_name
from lakescan.options.read import ReadOptions
from lakescan.options.streaming import batch_read_options, stream_start
from lakescan.options.write import WriteOptions

SETS = [ReadOptions, WriteOptions, CompactOptions]


@pytest.mark.parametrize("name", ["snapshot-id", "snapshot_id", "snapshotId", "SNAPSHOT-ID", "snapshotid"])
def test_case_hyphens_and_underscores_do_not_matter(name: str) -> None:
    assert ReadOptions.parse({name: "7"}) == ReadOptions.parse({"snapshot-id": 7})
    assert ReadOptions.parse({name: "7"}).snapshot_id == 7


@pytest.mark.parametrize("options", SETS)
def test_an_attribute_is_the_name_in_snake_case(options: type[OptionSet]) -> None:
    for attribute, option in declarations(options).items():
        if option.is_prefix:
            assert normalise_name(attribute) == normalise_name(option.name.removesuffix("y.NAME")) + "ies"
        else:
            assert normalise_name(attribute) == normalise_name(as_keyword(option.name))


@pytest.mark.parametrize("options", SETS)
def test_a_printed_default_is_the_attribute_without_the_option(options: type[OptionSet]) -> None:
    plain = options()
    for attribute, option in declarations(options).items():
        value = getattr(plain, attribute)
        if isinstance(value, bool | str):
            assert option.value(option.default) == value, attribute


def test_names_of_one_option_set_one_attribute() -> None:
    assert ReadOptions.parse({"readChangeData": "true"}).read_change_feed
    assert ReadOptions.parse({"ignoreFileDeletion": True}).ignore_changes
    assert WriteOptions.parse({"partitionOverwriteMode": "dynamic"}).is_dynamic
    assert WriteOptions.parse({"compression": "gzip"}, "delta").compression_codec == "gzip"
    assert WriteOptions.parse({"merge-schema": "true"}).merge_schema


def test_two_names_of_one_option_must_agree() -> None:
    assert ReadOptions.parse({"readChangeFeed": "true", "readChangeData": True}).read_change_feed
    with pytest.raises(InvalidOption, match="'readChangeFeed' and 'readChangeData' are one option with two values"):
        ReadOptions.parse({"readChangeFeed": True, "readChangeData": False})


def test_an_alias_may_belong_to_one_format_only() -> None:
    with pytest.raises(InvalidOption, match="'compression' is for delta tables; this is an iceberg table"):
        WriteOptions.parse({"compression": "gzip"}, "iceberg")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("snapshots-id", "snapshot-id"),
        ("versionAsof2", "versionAsOf"),
        ("splitsizes", "split-size"),
        ("maxFiles", "maxFilesPerTrigger"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InvalidOption, match=rf"unknown option '{name}'\. Did you mean '{nearest}'"):
        ReadOptions.parse({name: "1"})


def test_an_unknown_option_of_a_write_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidOption, match=r"unknown write option 'mergeShema'\. Did you mean 'mergeSchema'"):
        WriteOptions.parse({"mergeShema": "true"})


def test_an_option_of_the_peers_that_is_not_implemented_is_refused_as_a_feature() -> None:
    with pytest.raises(UnsupportedFeature, match=r"delta option 'schemaTrackingLocation'.*to read without it"):
        ReadOptions.parse({"schematrackinglocation": "x"})
    with pytest.raises(UnsupportedFeature, match=r"write option 'check-ordering'.*to write without it"):
        WriteOptions.parse({"check_ordering": "true"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("split-size", "big"),
        ("split-size", "0"),
        ("lookback", "-1"),
        ("case-sensitive", "yes"),
        ("snapshot-id", "main"),
        ("starting-strategy", "soon"),
        ("on-change", "ignore"),
        ("monitor-interval", "0s"),
        ("startingVersion", "newest"),
        ("limit", "-5"),
        ("data-planning-mode", "remote"),
        ("time-zone", "Mars/Base"),
        ("relocate", "{"),
        ("branch", None),
    ],
)
def test_a_malformed_value_is_refused_with_what_the_option_takes(name: str, value: str | None) -> None:
    expects = next(option.value.expects for option in declarations(ReadOptions).values() if option.name == name)
    with pytest.raises(InvalidOption, match=f"{name}.*invalid value") as caught:
        ReadOptions.parse({name: value})
    assert str(caught.value).endswith(f"{value!r}; expected: {expects}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression-codec", "rar"),
        ("compression-codec", None),
        ("branch", 5),
        ("target-file-size-bytes", "0"),
        ("overwrite-mode", "all"),
        ("txnVersion", "-1"),
    ],
)
def test_a_malformed_value_of_a_write_is_refused_with_the_same_message(name: str, value: Any) -> None:
    with pytest.raises(InvalidOption, match=f"option '{name}' has the invalid value .*; expected: "):
        WriteOptions.parse({name: value})


@pytest.mark.parametrize(
    ("text", "size"), [("10", 10), ("1k", 1024), ("128MB", 128 * 2**20), ("2 g", 2 * 2**30), ("1GiB", 2**30)]
)
def test_sizes_take_units(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_a_time_zone_may_be_an_object() -> None:
    assert ReadOptions().time_zone is UTC
    assert ReadOptions.parse({"time-zone": ZoneInfo("Europe/Paris")}) == ReadOptions.parse({"timeZone": "Europe/Paris"})


def test_an_option_of_the_other_format_is_refused() -> None:
    with pytest.raises(InvalidOption, match="'branch' is for iceberg tables; this is a delta table"):
        ReadOptions.parse({"branch": "main"}).check_format("delta")
    with pytest.raises(InvalidOption, match="'optimizeWrite' is for delta tables; this is an iceberg table"):
        WriteOptions.parse({"optimizeWrite": "true"}, "iceberg")


def test_an_option_of_the_other_format_is_refused_even_with_its_default() -> None:
    with pytest.raises(InvalidOption, match="'locality' is for iceberg tables"):
        ReadOptions.parse({"locality": "false"}).check_format("delta")


def test_later_options_override_earlier_ones() -> None:
    merged = ReadOptions.parse({"limit": 5, "lookback": 3, "readChangeData": True}).merge(
        {"limit": 7, "readChangeFeed": False}
    )
    assert merged.values() == {"readChangeFeed": False, "limit": 7, "lookback": 3}


@pytest.mark.parametrize("name", ["ignoreChanges", "ignore-changes", "ignoreFileDeletion"])
def test_an_omitted_option_has_its_default_again(name: str) -> None:
    options = ReadOptions.parse({"limit": 5, "ignoreFileDeletion": True})
    assert options.exclude((name,)) == ReadOptions.parse({"limit": 5})


def test_a_batch_beneath_a_stream_has_none_of_its_options() -> None:
    stream = {"ignoreFileDeletion": True, "readChangeData": True, "startingVersion": 3, "stream-from-timestamp": 5}
    assert batch_read_options(ReadOptions.parse({**stream, "lookback": 2})) == ReadOptions.parse({"lookback": 2})


def test_a_tag_named_latest_is_a_tag() -> None:
    assert stream_start(ReadOptions.parse({"start-tag": "latest"})) == StreamStart(
        StartAt.AFTER_COMMIT, commit="latest"
    )
    assert stream_start(ReadOptions.parse({"startingVersion": "latest"})) == StreamStart(StartAt.LATEST)


@pytest.mark.parametrize("options", SETS)
def test_settings_of_stores_are_never_printed(options: type[OptionSet]) -> None:
    secret = "-".join(["hush", "hush"])
    assert secret not in repr(options.parse({"storage-options": {"key": secret}}))
    with pytest.raises(InvalidOption, match="invalid value; expected: a JSON object") as caught:
        options.parse({"storage-options": f'["{secret}"]'})
    assert secret not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("name", "says"),
    [("dataChange", "writes"), ("queryName", "streaming query"), ("checkpointLocation", "writeStream")],
)
def test_options_of_other_calls_are_refused_with_the_right_call(name: str, says: str) -> None:
    with pytest.raises(InvalidOption, match=f"does not apply to reads: .*{says}"):
        ReadOptions.parse({name: "true"}).check_format("iceberg")


# The options of Delta's `DeltaOptions`, each with a value; `None`: both sides obey it.
OF_READS = {
    "versionAsOf": "0",
    "timestampAsOf": "2026-01-01",
    "readChangeFeed": "true",
    "readChangeData": "true",
    "startingVersion": "latest",
    "startingTimestamp": "2026-01-01",
    "maxFilesPerTrigger": "1",
    "maxBytesPerTrigger": "1g",
    "ignoreDeletes": "true",
    "ignoreChanges": "true",
    "ignoreFileDeletion": "true",
    "skipChangeCommits": "true",
    "excludeRegex": "x",
    "failOnDataLoss": "false",
}
OF_WRITES = {
    "mergeSchema": "true",
    "overwriteSchema": "true",
    "replaceWhere": "id = 1",
    "partitionOverwriteMode": "dynamic",
    "dataChange": "false",
    "optimizeWrite": "true",
    "maxRecordsPerFile": "1",
    "compression": "zstd",
    "txnAppId": "a",
    "txnVersion": "1",
    "userMetadata": "why",
    "queryName": "q",
    "checkpointLocation": "/c",
}


@pytest.mark.parametrize(
    ("options", "given"),
    [(WriteOptions, {name: value}) for name, value in OF_READS.items()]
    + [(ReadOptions, {name: value}) for name, value in OF_WRITES.items()],
    ids=str,
)
def test_delta_accepts_read_and_write_options_for_both(options: type[OptionSet], given: dict[str, str]) -> None:
    found = options.parse(given)
    found.check_format("delta")
    assert replace(found, without_effect=()) == options()
    assert options.parse({}).merge(given).without_effect == options.parse({}).merge_arguments(given).without_effect
    with pytest.raises((InvalidOption, lakescan.UnsupportedFeature), match=next(iter(given))):
        found.check_format("iceberg")


def test_a_value_of_an_option_without_effect_is_checked() -> None:
    with pytest.raises(InvalidOption, match="option 'mergeSchema' has the invalid value 'perhaps'"):
        ReadOptions.parse({"mergeschema": "perhaps"})
    with pytest.raises(InvalidOption, match="option 'startingVersion' has the invalid value"):
        WriteOptions.parse({"startingVersion": "x"})


def test_options_of_the_other_side_have_no_effect_on_delta_tables(tmp_path: Path) -> None:
    writes, reads = OF_WRITES, OF_READS
    lakescan.save(pa.table({"id": [1, 2]}), tmp_path / "t", format="delta")
    read = lakescan.table(tmp_path / "t", **writes)
    assert read.count() == read.scan().options(**writes).count() == 2
    read.append(pa.table({"id": [3]}), **reads)
    lakescan.save(pa.table({"id": [4]}), tmp_path / "t", mode="append", **reads)
    assert lakescan.table(tmp_path / "t").count() == 4


def test_decoding_options_of_iceberg_are_accepted() -> None:
    assert ReadOptions.parse({"vectorization-enabled": "false"}).vectorization_enabled is False


def test_properties_share_a_prefix() -> None:
    options = WriteOptions.parse(
        {"table-property.format-version": 3, "table_property.owner": "me", "snapshot-property.a.b": "c"}
    )
    assert options.table_properties == {"format-version": "3", "owner": "me"}
    assert replace(options, user_metadata="why").commit_properties == {"a.b": "c", "userMetadata": "why"}


def test_a_transaction_needs_its_application_and_its_number() -> None:
    assert WriteOptions.parse({"txnAppId": "job", "txnVersion": 7}).transaction == ("job", 7)
    with pytest.raises(InvalidOption, match="must be given together"):
        WriteOptions.parse({"txnVersion": 7})


@pytest.mark.parametrize(
    "options",
    [
        ReadOptions.parse({"time-zone": "Europe/Paris", "columns": "a, b", "storage-options": '{"a": 1}'}),
        WriteOptions.parse({"txnAppId": "job", "txnVersion": 7, "table-property.a": "b"}),
    ],
)
def test_options_are_sent_to_workers(options: OptionSet) -> None:
    assert pickle.loads(pickle.dumps(options)) == options


def test_options_print_only_given_ones() -> None:
    assert repr(ReadOptions.parse({"split_size": "1k"})) == "ReadOptions(split-size=1024)"


def test_an_open_table_refuses_options_of_opening(tmp_path: Path) -> None:
    lakescan.save(pa.table({"id": [1]}), tmp_path / "t", format="delta")
    table = lakescan.table(tmp_path / "t", **{"storage-options": "{}", "format": "delta"})
    with pytest.raises(InvalidOption, match="'relocate' is for opening a table"):
        table.scan().options(relocate={"a": "b"})  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="'path' is for opening a table"):
        table.append(pa.table({"id": [2]}), path="elsewhere")  # type: ignore[call-arg]
    assert table.scan().count() == 1


def test_storage_options_are_obeyed_by_either_name(tmp_path: Path) -> None:
    given: dict[str, Any] = {"storage-options": '{"no.such.setting": "x"}'}
    with pytest.raises(InvalidOption, match=r"no\.such\.setting"):
        lakescan.table(tmp_path, **given)
    with pytest.raises(InvalidOption, match=r"no\.such\.setting"):
        lakescan.save(pa.table({"id": [1]}), tmp_path / "t", format="delta", **given)


def test_keywords_are_all_options_that_are_valid_python_names() -> None:
    typed = {**keywords.OpenKeywords.__annotations__, "path": None}
    names = {normalise_name(as_keyword(o.name)) for o in _all(ReadOptions)}
    names |= {normalise_name(n) for o in _all(ReadOptions) for n in o.names if n.isidentifier()}
    assert {normalise_name(name) for name in typed} == names
    written = {normalise_name(name) for name in keywords.WriteKeywords.__annotations__}
    own = {normalise_name(n) for o in _all(WriteOptions) for n in o.names if not o.is_prefix}
    assert own - written == {"path", "format", "storageoptions", "partitionby"}  # arguments of `lakescan.save`
    rewriting = {normalise_name(name) for name in keywords.CompactKeywords.__annotations__} - written
    assert rewriting == {normalise_name(as_keyword(n)) for o in _all(CompactOptions) for n in o.names} - own - {
        normalise_name(as_keyword(n)) for o in _all(WriteOptions) for n in o.names
    }


@pytest.mark.parametrize("name", ["partial-progress.enabled", "partial_progress_enabled", "partialProgress.enabled"])
def test_an_option_with_a_dot_has_a_python_name_without_it(name: str) -> None:
    assert CompactOptions.parse({name: "true"}).partial_progress_enabled


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delete-ratio-treshold": 0.5}, "delete-ratio-threshold"),
        ({"delete-ratio-threshold": 2}, "a number above 0, up to 1"),
        ({"partial-progress.enable": True}, "partial-progress.enabled"),
        ({"sort-order": "a", "strategy": "binpack"}, "sort-order is for strategy=sort"),
        ({"sort-order": "a", "zorder-by": "b"}, "sort-order is for strategy=sort"),
        ({"zorder-by": "a", "Strategy": "sort"}, "zorder-by is for strategy=zorder"),
        ({"strategy": "zorder"}, "needs zorder-by"),
        ({"purge": True, "rewrite-all": True}, "give only one"),
    ],
)
def test_options_of_compactions_are_checked(options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        CompactOptions.parse(options)


def test_a_sort_order_implies_the_strategy() -> None:
    assert CompactOptions.parse({"sort_order": "a"}).strategy == "sort"
    assert CompactOptions.parse({"zorder_by": ["a", "b"]}).strategy == "zorder"
    assert CompactOptions.parse({}).strategy == "binpack"


def test_options_of_rewrite_data_files_that_are_not_implemented_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeature, match="rewrite_data_files option 'rewrite-job-order'"):
        CompactOptions.parse({"rewrite_job_order": "bytes-asc"})
    with pytest.raises(InvalidOption, match="'remove-dangling-deletes' is for iceberg tables"):
        CompactOptions.parse({"remove-dangling-deletes": True}, "delta")


def test_the_page_and_the_keywords_are_made_from_the_declarations() -> None:
    made = _script()
    for path, text in ((made.PAGE, made.page()), (made.KEYWORDS, made.keywords())):
        assert path.read_text() == text, "run: python scripts/options_doc.py"


def test_the_page_of_storage_options_is_made_from_their_table() -> None:
    made = _script("storage_options_doc")
    assert made.PAGE.read_text() == made.page(), "run: python scripts/storage_options_doc.py"


def _all(options: type[OptionSet]) -> list[Any]:
    return list(declarations(options).values())


def _script(name: str = "options_doc") -> ModuleType:
    import importlib.util

    path = Path(__file__).parents[2] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("split-lookback", "lookback"),
        ("split-file-open-cost", "file-open-cost"),
        ("read.split.target-size", "split-size"),
        ("read.split.planning-lookback", "lookback"),
        ("read.split.open-file-cost", "file-open-cost"),
        ("read.parquet.vectorization.batch-size", "batch-size"),
        ("table.exec.iceberg.split-size", "split-size"),
        ("table.exec.iceberg.split-file-open-cost", "file-open-cost"),
        ("table.exec.iceberg.worker-pool-size", "worker-pool-size"),
        ("table.exec.iceberg.infer-source-parallelism.max", "infer-source-parallelism.max"),
        ("connector.iceberg.split-lookback", "lookback"),
        ("connector.iceberg.max-planning-snapshot-count", "max-planning-snapshot-count"),
    ],
)
def test_names_of_flink_and_of_table_properties_are_options(theirs: str, ours: str) -> None:
    attribute = next(name for name, each in declarations(ReadOptions).items() if ours in each.names)
    assert getattr(ReadOptions.parse({theirs: "7"}), attribute) == getattr(ReadOptions.parse({ours: 7}), attribute) == 7


@pytest.mark.parametrize("prefix", ["table.exec.iceberg.", "connector.iceberg."])
def test_an_unknown_setting_of_flink_is_refused_with_the_nearest(prefix: str) -> None:
    with pytest.raises(InvalidOption, match=r"Did you mean 'split-lookback'"):
        ReadOptions.parse({f"{prefix}split-lookbak": "3"})


def groups(table: lakescan.Table, **options: Any) -> int:
    return len(table.scan().options(**options).plan().groups)


def test_the_number_of_readers_follows_the_splits_if_flink_infers_it(tmp_path: Path) -> None:
    catalog = lakescan.catalog("inferring", warehouse=tmp_path)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id BIGINT")
    for n in range(8):
        table.append(pa.table({"id": range(n, n + 1000)}))
    table = lakescan.table("inferring.db.t")
    weight = 4 * 2**20  # for each small file
    sizes = {"parallelism": 8, "file_open_cost": weight}
    assert groups(table, **sizes) == 2  # adaptive: no smaller than 16 MB
    assert groups(table, infer_source_parallelism=True, **sizes) == 1  # 128 MB
    assert groups(table, **{"infer-source-parallelism.max": 1}, **sizes) == 1
    assert groups(table, infer_source_parallelism=False, **sizes) == 2


def test_the_worker_pool_size_limits_the_threads_that_read_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakescan.common import executors

    catalog = lakescan.catalog("pooled", warehouse=tmp_path)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id BIGINT")
    for n in range(3):
        table.append(pa.table({"id": [n]}))
    sizes = []
    read = executors.ReadAhead.map
    monkeypatch.setattr(
        executors.ReadAhead, "map", lambda self, *work: sizes.append(self._threads) or read(self, *work)
    )
    assert lakescan.table("pooled.db.t", worker_pool_size=3).scan().where("id = 1").to_arrow().num_rows == 1
    assert set(sizes) == {3}


def test_row_groups_follow_the_row_and_byte_limits_of_the_table(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    catalog = lakescan.catalog("grouped", warehouse=tmp_path)
    catalog.create_namespace("db")

    def rows_of_groups(name: str, **properties: str) -> list[int]:
        table = catalog.create_table(f"db.{name}", "id BIGINT", properties=properties)
        table.append(pa.table({"id": range(10_000)}))
        (file,) = (tmp_path / "db" / name / "data").glob("*.parquet")
        metadata = pq.ParquetFile(file).metadata
        return [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]

    assert rows_of_groups("plain") == [10_000]
    assert rows_of_groups("rows", **{"write.parquet.row-group-limit": "4000"}) == [4000, 4000, 2000]
    assert rows_of_groups("bytes", **{"write.parquet.row-group-size-bytes": "40000"}) == [5000, 5000]
    with pytest.raises(InvalidOption, match=r"row-group-limit'='0'"):
        rows_of_groups("none", **{"write.parquet.row-group-limit": "0"})


def test_an_option_overrides_the_batch_size_of_the_table(tmp_path: Path) -> None:
    catalog = lakescan.catalog("batched", warehouse=tmp_path)
    catalog.create_namespace("db")
    properties = {"read.parquet.vectorization.batch-size": "300"}
    catalog.create_table("db.t", "id BIGINT", properties=properties).append(pa.table({"id": range(1000)}))
    table = lakescan.table("batched.db.t")
    assert max(batch.num_rows for batch in table.scan().to_batches()) == 300
    assert max(batch.num_rows for batch in table.scan().options(batch_size=500).to_batches()) == 500


def test_stream_options_and_read_options_are_separate(tmp_path: Path) -> None:
    catalog = lakescan.catalog("either", warehouse=tmp_path)
    catalog.create_namespace("db")
    catalog.create_table("db.t", "id BIGINT").append(pa.table({"id": [1]}))
    table = lakescan.table("either.db.t")
    assert table.scan().options(streaming="false").to_arrow().num_rows == 1
    assert sum(each.num_rows for each in table.stream(wait=False, streaming=True)) == 1
    with pytest.raises(InvalidOption, match=r"'streaming' is for streams: spark\.readStream, or Table\.stream"):
        table.scan().options(streaming=True).to_arrow()
    with pytest.raises(InvalidOption, match="streaming=false is for batch reads"):
        table.stream(wait=False, streaming=False)


@pytest.mark.parametrize(("allowed", "fails"), [(0, True), (1, True), (2, False), (-1, False)])
def test_a_stream_tolerates_the_allowed_number_of_consecutive_failed_lookups(
    allowed: int, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakescan.api.stream import TableStream

    catalog = lakescan.catalog("failing", warehouse=tmp_path)
    catalog.create_namespace("db")
    catalog.create_table("db.t", "id BIGINT").append(pa.table({"id": [1]}))
    failures = iter([lakescan.StorageError("no answer")] * 2)
    latest = TableStream.latest_offset

    def unreliable(self: TableStream, *arguments: Any, **more: Any) -> Any:
        if (error := next(failures, None)) is not None:
            raise error
        return latest(self, *arguments, **more)

    monkeypatch.setattr(TableStream, "latest_offset", unreliable)
    options = {"max_allowed_planning_failures": allowed, "monitor_interval": "1ms"}
    stream = lakescan.table("failing.db.t").stream(wait=False, **options)
    if fails:
        with pytest.raises(lakescan.StorageError, match="no answer"):
            list(stream)
    else:
        assert sum(batch.num_rows for batch in stream) == 1

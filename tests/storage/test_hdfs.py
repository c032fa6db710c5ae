"""HDFS with two namenodes behind one name service, through Hadoop's client; each test has its own JVM process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lakescan.errors import UnsupportedFeature
from lakescan.storage import hdfs
from lakescan.storage.settings import StorageOptions
from tests.support.hdfs import HighlyAvailable, hdfs_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HighlyAvailable]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as found:
        yield found


def creates_once(folder: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from lakescan.storage import Storage
    from lakescan.storage.put_if_absent import put_if_absent

    storage = Storage()
    assert put_if_absent(storage, f"{folder}/f", b"first") is True
    assert put_if_absent(storage, f"{folder}/f", b"second") is False
    assert storage.read(f"{folder}/f") == b"first"
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: put_if_absent(storage, f"{folder}/raced", b"%d" % n), range(16)))
    assert done.count(True) == 1
    assert storage.read(f"{folder}/raced") == b"%d" % done.index(True)
    assert sorted(each.name for each in storage.walk(folder)) == ["f", "raced"]


@pytest.mark.slow
def test_a_file_is_created_once(cluster: HighlyAvailable) -> None:
    """Arrow's renames replace a file: two writers would replace each other's commits."""
    cluster.run(creates_once, "once")


def lives(folder: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow as pa

    import lakescan

    rows = pa.table({"id": [1, 2, 3], "part": ["a", "b", "c d"]})
    lakescan.save(rows, folder, format="delta", partition_by=["part"])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: lakescan.table(folder).append(pa.table({"id": [n], "part": ["n"]})), range(10, 18)))
    table = lakescan.table(folder)
    assert table.scan().count() == 11
    table.overwrite(pa.table({"id": [9], "part": ["a"]}), where="part = 'a' OR part = 'n'")
    table = lakescan.table(folder)
    table.delete(where="id = 2")
    assert sorted(lakescan.table(folder).scan().to_arrow()["id"].to_pylist()) == [3, 9]
    assert lakescan.table(folder, version_as_of=0).scan().count() == 3


@pytest.mark.slow
def test_a_delta_table_is_written_concurrently_and_read(cluster: HighlyAvailable) -> None:
    assert "FileNotFoundException" not in cluster.run(lives, "lives")


def goes_on(folder: str) -> None:
    import os

    import pyarrow as pa

    import lakescan

    lakescan.save(pa.table({"id": [os.getpid()]}), folder, format="delta", mode="append")
    print(lakescan.table(folder).scan().count())


@pytest.mark.slow
def test_the_other_namenode_takes_over(cluster: HighlyAvailable) -> None:
    cluster.run(goes_on, "failed-over")
    cluster.fail_over("two")
    cluster.run(goes_on, "failed-over")
    cluster.fail_over("one")
    cluster.run(goes_on, "failed-over")


def is_named_by_options(folder: str) -> None:
    import os
    import tempfile
    import xml.etree.ElementTree as ElementTree
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow as pa

    import lakescan

    options = {
        str(each.findtext("name")): str(each.findtext("value"))
        for each in ElementTree.parse(os.environ["CONF"]).iter("property")
    }
    options.pop("fs.defaultFS")
    path = f"{folder}/delta"
    lakescan.save(pa.table({"id": [1]}), path, format="delta", storage_options=options)
    where = {"type": "sql", "uri": f"sqlite:///{tempfile.mkdtemp()}/c.db", "warehouse": f"{folder}/wh"}
    catalog = lakescan.catalog({"name": "named", **where, **options})
    catalog.create_namespace("db")
    catalog.create_table("db.t", "id BIGINT").append(pa.table({"id": [1]}))
    for now in (lambda: lakescan.table(path, storage_options=options), lambda: catalog.load_table("db.t")):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n, now=now: now().append(pa.table({"id": [n]})), range(2, 6)))
        assert sorted(now().scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_name_service_can_be_set_in_the_options(cluster: HighlyAvailable) -> None:
    conf = str(cluster.conf / "hdfs-site.xml")
    environment = {name: value for name, value in cluster.environment.items() if name != "HADOOP_CONF_DIR"}
    cluster.run(is_named_by_options, "named", {**environment, "CONF": conf})


def writes_meanwhile(folder: str) -> None:
    import tempfile
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow as pa

    import lakescan

    where = {"type": "sql", "uri": f"sqlite:///{tempfile.mkdtemp()}/c.db?timeout=60", "warehouse": f"{folder}/wh"}
    catalog = lakescan.catalog({"name": "meanwhile", **where})
    catalog.create_namespace("db")
    catalog.create_table("db.t", "id BIGINT")
    lakescan.save(pa.table({"id": pa.array([], pa.int64())}), f"{folder}/delta", format="delta")
    tables = [lambda: lakescan.table(f"{folder}/delta"), lambda: catalog.load_table("db.t")]
    made = [set[int](), set[int]()]
    unknown = [set[int](), set[int]()]

    def write(n: int) -> None:
        for now, known, other in zip(tables, made, unknown, strict=True):
            try:
                now().append(pa.table({"id": [n]}))
                known.add(n)
            except lakescan.CommitStateUnknown:
                other.add(n)
            except lakescan.LakescanError as error:
                print("failed", n, error, flush=True)
        print("written", flush=True)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(24)))
    for now, known, other in zip(tables, made, unknown, strict=True):
        found = now().scan().to_arrow()["id"].to_pylist()
        assert len(found) == len(set(found)), found
        assert known <= set(found) <= known | other, (found, known, other)
        assert len(known) > 12


@pytest.mark.slow
def test_no_commit_is_lost_or_doubled_if_the_active_namenode_dies(cluster: HighlyAvailable) -> None:
    with cluster.running(writes_meanwhile, "died") as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        cluster.kill("one")
        process.stdout.read()
    cluster.run(goes_on, "after")
    cluster.fail_over("one")


def says_what_to_check(folder: str) -> None:
    import pytest

    import lakescan

    with pytest.raises(lakescan.StorageError, match="HADOOP_CONF_DIR"):
        lakescan.table("hdfs://nobody/t")


@pytest.mark.slow
def test_an_unknown_name_service_is_reported(cluster: HighlyAvailable) -> None:
    cluster.run(says_what_to_check, "x")


def test_without_hadoops_own_rename_nothing_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "_LIBRARY", "no-such-library.so")
    hdfs._client.cache_clear()
    with pytest.raises(UnsupportedFeature, match="concurrent commits could be lost"):
        hdfs.rename_file("lake", StorageOptions.parse({}), "/a", "/b")


def test_hadoops_client_finds_the_jars_of_spark_and_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLASSPATH", "HADOOP_HOME", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/some-hadoop")
    hdfs.prepare()
    hdfs.prepare()
    found = os.environ["CLASSPATH"].split(os.pathsep)
    assert found[0] == "/etc/some-hadoop"
    assert found.count("/etc/some-hadoop") == 1
    assert any("hadoop-client" in each for each in found)
    monkeypatch.setenv("CLASSPATH", "/mine.jar")
    hdfs.prepare()
    assert os.environ["CLASSPATH"] == f"/etc/some-hadoop{os.pathsep}/mine.jar"

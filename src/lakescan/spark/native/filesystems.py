"""Which object stores the session's Spark can read, and under which names: probed once for each store of a session.

Spark has filesystems by URI scheme, from JARs that a cluster brings (`hadoop-aws` for `s3a`). The probe looks up two
data files of the table with Spark, on a worker, too, and compares their sizes: a store that has the same settings, but
holds other objects, is none to read from.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakescan.spark.native.same_store import why_other_store
from lakescan.spark.session import hadoop_settings, is_connect
from lakescan.storage import Storage
from lakescan.storage.locations import ALIASES, split_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORES = ("s3", "gcs", "abfs")  # object stores, by the common name of their schemes
_MOST_SECONDS = 30  # of a probe: a client without an answer tries again for minutes
# The names of a store in Hadoop: s3a is its own client, s3 that of some vendors; wasb is gone from newer versions.
_NAMES = {
    "s3": ("s3a", "s3"),
    "s3a": ("s3a", "s3"),
    "s3n": ("s3a", "s3"),
    "gcs": ("gs",),
    "wasb": ("wasb", "abfs"),
    "wasbs": ("wasbs", "abfss"),
}
_NO_FILESYSTEM = re.compile(r"No FileSystem for scheme|UnsupportedFileSystemException|ClassNotFoundException")
_NOT_FOUND = re.compile("PATH_NOT_FOUND|FILE_NOT_EXIST")
_KIND = re.compile(r"\b([A-Z]\w+(?:Exception|Error))\b")
_JARS = {"s3": "hadoop-aws", "gcs": "gcs-connector", "abfs": "hadoop-azure"}


@dataclass
class _ProbeResults:
    """What the probes of a session found: schemes without a filesystem, and stores with the reason against each."""

    missing: set[str] = field(default_factory=set)
    stores: dict[tuple[str, str | None], str | None] = field(default_factory=dict)


_KNOWN: WeakKeyDictionary[SparkSession, _ProbeResults] = WeakKeyDictionary()


def root_for_spark(
    spark: SparkSession, storage: Storage, root: str, files: Sequence[tuple[str, int | None]], *, looks_up: bool = True
) -> tuple[str, str]:
    """The root under which Spark reads what lakescan reads at `root` (`s3://bucket`), or the reason why it does not.

    The other one is empty. `files` are one or two files there: what follows the root, and the size in bytes if known.
    `looks_up`: whether Spark's driver looks files up as well, as it does before it reads paths.
    """
    known = _KNOWN.setdefault(spark, _ProbeResults())
    hadoop, endpoint = hadoop_settings(spark), storage.settings.endpoint(_store(root))
    why = ""
    for candidate in _candidates(root):
        if split_location(candidate)[0] in known.missing:
            continue
        reason = why_other_store(storage, root, candidate, hadoop)
        if reason is None and (candidate, endpoint) in known.stores:
            reason = known.stores[candidate, endpoint]
        elif reason is None:
            reason = _probe_store(spark, known, candidate, endpoint, files, looks_up)
        if reason is None:
            return candidate, ""
        if split_location(candidate)[0] not in known.missing:
            why = why or reason
    schemes = " or ".join(f"{split_location(each)[0]}://" for each in _candidates(root))
    jar = _JARS[_store(root)]
    return "", why or f"the session's Spark has no filesystem for {schemes} (JARs such as {jar} bring it)"


def has_filesystem(spark: SparkSession, scheme: str) -> bool:
    """Whether the Hadoop client of a session has a filesystem for a scheme; False if the session cannot be asked."""
    if is_connect(spark):
        return False
    session: Any = spark
    settings = session._jsparkSession.sessionState().newHadoopConf()
    try:
        session.sparkContext._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, settings)
    except Exception:  # of Java: no class, or none that can be loaded
        return False
    return True


def forget(spark: SparkSession) -> None:
    """Forget what is known of a session: Spark is asked again."""
    _KNOWN.pop(spark, None)


def _store(root: str) -> str:
    scheme = split_location(root)[0]
    return ALIASES.get(scheme, scheme)


def _candidates(root: str) -> list[str]:
    """The root under each name that Hadoop may have for the store."""
    scheme, authority, _ = split_location(root)
    found = []
    for name in _NAMES.get(scheme, (scheme,)):
        is_moved = scheme.startswith("wasb") and name.startswith("abfs")
        found.append(f"{name}://{authority.replace('.blob.', '.dfs.', 1) if is_moved else authority}")
    return found


def _probe_store(
    spark: SparkSession,
    known: _ProbeResults,
    root: str,
    endpoint: str | None,
    files: Sequence[tuple[str, int | None]],
    looks_up: bool,
) -> str | None:
    """The reason why Spark cannot read at a root, by looking files up there; None if it can. Keeps what is lasting."""
    paths = [root + path for path, _ in files]
    try:
        sizes = _sizes(spark, paths, looks_up=looks_up)
    except TimeoutError:
        known.stores[root, endpoint] = f"Spark had not looked up a file in {root} after {_MOST_SECONDS} s"
        return known.stores[root, endpoint]
    except Exception as error:  # of Java, py4j, the Connect client or the store's own client
        if _NOT_FOUND.search(str(error)):
            return f"Spark does not find its files in {root}"
        if _NO_FILESYSTEM.search(str(error)):
            known.missing.add(split_location(root)[0])
            return "there is no filesystem"
        kinds = _KIND.findall(str(error)) or [type(error).__name__]
        known.stores[root, endpoint] = f"Spark cannot read {root} by the session's settings ({kinds[-1]})"
        return known.stores[root, endpoint]
    for (path, size), found in zip(files, sizes, strict=True):
        if found is None:
            return f"Spark has another path for {root}{path}"
        if size is not None and size != found:
            return f"Spark finds a file of {found:,} bytes at {root}{path}, and the table's has {size:,}"
    known.stores[root, endpoint] = None
    return None


def _sizes(spark: SparkSession, paths: Sequence[str], *, looks_up: bool) -> list[int | None]:
    """The sizes of files as Spark's workers see them; None for one that has another path there.

    Raises `TimeoutError`, and what Spark raises.
    """
    from lakescan.spark.native.relation import statuses

    answers: SimpleQueue[list[int | None] | Exception] = SimpleQueue()

    def look_up() -> None:
        try:
            frame = _list_files(spark, paths) if looks_up else statuses(spark, paths)
            found: Mapping[str, int] = {row["path"]: row["length"] for row in frame.collect()}
            answers.put([found.get(path) for path in paths])
        except Exception as error:
            answers.put(error)

    threading.Thread(target=look_up, name="lakescan-probe", daemon=True).start()
    try:
        answer = answers.get(timeout=_MOST_SECONDS)
    except Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _list_files(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    # A path that is given alone is tried as the sink of a stream first, whose failure Spark logs at length.
    reader = spark.read.format("binaryFile").option("ignoreMissingFiles", "false")
    return reader.option("ignoreCorruptFiles", "false").load([*paths, paths[0]]).select("path", "length")

"""Probe which object stores the session's Spark can read, and under which names, once per store and session.

Spark has filesystems by URI scheme, from JARs of the cluster (`hadoop-aws` for `s3a`). The probe looks up two data
files of the table with Spark, also on a worker, and compares their sizes, since a store with the same settings may hold
other objects.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakescan.spark.session import hadoop_settings, is_connect
from lakescan.storage import Storage
from lakescan.storage.locations import split_location, store_of
from lakescan.storage.settings import StorageOptions, parse_option
from lakescan.storage.settings.azure_endpoints import account_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORES = ("s3", "gcs", "abfs")  # object stores, by the common name of their schemes
_MOST_SECONDS = 30  # limit of a probe: a client without an answer retries for minutes
# Names of stores in Hadoop: s3a is Hadoop's client, s3 that of some vendors; newer versions have no wasb.
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
    """The results of a session's probes.

    - `missing`: the URI schemes without a filesystem.
    - `stores`: by root (`s3a://bucket`) and endpoint, the reason why Spark cannot read the store; None if it can.
    """

    missing: set[str] = field(default_factory=set)
    stores: dict[tuple[str, str | None], str | None] = field(default_factory=dict)


_KNOWN: WeakKeyDictionary[SparkSession, _ProbeResults] = WeakKeyDictionary()


def root_for_spark(
    spark: SparkSession, storage: Storage, root: str, files: Sequence[tuple[str, int | None]], *, looks_up: bool = True
) -> tuple[str, str]:
    """Return the root under which Spark reads the files of lakescan's `root` (`s3://bucket`), or why it cannot.

    Of the two strings, root and reason, one is empty. `files` are one or two files below the root: the path after the
    root, and the size in bytes if known. `looks_up` is whether Spark's driver also looks files up, as it does before it
    reads paths.
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
    """Return whether a session's Hadoop client has a filesystem for a URI scheme; False on Connect, or if unknown."""
    if is_connect(spark):
        return False
    session: Any = spark
    settings = session._jsparkSession.sessionState().newHadoopConf()
    try:
        session.sparkContext._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, settings)
    except Exception:  # from Java: no class, or it cannot be loaded
        return False
    return True


def forget(spark: SparkSession) -> None:
    """Forget the results of a session's probes, so that stores are probed again."""
    _KNOWN.pop(spark, None)


def _store(root: str) -> str:
    scheme = split_location(root)[0]
    return store_of(scheme)


def _candidates(root: str) -> list[str]:
    """Return a root under each URI scheme that Hadoop may use for the store: `s3a://bucket` for `s3://bucket`."""
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
    """Look up the files `files` below a root with Spark; return why Spark cannot read the root, None if it can.

    Results that do not depend on the files are recorded in `known`, by root and endpoint.
    """
    paths = [root + path for path, _ in files]
    try:
        sizes = _sizes(spark, paths, looks_up=looks_up)
    except TimeoutError:
        known.stores[root, endpoint] = f"Spark had not looked up a file in {root} after {_MOST_SECONDS} s"
        return known.stores[root, endpoint]
    except Exception as error:  # from Java, py4j, the Connect client or the store's own client
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
    """Return the sizes of files as Spark's workers see them; None for a file whose path differs there.

    With `looks_up`, Spark's driver looks the files up, too. Raises `TimeoutError`, and Spark's errors.
    """
    from lakescan.spark.native.packed_files import statuses

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
    # Spark first tries a single path as the sink of a stream, and logs the failure at length; so give two.
    reader = spark.read.format("binaryFile").option("ignoreMissingFiles", "false")
    return reader.option("ignoreCorruptFiles", "false").load([*paths, paths[0]]).select("path", "length")


# Storage options are only used by lakescan: they never become options of a Spark reader, since plans show these. So
# Spark reads a file only if the session has the same endpoint and, if options or a catalog give credentials, the same
# credentials. Values are compared here, on the driver; reasons name settings and never contain values.

# Settings that affect how an object is accessed or written, but not which object it is.
_TUNING: Mapping[str, frozenset[str]] = {
    "s3": frozenset(
        {"region", "force_virtual_addressing", "connect_timeout", "request_timeout", "timeout", "load_frequency"}
        | {"tls_ca_file_path", "background_writes", "allow_delayed_open", "allow_bucket_creation", "default_metadata"}
        | {"allow_bucket_deletion", "check_directory_existence_before_creation", "retry_strategy", "max_retries"}
        | {"retry_timeout", "allow_invalid_certificates", "aws_s3_allow_unsafe_rename", "aws_s3_locking_provider"}
        | {"aws_conditional_put", "aws_copy_if_not_exists", "delta_dynamo_table_name"}
    ),
    "gcs": frozenset({"project_id", "default_bucket_location", "retry_time_limit", "default_metadata"}),
    "abfs": frozenset(),
}
_COMPARED: Mapping[str, frozenset[str]] = {
    "s3": frozenset({"access_key", "secret_key", "session_token", "anonymous"})
    | {"endpoint_override", "scheme", "aws_allow_http", "aws_use_ssl"},
    "gcs": frozenset({"endpoint_override", "scheme", "anonymous"}),
    "abfs": frozenset({"account_name", "account_key", "sas_token"}),
}
_PREFIXES = {"s3": ("s3.", "client."), "gcs": ("gcs.",), "abfs": ("adls.",)}  # of catalogs' properties
_OTHER_PARTITIONS = ("cn-", "us-gov-", "us-iso")  # regions of separate clouds, which may have the same bucket names
_BY_KEYS = ("TemporaryAWSCredentialsProvider", "SimpleAWSCredentialsProvider")
_AZURE_HOST = re.compile(r"^[a-z0-9]+\.(?:dfs|blob)\.core\.windows\.net$")


def why_other_store(storage: Storage, root: str, spark_root: str, hadoop: Mapping[str, str]) -> str | None:
    """Return why Spark's `spark_root` may be another store than lakescan's `root`; None if their settings agree.

    Roots are a scheme and an authority: `s3://bucket`. `hadoop` has the session's Hadoop settings.
    """
    scheme, authority, _ = split_location(root)
    store = store_of(scheme)
    settings = storage.settings
    given = {name for where, name in settings.values if where == store}
    unknown = given - _TUNING[store] - _COMPARED[store]
    if not storage.options:
        unknown |= set(_unknown_properties(storage.io_properties, store))
    if unknown:
        return f"Spark's own client of the store may not have the setting {min(unknown)}"
    return _COMPARE[store](settings, authority, spark_root, hadoop)


def _unknown_properties(properties: Mapping[str, str], store: str) -> Iterator[str]:
    """Yield the names of a catalog's properties for a store that are not supported here, such as remote signing."""
    for name, value in properties.items():
        if name.startswith(_PREFIXES[store]) and not [*parse_option(name, value, ignore_unknown=True)]:
            yield name


def _s3(settings: StorageOptions, bucket: str, spark_root: str, hadoop: Mapping[str, str]) -> str | None:
    given = {name for store, name in settings.values if store == "s3"}
    own = settings.s3()
    is_s3a = spark_root.startswith("s3a:") or "s3a" in hadoop.get("fs.s3.impl", "").lower()
    endpoint = _address(own.get("endpoint_override"), is_plain=own.get("scheme") == "http")
    if not is_s3a:  # a vendor's client such as EMR's, with AWS's endpoint and other names of settings
        others = given - _TUNING["s3"]
        if endpoint is not None or others:
            return "the session's Spark has no filesystem for s3a://, and settings of another cannot be compared"
        return None

    def setting(name: str) -> str | None:
        """Return a setting of Hadoop's S3A client; one for this bucket takes precedence. None if it is not set."""
        short = f"fs.s3a.bucket.{bucket}.{name}"
        names = (f"fs.s3a.bucket.{bucket}.fs.s3a.{name}", short, f"fs.s3a.{name}")
        return next((hadoop[each] for each in names if hadoop.get(each)), None)

    is_plain = (setting("connection.ssl.enabled") or "true").lower() == "false"
    theirs, region = _address(setting("endpoint"), is_plain=is_plain), str(own.get("region") or "")
    of_aws = {None, "https://s3.amazonaws.com"} | ({f"https://s3.{region}.amazonaws.com"} if region else set())
    if endpoint != theirs and not {endpoint, theirs} <= of_aws:
        return _differs("the endpoint of the store", "fs.s3a.endpoint")
    if endpoint is None and _partition(region) != _partition(setting("endpoint.region") or ""):
        return _differs("the region", "fs.s3a.endpoint.region")
    providers = [each.strip().rpartition(".")[2] for each in (setting("aws.credentials.provider") or "").split(",")]
    if own.get("anonymous"):
        is_same = providers == ["AnonymousAWSCredentialsProvider"]
        return None if is_same else _differs("anonymous access", "fs.s3a.aws.credentials.provider")
    if not given & {"access_key", "secret_key", "session_token"}:
        return None  # both use the credentials of their environment
    if "hadoop.security.credential.provider.path" in hadoop or setting("security.credential.provider.path"):
        return "Spark has the credentials of the store in files, which cannot be compared"
    pairs = {"access_key": "access.key", "secret_key": "secret.key", "session_token": "session.token"}
    for name, theirs_name in pairs.items():
        if own.get(name) != setting(theirs_name):
            return _differs(f"the setting {name}", f"fs.s3a.{theirs_name}")
    needed = _BY_KEYS[:1] if own.get("session_token") else _BY_KEYS
    if providers != [""] and not _leads(providers, needed):
        return _differs("the kind of credentials", "fs.s3a.aws.credentials.provider")
    return None


def _leads(providers: list[str], needed: tuple[str, ...]) -> bool:
    """Return whether the last of the `needed` credential providers comes before all providers that are not needed."""
    last = needed[-1]
    return last in providers and set(providers[: providers.index(last)]) <= set(needed)


def _partition(region: str) -> str:
    return next((each for each in _OTHER_PARTITIONS if region.startswith(each)), "")


def _gcs(settings: StorageOptions, bucket: str, spark_root: str, hadoop: Mapping[str, str]) -> str | None:
    own = settings.gcs()
    endpoint = settings.endpoint("gcs", os.environ)
    cloud = "https://storage.googleapis.com"
    theirs = _address(hadoop.get("fs.gs.storage.root.url"), is_plain=False) or cloud
    if (_address(endpoint, is_plain=own.get("scheme") == "http") or cloud) != theirs:
        return _differs("the endpoint of the store", "fs.gs.storage.root.url")
    if own.get("anonymous") and hadoop.get("fs.gs.auth.type", "").upper() != "UNAUTHENTICATED":
        return _differs("anonymous access", "fs.gs.auth.type")
    return None


def _abfs(settings: StorageOptions, authority: str, spark_root: str, hadoop: Mapping[str, str]) -> str | None:
    host = authority.rpartition("@")[2].lower()
    if not _AZURE_HOST.match(host):
        return "the account is not on Azure's public cloud"
    if settings.azure_account is not None and settings.azure_account.lower() != account_of(authority, None):
        return "the storage options are for another Azure account"
    host = host.replace(".blob.", ".dfs.", 1)

    def setting(name: str) -> str | None:
        return hadoop.get(f"{name}.{host}") or hadoop.get(name)

    own, kind = (
        settings.abfs(account_of(authority, None)),
        (setting("fs.azure.account.auth.type") or "SharedKey").lower(),
    )
    for option, expected, name in (
        ("account_key", "sharedkey", "fs.azure.account.key"),
        ("sas_token", "sas", "fs.azure.sas.fixed.token"),
    ):
        # a SAS token may begin with a question mark
        if option in own and (kind != expected or own[option].lstrip("?") != (setting(name) or "").lstrip("?")):
            return _differs(f"the setting {option}", name)
    return None


def _address(endpoint: str | None, *, is_plain: bool) -> str | None:
    """Normalize an endpoint: with scheme (HTTP if `is_plain`), in lower case, without default port; None if empty."""
    if not endpoint:
        return None
    scheme, separator, host = endpoint.lower().rstrip("/").rpartition("://")
    scheme = scheme if separator else "http" if is_plain else "https"
    return f"{scheme}://{host.removesuffix(':80' if scheme == 'http' else ':443')}"


def _differs(what: str, name: str) -> str:
    return f"{what} is not known to be the same in the session's Spark (spark.hadoop.{name}, where it can be set)"


_COMPARE: Mapping[str, Callable[[StorageOptions, str, str, Mapping[str, str]], str | None]] = {
    "s3": _s3,
    "gcs": _gcs,
    "abfs": _abfs,
}

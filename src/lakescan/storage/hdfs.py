"""HDFS by Hadoop's own client (libhdfs): sets the environment that the client needs, connects, and renames files.

Arrow's `move` replaces an existing file. Hadoop's own rename never does, but Arrow does not offer it. So it is called
here, in the library that Arrow has loaded.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import lru_cache
from glob import glob
from typing import Any

from pyarrow import fs as pafs

from lakescan.errors import StorageError, UnsupportedFeature
from lakescan.storage.settings import StorageOptions

HADOOP_ADVICE = (
    "Install Java and Hadoop, set JAVA_HOME, HADOOP_HOME (libhdfs.so is in its lib/native) and "
    "CLASSPATH=$(hadoop classpath --glob), and restart Python; or read a copy: relocate={old_prefix: new_prefix}."
)
_NO_CLIENT = re.compile(r"libjvm|libhdfs")
_LIBRARY = {"darwin": "libhdfs.dylib", "win32": "hdfs.dll"}.get(sys.platform, "libhdfs.so")
_LOCK = threading.Lock()
_MOST_SECONDS = 60  # the time limit of Hadoop's script that prints its class path


def connect(authority: str, options: StorageOptions) -> pafs.FileSystem:
    """Open Arrow's filesystem of a namenode or of a name service (configured in `HADOOP_CONF_DIR`).

    Sets environment variables; see `prepare`. Raises `StorageError` without a Hadoop client, and Arrow's error if it
    cannot connect.
    """
    host, port, arguments = _address(authority, options)
    prepare()
    try:
        return pafs.HadoopFileSystem(host, port, **arguments)
    except OSError as error:
        if _NO_CLIENT.search(str(error)) is None:
            raise
        raise StorageError(f"hdfs://{authority} cannot be reached without a Hadoop client. {HADOOP_ADVICE}") from error


def _address(authority: str, options: StorageOptions) -> tuple[str, int, dict[str, Any]]:
    """Return the host or name service, the port, and the other arguments of a connection.

    The host `default` is the one in Hadoop's configuration, and port 0 is its default port.
    """
    host, _, port = authority.partition(":")
    arguments = options.hdfs()
    default_host, default_port = arguments.pop("host", "default"), arguments.pop("port", 0)
    return host or default_host, int(port or default_port), arguments


def prepare() -> None:
    """Set the environment variables that Hadoop's client needs: `JAVA_HOME` and `CLASSPATH`, unless they are set.

    Without them, the client ends the process. The JARs are those of `HADOOP_HOME`, or else those of Spark. The folder
    `HADOOP_CONF_DIR` is put first in the class path.
    """
    with _LOCK:
        if not os.environ.get("JAVA_HOME") and (java := shutil.which("java")) is not None:
            os.environ["JAVA_HOME"] = os.path.dirname(os.path.dirname(os.path.realpath(java)))
        known = os.environ.get("CLASSPATH", "")
        if not known and (known := _jars()):
            os.environ["CLASSPATH"] = known
        folder = os.environ.get("HADOOP_CONF_DIR")
        if folder and known and folder.rstrip("/") not in [each.rstrip("/") for each in known.split(os.pathsep)]:
            os.environ["CLASSPATH"] = os.pathsep.join([folder, known])


def _jars() -> str:
    """Return the class path of Hadoop's client, its JARs joined as in `CLASSPATH`; empty if no client is installed."""
    script = os.path.join(os.environ.get("HADOOP_HOME", ""), "bin", "hadoop")
    if os.path.isabs(script) and os.access(script, os.X_OK):
        try:
            told = subprocess.run(
                [script, "classpath", "--glob"], capture_output=True, text=True, timeout=_MOST_SECONDS, check=True
            )
            return told.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return ""
    home = os.environ.get("SPARK_HOME")
    if not home and (spark := importlib.util.find_spec("pyspark")) is not None and spark.origin:
        home = os.path.dirname(spark.origin)
    jars = sorted(glob(os.path.join(home, "jars", "*.jar"))) if home else []
    has_client = any(os.path.basename(each).startswith("hadoop-client") for each in jars)
    return os.pathsep.join(jars) if has_client else ""


def rename_file(authority: str, options: StorageOptions, old: str, new: str) -> bool:
    """Rename the path `old` to an unused name; return False if Hadoop refuses, for example if the name is taken.

    Raises `UnsupportedFeature` if Hadoop's own client cannot be called, `StorageError` if it cannot connect.
    """
    host, port, arguments = _address(authority, options)
    conf = tuple(sorted((arguments.get("extra_conf") or {}).items()))
    client = _client()
    with _LOCK:
        at = _connection(host, port, arguments.get("user"), arguments.get("kerb_ticket"), conf)
    return bool(client.hdfsRename(at, old.encode(), new.encode()) == 0)


@lru_cache(maxsize=1)
def _client() -> Any:
    """Load the libhdfs that Arrow has loaded, from the folders that Arrow searches; raises `UnsupportedFeature`."""
    home = os.environ.get("HADOOP_HOME")
    folders = [os.environ.get("ARROW_LIBHDFS_DIR"), os.path.join(home, "lib", "native") if home else None, ""]
    failed = ""
    for path in [os.path.join(each, _LIBRARY) for each in folders if each is not None]:
        try:
            client = ctypes.CDLL(path)
            client.hdfsNewBuilder.restype = client.hdfsBuilderConnect.restype = ctypes.c_void_p
            client.hdfsRename.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
        except (OSError, AttributeError) as error:
            failed = failed or str(error)
            continue
        return client
    raise UnsupportedFeature(
        "committing to Delta tables in HDFS without Hadoop's own rename",
        f"Arrow's rename replaces files, so concurrent commits could be lost, and {_LIBRARY} cannot be called: "
        f"{failed}. {HADOOP_ADVICE}",
    )


@lru_cache(maxsize=32)
def _connection(
    host: str, port: int, user: str | None, ticket: str | None, conf: tuple[tuple[str, str], ...]
) -> ctypes.c_void_p:
    """Return this process's connection of Hadoop's client to a namenode; raises `StorageError`.

    `ticket` is the path of a Kerberos ticket cache, and `conf` are Hadoop settings. The connection is never closed,
    since Java shares connections to the same address.
    """
    client = _client()
    builder = ctypes.c_void_p(client.hdfsNewBuilder())
    kept = [text.encode() for text in (host, user or "", ticket or "")]  # referenced until the client is connected
    client.hdfsBuilderSetNameNode(builder, ctypes.c_char_p(kept[0]))
    if port:
        client.hdfsBuilderSetNameNodePort(builder, ctypes.c_uint16(port))
    if user:
        client.hdfsBuilderSetUserName(builder, ctypes.c_char_p(kept[1]))
    if ticket:
        client.hdfsBuilderSetKerbTicketCachePath(builder, ctypes.c_char_p(kept[2]))
    pairs = [(name.encode(), value.encode()) for name, value in conf]
    for name, value in pairs:
        client.hdfsBuilderConfSetStr(builder, ctypes.c_char_p(name), ctypes.c_char_p(value))
    found = client.hdfsBuilderConnect(builder)
    if not found:
        raise StorageError(f"hdfs://{host} cannot be connected to by Hadoop's own client. {HADOOP_ADVICE}")
    return ctypes.c_void_p(found)

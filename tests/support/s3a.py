"""A Spark session with Hadoop's own S3 client, whose JARs come from Maven."""

from __future__ import annotations

import fcntl
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from tests.support.session import local_session

_NONE: Mapping[str, str] = {}
_SDK = "2.35.4"
_PARTS = ("s3", "s3-transfer-manager", "sts")  # the JAR of the whole SDK has 600 MB
_OF_SDK = ",".join(f"software.amazon.awssdk:{part}:{_SDK}" for part in _PARTS)


def _packages() -> str:
    """Return the packages: `hadoop-aws` for PySpark's Hadoop version, and the needed parts of the SDK."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    found = re.search(r"-(\d[\d.]*)\.jar$", jar.name)
    assert found is not None
    return f"org.apache.hadoop:hadoop-aws:{found[1]},{_OF_SDK}"


@contextmanager
def s3a_session(endpoint: str, key: str, secret: str, more: Mapping[str, str] = _NONE) -> Iterator[Any]:
    """Start a session whose `s3a` filesystem uses an endpoint, with more settings."""
    settings = {
        "spark.jars.packages": _packages(),
        "spark.jars.excludes": "software.amazon.awssdk:bundle",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.access.key": key,
        "spark.hadoop.fs.s3a.secret.key": secret,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        **more,
    }
    with open(Path(tempfile.gettempdir()) / "lakescan-jars.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes that download the JARs at once damage Ivy's cache
        session = local_session("lakescan s3a", settings)
    try:
        yield session
    finally:
        session.stop()

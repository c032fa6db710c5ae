"""The reference implementation's own REST catalog server, with its JARs from Maven."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

_VERSION = "1.11.0"
_MAVEN = os.environ.get("MAVEN_REPOSITORY", "https://repo1.maven.org/maven2")
_FIXTURES = (
    f"iceberg-open-api/{_VERSION}/iceberg-open-api-{_VERSION}-test-fixtures.jar",
    f"iceberg-core/{_VERSION}/iceberg-core-{_VERSION}-tests.jar",
)
_DEPENDENCIES = {
    "org.apache.iceberg:iceberg-core": _VERSION,
    "org.apache.iceberg:iceberg-aws": _VERSION,
    "org.apache.iceberg:iceberg-aws-bundle": _VERSION,
    "org.eclipse.jetty.ee10:jetty-ee10-servlet": "12.1.5",
    "org.eclipse.jetty.compression:jetty-compression-server": "12.1.5",
    "org.eclipse.jetty.compression:jetty-compression-gzip": "12.1.5",
    "org.xerial:sqlite-jdbc": "3.50.3.0",
    "org.slf4j:slf4j-simple": "2.0.17",
}


@contextmanager
def rest_server(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Start a server with its database in a folder and yield its URI. Settings are the catalog's, such as `warehouse`."""
    port = _free_port()
    properties = {"uri": f"jdbc:sqlite:{folder}/rest.db", "rest.port": str(port), **settings}
    environment = {f"CATALOG_{_as_variable(name)}": value for name, value in properties.items()}
    command = ["java", f"-Drest.port={port}", "-cp", _classpath(folder), "org.apache.iceberg.rest.RESTCatalogServer"]
    with (folder / "rest.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})
    try:
        _wait(f"http://localhost:{port}/v1/config", server, folder / "rest.log")
        yield f"http://localhost:{port}"
    finally:
        server.kill()
        server.wait()


def _as_variable(name: str) -> str:
    return name.upper().replace("-", "__").replace(".", "_")


def _classpath(folder: Path) -> str:
    """Return the class path: the fixtures, their dependencies (resolved by Spark's Ivy), and Spark's Hadoop client."""
    jars = Path(pyspark.__file__).parent / "jars"
    kept = Path.home() / ".cache" / "lakescan-interop"
    kept.mkdir(parents=True, exist_ok=True)
    for path in _FIXTURES:
        if not (kept / Path(path).name).exists():
            urllib.request.urlretrieve(f"{_MAVEN}/org/apache/iceberg/{path}", kept / Path(path).name)
    wanted = "".join(
        f'<dependency org="{each.split(":")[0]}" name="{each.split(":")[1]}" rev="{version}" conf="default->runtime,master"/>'
        for each, version in _DEPENDENCIES.items()
    )
    module = folder / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="lakescan" module="rest"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )
    ivy = ["java", "-cp", str(next(jars.glob("ivy-*.jar"))), "org.apache.ivy.Main", "-ivy", str(module)]
    resolved = folder / "classpath.txt"
    subprocess.run([*ivy, "-confs", "default", "-cachepath", str(resolved)], check=True, capture_output=True)
    found = [str(kept / Path(path).name) for path in _FIXTURES] + [resolved.read_text().strip()]
    return ":".join([*found, *map(str, jars.glob("hadoop-client-*.jar"))])


def _free_port() -> int:
    with socket.socket() as some:
        some.bind(("localhost", 0))
        return int(some.getsockname()[1])


def _wait(uri: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(uri, timeout=1).close()
            return
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.2)
    raise RuntimeError(f"the REST catalog did not start: {log.read_text()[-2000:]}")

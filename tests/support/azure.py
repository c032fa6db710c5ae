"""Azurite: Azure's blob storage in memory. Its containers have no hierarchical namespace."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from pyarrow import fs as pafs

from tests.support.stores import STORES, await_port, free_port, skip_without

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # Azurite's key


@contextmanager
def azure_server(container: str) -> Iterator[str]:
    """Start a server with a container and yield its authority (host and port)."""
    program = STORES / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    skip_without(program, "node")
    port = free_port()
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--silent"]
    process = subprocess.Popen([program, *options, "--skipApiVersionCheck"], stdout=subprocess.DEVNULL)
    authority = f"127.0.0.1:{port}"
    try:
        await_port(port)
        schemes = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
        hosts = {"blob_storage_authority": authority, "dfs_storage_authority": authority}
        pafs.AzureFileSystem(ACCOUNT, account_key=KEY, **hosts, **schemes).create_dir(container)
        yield authority
    finally:
        process.kill()
        process.wait()

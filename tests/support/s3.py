"""An S3 of moto's, in a thread of this process, for tests that need an object store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

KEY, SECRET, REGION = "some-access-key", "some-secret-key", "us-east-1"


@contextmanager
def s3_server(bucket: str) -> Iterator[str]:
    """A server with a bucket; its endpoint."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name=REGION
    )
    client.create_bucket(Bucket=bucket)
    try:
        yield endpoint
    finally:
        server.stop()

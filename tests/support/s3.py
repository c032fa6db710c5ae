"""moto's S3 in a thread of this process, for tests that need an object store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

KEY, SECRET, REGION = "some-access-key", "some-secret-key", "us-east-1"


@contextmanager
def s3_server(bucket: str, requests: list[str] | None = None) -> Iterator[str]:
    """Start a server with a bucket and yield its endpoint.

    Adds each request to `requests`: its method, path and query, and the first word of the user agent.
    """
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    if requests is not None:
        running: Any = server
        answer = running._server.app

        def noted(environ: dict[str, Any], start: Any) -> Any:
            client = environ.get("HTTP_USER_AGENT", "").split(" ")[0]
            query = environ.get("QUERY_STRING", "")
            requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{query} {client}")
            return answer(environ, start)

        running._server.app = noted
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

"""A catalog's signer of S3 requests, and an S3 proxy in front of moto that accepts only correctly signed requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.faulty_s3 import FaultyS3, answer, faulty_s3
from tests.support.s3 import KEY, REGION, SECRET

SIGNED_BY_NOBODY = b"<Error><Code>SignatureDoesNotMatch</Code><Message>not the signature</Message></Error>"


class Signer:
    """Signs all requests, except for headers in `unsigned`, as Iceberg's own server does."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.unsigned = {"range"}
        self.change: dict[str, Any] = {}  # overrides of answers, for a hostile signer

    def __call__(self, wanted: dict[str, Any]) -> dict[str, Any]:
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        class Unsigned(S3SigV4Auth):
            def payload(self, request: Any) -> str:
                return "UNSIGNED-PAYLOAD"

        self.asked.append(wanted)
        given = {name: ", ".join(values) for name, values in wanted["headers"].items()}
        signed = {name: value for name, value in given.items() if name.lower() not in self.unsigned}
        request = AWSRequest(wanted["method"], wanted["uri"], headers=signed)
        Unsigned(Credentials(KEY, SECRET), "s3", wanted["region"]).add_auth(request)
        headers = {name: [value] for name, value in {**given, **dict(request.headers.items())}.items()}
        return {"uri": wanted["uri"], "headers": headers, **self.change}


class SignedS3(FaultyS3):
    """Refuses requests without a valid signature while `checks` is set."""

    checks = True

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        if self.checks and not _is_right(handler):
            handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
            answer(handler, 403, {}, SIGNED_BY_NOBODY)
            return
        super().handle(handler)


def _is_right(handler: BaseHTTPRequestHandler) -> bool:
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    said = handler.headers.get("Authorization", "")
    if not said.startswith(f"AWS4-HMAC-SHA256 Credential={KEY}/") or "X-Amz-Date" not in handler.headers:
        return False
    names = said.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    url = f"http://{handler.headers['Host']}{handler.path}"
    request = AWSRequest(handler.command, url, headers={name: handler.headers.get(name, "") for name in names})
    request.context["timestamp"] = handler.headers["X-Amz-Date"]
    auth = S3SigV4Auth(Credentials(KEY, SECRET), "s3", REGION)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return said.endswith(f"Signature={auth.signature(text, request)}")


@contextmanager
def signed_s3(bucket: str) -> Iterator[tuple[str, SignedS3]]:
    """Start a server with a bucket; yield its endpoint and the object that decides on signatures and faults."""
    with faulty_s3(bucket, SignedS3) as (endpoint, state):
        assert isinstance(state, SignedS3)
        yield endpoint, state

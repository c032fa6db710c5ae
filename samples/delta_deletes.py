"""A small writer of Delta deletion vectors: commits them to a table that deltalake made."""

from __future__ import annotations

import json
import time
import uuid
import zlib
from pathlib import Path
from typing import Any

import pyroaring

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_FEATURES = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors", "appendOnly", "invariants"]}


def encode_z85(data: bytes) -> str:
    """Base85 in the Z85 alphabet, padded with zeros to a multiple of four bytes."""
    data = data + bytes(-len(data) % 4)
    text = []
    for i in range(0, len(data), 4):
        number = int.from_bytes(data[i : i + 4], "big")
        text.append("".join(_ALPHABET[number // 85**p % 85] for p in (4, 3, 2, 1, 0)))
    return "".join(text)


def _bitmap(positions: list[int]) -> bytes:
    return (1681511377).to_bytes(4, "little") + pyroaring.BitMap64(positions).serialize()


def stored_vector(table: Path, positions: list[int], prefix: str = "") -> dict[str, Any]:
    """Write a vector to a file of its own under the table; its descriptor (storage type u)."""
    name, body = uuid.uuid4(), _bitmap(positions)
    folder = table / prefix if prefix else table
    folder.mkdir(exist_ok=True)
    framed = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    (folder / f"deletion_vector_{name}.bin").write_bytes(b"\x01" + framed)
    encoded = prefix + encode_z85(name.bytes)
    return _descriptor("u", encoded, len(body), len(positions)) | {"offset": 1}


def inline_vector(positions: list[int]) -> dict[str, Any]:
    """The descriptor of a vector held in the log (storage type i)."""
    body = _bitmap(positions)
    return _descriptor("i", encode_z85(body), len(body), len(positions))


def _descriptor(kind: str, where: str, size: int, cardinality: int) -> dict[str, Any]:
    return {"storageType": kind, "pathOrInlineDv": where, "sizeInBytes": size, "cardinality": cardinality}


def commit_vectors(table: Path, vectors: dict[str, dict[str, Any]]) -> int:
    """Commit deletion vectors for files, by their path in the log; the new version."""
    log = table / "_delta_log"
    commits = sorted(log.glob("[0-9]" * 20 + ".json"))
    live: dict[str, dict[str, Any]] = {}
    protocol: dict[str, Any] = {}
    for line in (line for c in commits for line in c.read_text().splitlines()):
        action = json.loads(line)
        if "add" in action:
            live[action["add"]["path"]] = action["add"]
        elif "remove" in action:
            live.pop(action["remove"]["path"], None)
        protocol = action.get("protocol", protocol)
    features = {name: sorted({*protocol.get(name, ()), *own}) for name, own in _FEATURES.items()}
    version = int(commits[-1].stem) + 1
    now = int(time.time() * 1000)
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": now, "operation": "DELETE", "operationParameters": {"predicate": "[]"}}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
    ]
    for path, vector in vectors.items():
        add = live[path]
        old = {"path": path, "deletionTimestamp": now, "dataChange": True, "partitionValues": add["partitionValues"]}
        if "deletionVector" in add:
            old["deletionVector"] = add["deletionVector"]
        actions += [{"remove": old}, {"add": {**add, "deletionVector": vector, "dataChange": True}}]
    target = log / f"{version:020d}.json"
    target.write_text("\n".join(json.dumps(a) for a in actions) + "\n")
    return version

"""What S3 answers: headers and bytes, errors, and lists of keys, in XML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import unquote_plus
from xml.etree import ElementTree

MOST_TEXT = 64 * 2**20  # bytes of an answer in XML


@dataclass(frozen=True)
class S3Response:
    """What S3 answers; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class S3Object:
    """A key with its size in bytes and the time of its last modification."""

    key: str
    size: int
    modified: datetime


def keys_in(page: ElementTree.Element) -> list[S3Object]:
    """The keys of a page of a list; raises `OSError` for one that cannot be read."""
    decoded = _decoding(page)
    try:
        return [
            S3Object(
                decoded(text_in(each, "Key")),
                int(text_in(each, "Size")),
                datetime.fromisoformat(text_in(each, "LastModified")).replace(microsecond=0),
            )
            for each in all_in(page, "Contents")
        ]
    except ValueError as error:
        raise OSError(f"the store's list of keys cannot be read: {error}") from error


def prefixes_in(page: ElementTree.Element) -> list[str]:
    """The prefixes, up to the delimiter, of a page of a list."""
    decoded = _decoding(page)
    return [decoded(text_in(each, "Prefix")) for each in all_in(page, "CommonPrefixes")]


def _decoding(page: ElementTree.Element) -> Callable[[str], str]:
    return unquote_plus if text_in(page, "EncodingType") == "url" else str


def parse_error(answer: S3Response) -> tuple[str, str]:
    """The code and the message of an error, empty where there is none."""
    try:
        root = parse_xml(answer.data, "Error")
    except OSError:
        return "", ""
    return text_in(root, "Code"), text_in(root, "Message")


def parse_xml(data: bytes, name: str) -> ElementTree.Element:
    """The root of an answer, which has this name; raises `OSError` for what is no XML, or declares entities."""
    if len(data) > MOST_TEXT or b"<!" in data:
        raise OSError("the store's answer is no list in XML")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise OSError(f"the store's answer is no XML: {error}") from error
    if _name(root) != name:
        more = f" ({text_in(root, 'Code')}: {text_in(root, 'Message')})" if _name(root) == "Error" else ""
        raise OSError(f"the store's answer is no {name}{more}")
    return root


def _name(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


def all_in(node: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    """The members of a name."""
    return [each for each in node if _name(each) == name]


def text_in(node: ElementTree.Element, name: str) -> str:
    """The text of a member; empty if there is none."""
    return next((each.text or "" for each in node if _name(each) == name), "")

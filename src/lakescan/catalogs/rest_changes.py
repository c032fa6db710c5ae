"""What servers of earlier versions of the REST protocol need in a request that changes a table or view."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_ACTION = b'"add-schema"'
_LAST = "last-column-id"


def with_last_column_ids(body: Any) -> Any:
    """A request's body whose new schemas say `last-column-id`, or the body itself if none has to.

    The protocol lets clients leave it out since 2025, as pyiceberg does; servers before that refuse such a request.
    It is the table's, as the request requires it, or the highest id of the schema's fields.

    Example:
        >>> with_last_column_ids(b'{"updates": [{"action": "add-schema", "schema": {"fields": [{"id": 3}]}}]}')
        b'{"updates": [{"action": "add-schema", "schema": {"fields": [{"id": 3}]}, "last-column-id": 3}]}'
    """
    text = body.encode() if isinstance(body, str) else body
    if not isinstance(text, bytes) or _ACTION not in text:
        return body
    request = json.loads(text)
    for change in request.get("table-changes") or [request]:
        known = [each.get("last-assigned-field-id", 0) for each in change.get("requirements") or ()]
        for update in change.get("updates") or ():
            if update.get("action") == "add-schema" and _LAST not in update:
                update[_LAST] = max([0, *known, *_ids(update["schema"])])
    return json.dumps(request).encode()


def _ids(node: Any) -> Iterator[int]:
    """The ids of all fields in a schema or type as JSON, those inside of others, too."""
    if not isinstance(node, Mapping):
        return
    for name in ("id", "element-id", "key-id", "value-id"):
        if isinstance(found := node.get(name), int):
            yield found
    for field in node.get("fields") or ():
        yield from _ids(field)
    for name in ("type", "element", "key", "value"):
        yield from _ids(node.get(name))

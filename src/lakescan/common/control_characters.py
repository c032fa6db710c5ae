"""Characters that a terminal or a browser obeys, as escapes: names and values of tables may hold them."""

from __future__ import annotations

# Control characters but the end of a line and the tab, and those that turn the direction of text.
_OBEYED = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SHOWN = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _OBEYED}
_IN_JSON = {code: f"\\u{code:04x}" for code in _OBEYED}


def harmless(text: str) -> str:
    r"""The text with control characters as escapes (`\x1b`), so that they are shown and not obeyed."""
    return text.translate(_SHOWN)


def harmless_json(text: str) -> str:
    """JSON of the same value without control characters."""
    return text.translate(_IN_JSON)

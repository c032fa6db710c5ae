"""Escaping of characters that a terminal or a browser would interpret; names and values of tables may contain them."""

from __future__ import annotations

# Control characters except tab and line feed, and characters that change the direction of text.
_OBEYED = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SHOWN = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _OBEYED}
_IN_JSON = {code: f"\\u{code:04x}" for code in _OBEYED}


def harmless(text: str) -> str:
    r"""Replace control characters and characters that change the direction of text with escapes (`\x1b`).

    A terminal would obey the characters, and only prints the escapes. Tabs and line feeds stay.
    """
    return text.translate(_SHOWN)


def harmless_json(text: str) -> str:
    """Replace the characters that `harmless` replaces in JSON text with JSON escapes, which do not change its value."""
    return text.translate(_IN_JSON)

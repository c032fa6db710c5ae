"""A console that shows what a table says, and never obeys it: names and values may hold terminal sequences."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# Control characters but the end of a line and the tab, and those that turn the direction of text.
_OBEYED = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SHOWN = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _OBEYED}
_IN_JSON = {code: f"\\u{code:04x}" for code in _OBEYED}


def harmless(text: str) -> str:
    r"""The text with control characters as escapes (`\x1b`), so that a terminal shows them."""
    return text.translate(_SHOWN)


def harmless_json(text: str) -> str:
    """JSON of the same value without control characters."""
    return text.translate(_IN_JSON)


class TerminalConsole(Console):
    """A console whose texts are harmless; colours are its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)

"""Charts of pages, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH = 640


def columns_chart(values: Sequence[int], labels: Sequence[str], kind: str, hints: Sequence[str], top: str = "") -> str:
    """Draw a column for each value; `kind` is its CSS class, `hints` are shown where the mouse is."""
    height, base, left = 150, 120, 8
    step = (WIDTH / 2 - 2 * left) / len(values)
    largest = max(values) or 1
    every = max(1, math.ceil(len(values) / 6))
    parts = [f'<line class="axis" x1="0" y1="{base}" x2="{WIDTH / 2}" y2="{base}"/>']
    for i, (value, label, hint) in enumerate(zip(values, labels, hints, strict=True)):
        tall = (base - 18) * value / largest
        x, width = left + i * step, max(min(step * 0.8, 44), 1)
        offset = x + (step - width) / 2
        parts.append(
            f'<rect class="kept" x="{offset:.1f}" y="{base - tall:.1f}" width="{width:.1f}" height="{tall:.1f}" rx="2">'
            f"<title>{escape(hint)}</title></rect>"
        )
        if i % every == 0:
            parts.append(f'<text x="{x + step / 2:.1f}" y="{base + 18}" text-anchor="middle">{escape(label)}</text>')
    parts.append(f'<text class="muted" x="{left}" y="11">{escape(top or f"up to {largest:,}")}</text>')
    return f'<svg class="{kind}" viewBox="0 0 {WIDTH // 2} {height}" role="img">{"".join(parts)}</svg>'

"""Render a page in headless Chromium and return the position and size of each element."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_MEASURE = """<script>addEventListener("load", () => {
  const boxes = [...document.querySelectorAll("main *")].map(e => {
    const r = e.getBoundingClientRect();
    return {x: r.x, y: r.y, width: r.width, height: r.height, i: 0};
  });
  document.querySelectorAll("main *").forEach((e, i) => e.setAttribute("data-box", i));
  const out = document.createElement("pre");
  out.id = "measured";
  const chosen = SELECTORS.map(s => [s, [...document.querySelectorAll(s)].map(e => boxes[e.getAttribute("data-box")])]);
  out.textContent = JSON.stringify({width: innerWidth, boxes: Object.fromEntries(chosen)});
  document.body.append(out);
});</script>"""


@dataclass(frozen=True)
class Box:
    """The position and size of an element, in pixels."""

    x: float
    y: float
    width: float
    height: float


class Shapes:
    """The elements of a page; each selector is one run of the browser."""

    def __init__(self, page: Path, browser: str, width: int) -> None:
        self._page, self._browser, self._window = page, browser, width
        self.width = self._measure(["main"])["width"]

    def of(self, selector: str) -> list[Box]:
        """Return the elements that match a CSS selector, in document order."""
        found = self._measure([selector])["boxes"][selector]
        return [Box(b["x"], b["y"], b["width"], b["height"]) for b in found]

    def _measure(self, selectors: list[str]) -> dict:
        script = _MEASURE.replace("SELECTORS", json.dumps(selectors))
        copy = self._page.with_name("measured.html")
        copy.write_text(self._page.read_text().replace("</body>", script + "</body>"))
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={self._window},2000", "--dump-dom"]
        profile = f"--user-data-dir={self._page.parent / 'profile'}"
        run = subprocess.run(
            [self._browser, *flags, profile, copy.as_uri()], capture_output=True, text=True, timeout=120, check=True
        )
        found = re.search(r'<pre id="measured">(.*?)</pre>', run.stdout, re.DOTALL)
        assert found is not None, run.stdout[-2000:] + run.stderr[-2000:]
        return json.loads(unescape(found[1]))


def draw_page(page: Path, width: int = 1200) -> Shapes:
    """Render the page in a window of that width; skip the test without a browser."""
    browser = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser to draw the page with: none of {', '.join(_NAMES)} is installed")
    return Shapes(page, browser, width)

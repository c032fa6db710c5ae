"""A griffe extension for the site: griffe reads the source for the reference pages.

- An `Example:` of a docstring is code. griffe supports only the plural, `Examples:`; another heading becomes an
  admonition, where `>>>` is three quotations. So it is in the text of a docstring: there it becomes a block.
- Private base classes are not shown.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Readable(griffe.Extension):
    """Adapt docstrings and classes for the reference pages."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename each `Example:` heading to one that griffe reads as code, and turn code in the text into a block."""
        if obj.docstring:
            text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"^(>>> .*(?:\n.+)*)", r"```pycon\n\1\n```", text, flags=re.MULTILINE)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Remove private base classes."""
        cls.bases = [each for each in cls.bases if not str(each).rsplit(".")[-1].startswith("_")]

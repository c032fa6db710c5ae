"""What the site's build tells griffe, which reads the source for the reference.

- An `Example:` of a docstring is code. griffe knows the plural only, `Examples:`; another heading becomes an
  admonition, where `>>>` is three quotations. So it is in the text of a docstring: there it becomes a block.
- Private base classes are not shown.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Readable(griffe.Extension):
    """Make docstrings and classes ones that the reference shows as they are meant."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give each `Example:` the heading that griffe reads as code, and make code in the text a block."""
        if obj.docstring:
            text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"^(>>> .*(?:\n.+)*)", r"```pycon\n\1\n```", text, flags=re.MULTILINE)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Leave private bases out."""
        cls.bases = [each for each in cls.bases if not str(each).rsplit(".")[-1].startswith("_")]

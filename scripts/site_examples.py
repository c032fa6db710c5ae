"""What the site's build tells griffe: an `Example:` of a docstring is code.

griffe knows the plural only, `Examples:`; another heading becomes an admonition, where `>>>` is three quotations.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Give each `Example:` the heading that griffe reads as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change one docstring before it is read."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)

"""Plans for people: as text, in a terminal's colours, and as one self-contained HTML page.

manifests -> files -> splits -> groups -> rows
"""

from lakescan.explain.deleted_names import deleted_names
from lakescan.explain.page import plans_as_html, write_html
from lakescan.explain.text import plan_as_text, plan_for_terminal

__all__ = ["deleted_names", "plan_as_text", "plan_for_terminal", "plans_as_html", "write_html"]

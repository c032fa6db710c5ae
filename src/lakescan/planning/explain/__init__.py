"""Explanations of plans: as plain text, for the terminal with colours, and as a self-contained HTML page.

manifests -> files -> splits -> groups -> rows
"""

from lakescan.planning.explain.page import plans_as_html, write_html
from lakescan.planning.explain.text import PlanText, plan_as_text, plan_for_terminal

__all__ = ["PlanText", "plan_as_text", "plan_for_terminal", "plans_as_html", "write_html"]

"""Explanations of plans: as plain text, for the terminal with colours, and as a self-contained HTML page.

manifests -> files -> splits -> groups -> rows
"""

from lakescan.planning.explain.page import PlanText, plan_as_text, plan_for_terminal, plans_as_html, write_html

__all__ = ["PlanText", "plan_as_text", "plan_for_terminal", "plans_as_html", "write_html"]

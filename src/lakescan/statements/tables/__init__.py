"""Statements about tables, namespaces and views, run: what `lakescan.statements.syntax.grammar` parses."""

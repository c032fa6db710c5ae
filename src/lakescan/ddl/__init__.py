"""Statements about tables, namespaces and views, run: what `lakescan.grammar.statements` parses."""

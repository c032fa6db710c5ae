"""Run the statements about tables, namespaces and views that `lakescan.statements.syntax.grammar` parses."""

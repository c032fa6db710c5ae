"""Bytes guided by coverage: what a parser does with them decides which are changed next.

`make fuzz MINUTES=10` runs every target in turn; what it finds goes to `tests/fuzz/corpus`, and is run as a test from
then on.
"""

"""Filters: the predicate tree (`predicate`), its notations (`sql`, `codec`, `column`), binding and evaluation."""

"""Statements taken apart by their words: what they say, without running them."""

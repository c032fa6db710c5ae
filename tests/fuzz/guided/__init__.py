"""Coverage-guided fuzzing of the parsers.

`make fuzz MINUTES=10` runs every target in turn. Its findings are stored in `tests/fuzz/corpus` and run as tests from
then on.
"""

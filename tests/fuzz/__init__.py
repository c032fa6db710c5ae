"""Tables are damaged in every way that storage, writers and strangers damage them, and read in a process of their own.

`python -m tests.fuzz` runs as many cases as are asked for; `make fuzz-tables` is the long run. A case is
drawn from a seed and its name alone, so that it can be looked at again.
"""

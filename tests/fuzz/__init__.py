"""Tables damaged in every way that storage, writers and attackers can damage them, each read in a separate process.

`python -m tests.fuzz` runs the requested number of cases; `make fuzz-tables` is the long run. A case is drawn only from
the seed and its name, so that it can be reproduced.
"""

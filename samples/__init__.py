"""Tables for the demo, the tests and the benchmarks, made by other projects' writers where those can make them.

Deletes that no Python library writes (Iceberg position and equality deletes, deletion vectors of both formats) come
from the small writers here, which follow the specifications and share no code with the readers, but for the roaring
bitmaps' library.
"""

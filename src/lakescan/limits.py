"""How much is taken of one thing that a file says or holds, however small the file: what is more is refused.

Files may be damaged or hostile: a few bytes can say 2**60, or unpack to gigabytes. These limits are far beyond what
writers make. They are read when they are needed, so a program may raise one: `lakescan.limits.WHOLE_FILE = 4 * 2**30`.
"""

from __future__ import annotations

WHOLE_FILE = 2**30  # bytes of a file that is read at once: metadata, manifests, commits
VECTOR = 2**28  # bytes of a deletion vector: at its densest, one of two billion rows
FOOTER = 2**28  # bytes of a Parquet footer
ROWS_PER_BYTE = 4096  # rows of a Parquet file that are believed without a look at a column, a byte of the file
ROWS = 2**36  # rows of a data file of which nobody recorded how many it has
FILE_SIZE = 2**46  # bytes that a data file is taken to have at most, when work is divided
SPLITS = 2**13  # pieces that a file is cut into
AVRO_BLOCK = 2**28  # bytes that a block of an Avro file unpacks to; writers make some kilobytes
AVRO_FILE = 2**30  # bytes that all blocks of a manifest or manifest list unpack to
METADATA = 2**28  # bytes that table metadata unpacks to

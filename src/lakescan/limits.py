"""Limits on the sizes and counts that a file or a server may declare; exceeding one raises `LimitExceeded`.

Files may be damaged or hostile: a few bytes can declare a count of 2**60, or decompress to gigabytes. The limits are
far above the sizes that real writers produce. They are read at each use, so a program may raise one:
`lakescan.limits.WHOLE_FILE = 4 * 2**30`.
"""

from __future__ import annotations

WHOLE_FILE = 2**30  # bytes of a file that is read whole: metadata, manifests, commits
VECTOR = 2**28  # bytes of a deletion vector; enough for two billion rows at the densest encoding
FOOTER = 2**28  # bytes of a Parquet footer
ROWS_PER_BYTE = 4096  # rows per byte that a Parquet footer may claim before a column is read to check
ROWS = 2**36  # rows of a data file without a recorded row count
FILE_SIZE = 2**46  # bytes; larger recorded sizes of data files count as this when splits are planned
SPLITS = 2**13  # splits of one file
AVRO_BLOCK = 2**28  # decompressed bytes of one Avro block; writers produce some kilobytes
AVRO_FILE = 2**30  # decompressed bytes of all blocks of a manifest or manifest list
METADATA = 2**28  # decompressed bytes of table metadata
ANSWER = 2**28  # decompressed bytes of one response of a catalog server
PAGES = 10_000  # pages of one listing of a catalog server; a page has a hundred names or more
PLAN_TASKS = 10**5  # plan tasks of one scan planned by a catalog server; each costs a request
PARQUET_LEVELS = 100  # nesting levels of a Parquet schema with its root; pyarrow's default limit

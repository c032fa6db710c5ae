"""Steps of Delta tables only: OPTIMIZE, VACUUM, RESTORE, checkpoints, clustering, features."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as s

from interop.histories.steps import SAME, Make, Step, Steps
from interop.histories.values import LEAVES, SMALL, quoted


@dataclass
class DeltaSteps(Steps):
    """The steps of all tables, and Delta's own."""

    @property
    def leaves(self) -> list[s.DataType]:
        """Return the types that columns may have."""
        return LEAVES + SMALL

    def own(self) -> list[Make]:
        """Return steps for OPTIMIZE, VACUUM, RESTORE, checkpoints, clustering, features."""

        def same(*texts: str) -> Make:
            return lambda _: Step("", self.random.choice(texts), SAME)

        def restore(_: s.StructType) -> Step:
            number = self.random.randrange(max(1, self.states))
            return Step("", f"RESTORE TABLE {{t}} TO VERSION AS OF {number}", f"{SAME} VERSION AS OF {number}")

        def cluster(schema: s.StructType) -> Step:
            return Step(
                "", f"ALTER TABLE {{t}} CLUSTER BY ({self.random.choice([quoted(n) for n in schema.names])})", SAME
            )

        def zorder(schema: s.StructType) -> Step:
            return Step("", f"OPTIMIZE {{t}} ZORDER BY ({self.random.choice([quoted(n) for n in schema.names])})", SAME)

        def put(*pairs: str) -> Make:
            return lambda _: Step("", f"ALTER TABLE {{t}} SET TBLPROPERTIES ({self.random.choice(pairs)})", SAME)

        return [
            same("OPTIMIZE {t}"),
            same("REORG TABLE {t} APPLY (PURGE)"),
            same("VACUUM {t} RETAIN 168 HOURS", "VACUUM {t}"),
            same("CHECKPOINT"),
            same("CHECKPOINT"),
            restore,
            restore,
            cluster,
            zorder,
            put(
                "'delta.enableDeletionVectors' = 'true'",
                "'delta.enableDeletionVectors' = 'false'",
                "'delta.enableChangeDataFeed' = 'true'",
                "'delta.enableRowTracking' = 'true'",
                "'delta.checkpointPolicy' = 'v2'",
                "'delta.checkpointPolicy' = 'classic'",
                "'delta.enableTypeWidening' = 'true'",
                "'delta.columnMapping.mode' = 'name'",
                "'delta.enableInCommitTimestamps' = 'true'",
                "'delta.checkpoint.writeStatsAsStruct' = 'true'",
                "'delta.dataSkippingNumIndexedCols' = '2'",
            ),
        ]

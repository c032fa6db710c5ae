"""Random new tables: columns, layout and features."""

from __future__ import annotations

from random import Random

from pyspark.sql import types as s

from interop.histories.delta_steps import DeltaSteps
from interop.histories.iceberg_steps import IcebergSteps
from interop.histories.steps import Step, Steps
from interop.histories.values import NAMES, PLAIN, ddl, kind, quoted

_SWITCHES = {
    "delta.enableDeletionVectors": 0.5,
    "delta.enableChangeDataFeed": 0.5,
    "delta.enableRowTracking": 0.4,
    "delta.enableTypeWidening": 0.6,
    "delta.enableInCommitTimestamps": 0.2,
    "delta.checkpoint.writeStatsAsStruct": 0.2,
}


def steps_of(format: str, random: Random) -> Steps:
    """Return the step maker of a format."""
    return IcebergSteps(random) if format == "iceberg" else DeltaSteps(random)


def creation(random: Random, steps: Steps) -> Step:
    """Return a CREATE TABLE."""
    properties: dict[str, str] = {}
    if isinstance(steps, IcebergSteps):
        properties["format-version"] = random.choice("12233")
        for each in ("delete", "update", "merge"):
            if random.random() < 0.6:
                properties[f"write.{each}.mode"] = "merge-on-read"
        if random.random() < 0.3:
            properties["commit.manifest.min-count-to-merge"] = "2"
        if random.random() < 0.3:
            properties["write.delete.granularity"] = random.choice(["file", "partition"])
        if random.random() < 0.2:
            properties["write.object-storage.enabled"] = "true"
    else:
        mode = random.choice(["none", "name", "id", "name"])
        properties["delta.columnMapping.mode"] = mode
        steps.mapped = mode != "none"
        properties["delta.checkpointInterval"] = random.choice(["2", "3", "10"])
        properties["delta.checkpointPolicy"] = random.choice(["classic", "v2"])
        properties |= {name: "true" for name, chance in _SWITCHES.items() if random.random() < chance}
    names = random.sample(NAMES if steps.mapped else PLAIN, random.randint(2, 6))
    fields = [s.StructField("id", random.choice([s.IntegerType(), s.LongType()]))]
    fields += [s.StructField(name, kind(random, steps.leaves)) for name in names]
    schema = s.StructType(fields)
    by = ""
    if random.random() < 0.6:
        by = _layout(random, steps, schema)
    columns = ", ".join(f"{quoted(f.name)} {ddl(f.dataType)}" for f in fields)
    shown = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    engine, format = random.choice(["here", "jvm"]), "iceberg" if isinstance(steps, IcebergSteps) else "delta"
    return Step(engine, f"CREATE TABLE {{t}} ({columns}) USING {format} {by} TBLPROPERTIES ({shown})")


def _layout(random: Random, steps: Steps, schema: s.StructType) -> str:
    if isinstance(steps, IcebergSteps):
        found = {steps.transform(schema) for _ in range(random.randint(1, 2))}
        return f"PARTITIONED BY ({', '.join(sorted(found))})"
    flat = [f for f in schema.fields if not isinstance(f.dataType, s.StructType | s.ArrayType | s.MapType)]
    if random.random() < 0.4:
        usable = [f for f in flat if not isinstance(f.dataType, s.BinaryType | s.BooleanType)]
        return f"CLUSTER BY ({quoted(random.choice(usable).name)})"
    some = [f for f in flat if f.name != "id" and not isinstance(f.dataType, s.BinaryType)]
    chosen = random.sample(some, min(len(some), random.randint(1, 2)))
    return f"PARTITIONED BY ({', '.join(quoted(f.name) for f in chosen)})" if chosen else ""

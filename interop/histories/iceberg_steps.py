"""Steps of Iceberg tables only: specs, sort orders, branches and tags, time travel, procedures."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import types as s

from interop.histories.steps import SAME, Make, Step, Steps
from interop.histories.values import LEAVES, quoted


@dataclass
class IcebergSteps(Steps):
    """The steps of all tables, and Iceberg's own."""

    refs: list[str] = field(default_factory=list)

    @property
    def leaves(self) -> list[s.DataType]:
        """Return the types that columns may have."""
        return LEAVES

    def transform(self, schema: s.StructType) -> str:
        """Return a partition field in Iceberg's syntax."""
        leaves = [f for f in schema.fields if not isinstance(f.dataType, s.StructType | s.ArrayType | s.MapType)]
        column = self.random.choice(leaves)
        name = quoted(column.name)
        choices = [name]
        if not isinstance(column.dataType, s.BooleanType | s.FloatType | s.DoubleType):
            choices.append(f"bucket({self.random.choice([2, 4, 16])}, {name})")
        if isinstance(column.dataType, s.IntegerType | s.LongType | s.StringType | s.DecimalType | s.BinaryType):
            choices += [f"truncate({self.random.choice([1, 3, 10])}, {name})"] * 2
        if isinstance(column.dataType, s.DateType | s.TimestampType | s.TimestampNTZType):
            choices = [f"years({name})", f"months({name})", f"days({name})", name]
        if isinstance(column.dataType, s.TimestampType | s.TimestampNTZType):
            choices.append(f"hours({name})")
        return self.random.choice(choices)

    def own(self) -> list[Make]:
        """Return steps for specs, sort orders, branches and tags, states and procedures."""

        def call(text: str, expected: str | None = SAME) -> Make:
            return lambda _: Step("", f"CALL lake.system.{text}", expected)

        def chosen(*texts: str) -> Make:
            return lambda _: Step("", f"ALTER TABLE {{t}} {self.random.choice(texts)}", SAME)

        def ref(_: s.StructType) -> Step:
            kind = self.random.choice(["TAG", "BRANCH"])
            self.refs.append(f"{kind.lower()}{len(self.refs)}")
            old = f" AS OF VERSION {{state:{self.random.randrange(self.states)}}}" if self.states else ""
            return Step("", f"ALTER TABLE {{t}} CREATE {kind} {self.refs[-1]}{old}", SAME)

        def branched(schema: s.StructType) -> Step:
            names = [name for name in self.refs if name.startswith("branch")]
            if not names:
                return ref(schema)
            name = self.random.choice(names)
            where = self.where(schema)
            return Step("", self.random.choice([f"INSERT INTO {{t}}.branch_{name} {self.new_rows(schema)}",
                                                f"DELETE FROM {{t}}.branch_{name} WHERE {where}"]), SAME)  # fmt: skip

        def forward(_: s.StructType) -> Step:
            names = [name for name in self.refs if name.startswith("branch")] or ["none"]
            name = self.random.choice(names)
            return Step("", f"CALL lake.system.fast_forward('{{call}}', 'main', '{name}')")

        def state(_: s.StructType) -> Step:
            number = self.random.randrange(max(1, self.states))
            name = self.random.choice(["rollback_to_snapshot", "set_current_snapshot"])
            return Step(
                "",
                f"CALL lake.system.{name}('{{call}}', {{state:{number}}})",
                f"{SAME} VERSION AS OF {{state:{number}}}",
            )

        def expire(_: s.StructType) -> Step:
            keep = self.random.randint(1, 4)
            return Step("", "CALL lake.system.expire_snapshots(table => '{call}', older_than => TIMESTAMP "
                        f"'2100-01-01 00:00:00', retain_last => {keep})", SAME)  # fmt: skip

        def spec(schema: s.StructType) -> Step:
            return Step("", f"ALTER TABLE {{t}} ADD PARTITION FIELD {self.transform(schema)}", SAME)

        def unspec(schema: s.StructType) -> Step:
            return Step("", f"ALTER TABLE {{t}} DROP PARTITION FIELD {self.transform(schema)}", SAME)

        def order(schema: s.StructType) -> Step:
            return Step("", f"ALTER TABLE {{t}} WRITE ORDERED BY {self.transform(schema)} DESC", SAME)

        everything = "options => map('rewrite-all', 'true')"
        modes = [f"SET TBLPROPERTIES ('write.{each}.mode' = '{mode}')" for each in ("delete", "update", "merge")
                 for mode in ("merge-on-read", "copy-on-write")]  # fmt: skip
        return [
            spec,
            spec,
            unspec,
            order,
            ref,
            branched,
            branched,
            forward,
            state,
            state,
            expire,
            chosen(*modes),
            chosen(*modes),
            chosen("SET TBLPROPERTIES ('format-version' = '2')", "SET TBLPROPERTIES ('format-version' = '3')"),
            call(f"rewrite_data_files(table => '{{call}}', {everything})"),
            call("rewrite_data_files(table => '{call}')"),
            call(
                "rewrite_data_files(table => '{call}', strategy => 'sort', sort_order => 'id DESC', "
                "options => map('rewrite-all', 'true'))"
            ),
            call("rewrite_manifests('{call}')"),
            call(f"rewrite_position_delete_files(table => '{{call}}', {everything})"),
        ]

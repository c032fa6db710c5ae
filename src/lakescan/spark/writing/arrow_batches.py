"""Pass rows to Python in record batches that are bounded by their number of records instead of by measured bytes.

Spark 4.1 and later measure a batch after each row, to end it at `spark.sql.execution.arrow.maxBytesPerBatch`. This
takes longer than converting the rows. Here, a number of records bounds the batch instead. It is small enough for rows
of fixed width to stay within the limit of bytes. A row that is wider than its share of the limit is followed by
fillers: empty rows, one per additional share, which Python drops. So no batch is larger than one that Spark measures,
which has at most the limit and one row.

The session's settings are not changed. Local properties of the thread lift Spark's limit for the jobs of one action.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.spark.optimizer_rules import elements, install_rule
from lakescan.spark.session import conf, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakescan.spark.writing.row_widths import RowWidth

    Batches = Iterator[pa.RecordBatch]

T = TypeVar("T")

BYTES, RECORDS = (f"spark.sql.execution.arrow.max{each}PerBatch" for each in ("Bytes", "Records"))
_FIELDS, _COMPILES = "spark.sql.codegen.maxFields", "spark.sql.codegen.wholeStage"
_UNLIMITED = 2**31 - 1
_DEFAULT_BYTES, _DEFAULT_RECORDS = 64 * 2**20, 10_000  # Spark's defaults
_DEFAULT_FIELDS = 100  # Spark's default
PIECE = "__lakescan_piece"


@dataclass(frozen=True)
class BatchLimits:
    """The limits of a session's batches.

    - `bytes`, `records`: the maximum bytes and records of a batch.
    - `is_lowered`: whether a single action may have fewer records per batch.
    - `fields`: the largest number of fields of a plan that Spark compiles.
    """

    bytes: int = _DEFAULT_BYTES
    records: int = _DEFAULT_RECORDS
    is_lowered: bool = True
    fields: int = _DEFAULT_FIELDS


@dataclass(frozen=True)
class BatchBound:
    """The maximum number of records of a batch, including fillers: empty rows after a wide row, which Python drops.

    `pieces` is SQL for an array with 0 for a row and further numbers for its fillers; None if rows need no fillers.
    """

    records: int
    pieces: str | None = None


def batch_bound(width: RowWidth | None, limits: BatchLimits) -> BatchBound | None:
    """Compute a number of records that keeps batches within the bytes of batches that Spark measures.

    Args:
        width: The bytes of a row; None if unknown.
        limits: The limits that the session sets.

    Returns:
        The bound; None if Spark has to measure batches.
    """
    if width is None or limits.records <= 0:
        return None
    if width.variable and width.fields >= limits.fields:
        return None  # in a plan that is not compiled, Spark copies a wide row for each filler
    share = max(limits.bytes // limits.records, 1)
    # If fixed columns alone take most of a share, use fewer records per batch: else every row would need fillers.
    needed = max(2 * width.fixed if width.variable else width.fixed, 1)
    if needed > share and not limits.is_lowered:
        return None
    share = max(needed, share)
    records = min(limits.records, max(limits.bytes // share, 1))
    if not width.variable:
        return BatchBound(records)
    more = " + ".join(width.variable)
    fillers = f"CAST(least(({more} + {width.fixed - 1}L) DIV {share}L, {records}L) AS INT)"
    return BatchBound(
        records, f"CASE WHEN {more} > {share - width.fixed}L THEN sequence(0, {fillers}) ELSE array(0) END"
    )


class ArrowTransfer:
    """Passes a frame's rows to Python in one action, in batches that are bounded by records if possible.

    Otherwise Spark measures their bytes, also if the frame has Python functions of other libraries, whose batches
    nothing else would bound. Set `sets_properties_last` for a job whose local properties override its session's
    settings.
    """

    def __init__(self, frame: DataFrame, *, sets_properties_last: bool = False) -> None:
        self._spark = frame.sparkSession
        limits = _limits(self._spark)
        if limits is not None and sets_properties_last:
            limits = replace(limits, is_lowered=True)
        is_bounded = limits is not None and batch_bound(_width(frame), limits) is not None
        self._limits = limits if is_bounded and not _may_run_functions(frame) else None
        self._records = _UNLIMITED

    @property
    def properties(self) -> Mapping[str, int] | None:
        """The local properties (names and values) that lift Spark's limit of bytes; None if Spark measures the rows."""
        return None if self._limits is None else {BYTES: _UNLIMITED, RECORDS: self._records}

    def map_in_arrow(self, frame: DataFrame, work: Callable[[Batches], Batches], schema: str) -> DataFrame:
        """Apply `work` as `frame.mapInArrow` does, also for column names with dots (struct members for PySpark).

        Start the action by `run`, so that its batches are bounded.

        Args:
            frame: The rows, or a frame derived from them.
            work: Maps the batches of a task. Their columns have the names of the frame.
            schema: The columns of the result.
        """
        filled = self.add_fillers(frame)
        fields, has_fillers = [(field.name, field.nullable) for field in frame.schema.fields], filled is not None

        def lakescan_rows(batches: Batches) -> Batches:
            return work(drop_fillers(batches, fields, has_fillers=has_fillers))

        plain = frame if filled is None else filled
        return plain.toDF(*(f"c{n}" for n in range(len(plain.columns)))).mapInArrow(lakescan_rows, schema)

    def add_fillers(self, frame: DataFrame) -> DataFrame | None:
        """Return the frame with fillers after wide rows, and a last column that is 0 for rows.

        None if rows need no fillers, or if Spark has to measure them.
        """
        from pyspark.sql import functions as F

        width = _width(frame)
        bound = None if self._limits is None else batch_bound(width, self._limits)
        if bound is None or width is None:
            self._limits = None
            return None
        self._records = min(self._records, bound.records)
        if bound.pieces is None:
            return None
        names = _names(frame)
        pieced = frame.toDF(*names).select("*", F.expr(f"explode({bound.pieces})").alias(PIECE))
        is_row = F.col(PIECE) == 0
        columns = [F.when(is_row, F.col(name)) if n in width.columns else F.col(name) for n, name in enumerate(names)]
        return pieced.select(*columns, F.col(PIECE)).toDF(*frame.columns, PIECE)

    def run(self, frame: DataFrame, action: Callable[[DataFrame], T]) -> T:
        """Run an action on a frame that `map_in_arrow` returned, or on one derived from it."""
        if self.properties is None:
            return action(frame)
        with _local_properties(self._spark, self.properties):
            return action(frame)


def _limits(spark: SparkSession) -> BatchLimits | None:
    """Return a session's limits; None if it sets the bytes itself, or if a single action's batches cannot be bounded.

    That is so on Connect, and without pinned threads, as other threads would also have the local properties. These do
    not override settings of the session.
    """
    if is_connect(spark) or os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        return None
    if conf(spark, BYTES) is not None:
        return None
    records, fields = conf(spark, RECORDS), int(conf(spark, _FIELDS) or _DEFAULT_FIELDS)
    if (conf(spark, _COMPILES) or "true").lower() != "true":
        fields = 0
    if records is None:
        return BatchLimits(fields=fields)
    return BatchLimits(records=int(records), is_lowered=False, fields=fields)


def _may_run_functions(frame: DataFrame) -> bool:
    try:
        return runs_python_functions(frame)
    except Exception:  # from py4j: a Spark with other classes
        return True


@contextmanager
def _local_properties(spark: SparkSession, properties: Mapping[str, int]) -> Iterator[None]:
    """Context manager: set local properties for the jobs of this thread; settings of the session override them."""
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in properties}
    try:
        for name, value in properties.items():
            context.setLocalProperty(name, str(value))
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)


def _names(frame: DataFrame) -> list[str]:
    return [f"c{n}" for n in range(len(frame.columns))]


def _width(frame: DataFrame) -> RowWidth | None:
    from lakescan.spark.writing.row_widths import row_width

    return row_width([field.dataType for field in frame.schema.fields], _names(frame))


def drop_fillers(batches: Batches, fields: Sequence[tuple[str, bool]], *, has_fillers: bool) -> Batches:
    """Yield the rows of batches without fillers and their last column, with the names of the columns.

    Args:
        batches: The batches as Spark passes them to a task.
        fields: The name of each column, and whether it is nullable. With fillers, all columns of a batch are nullable.
        has_fillers: Whether there are fillers, and a last column that is 0 for rows.
    """
    for batch in batches:
        rows = batch
        if has_fillers:
            piece = batch.column(batch.num_columns - 1)
            if pc.max(piece).as_py():
                rows = batch.filter(pc.equal(piece, 0))
                if not rows.num_rows:
                    continue
        named = [
            field.with_name(name).with_nullable(nullable)
            for field, (name, nullable) in zip(batch.schema, fields, strict=False)
        ]
        yield pa.RecordBatch.from_arrays(rows.columns[: len(fields)], schema=pa.schema(named))


OWN = "lakescan_"  # the prefix of the names of lakescan's own functions
_PICKLED = (100, 300)  # eval types of UDFs and UDTFs that get rows one by one
_MOST_RDDS = 200
_PLANS = "org.apache.spark.sql.catalyst"
_NAMES = ("Arrow", "Pandas", "Python")


def runs_python_functions(frame: DataFrame) -> bool:
    """Return whether a job of a classic frame may run other libraries' Python functions that get Arrow batches.

    Functions in subqueries, and in the RDDs below a frame, also count. Raises py4j's errors if this Spark has other
    classes.
    """
    return any(_runs_functions(leaf) for leaf in elements(_plan(frame).collectLeaves())) or _has_function(
        frame, _plan(frame)
    )


def _plan(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _has_function(frame: Any, plan: Any) -> bool:
    patterns: Any = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    searched = [patterns.PYTHON_UDF(), patterns.GENERATOR(), patterns.GENERATE()]
    is_a = frame.sparkSession.sparkContext._gateway.jvm.py4j.reflection.TypeUtil.isInstanceOf
    nodes = [plan]
    while nodes:
        node = nodes.pop()
        if not any(node.containsPattern(each) for each in searched):
            continue
        name = node.getClass().getSimpleName()
        if name in ("PythonUDF", "PythonUDTF"):
            if node.evalType() not in _PICKLED and not node.name().startswith(OWN):
                return True
        elif is_a(f"{_PLANS}.expressions.PlanExpression", node):
            nodes.append(node.plan())
        if is_a(f"{_PLANS}.plans.QueryPlan", node):
            nodes += elements(node.expressions())
        nodes += elements(node.children())
    return False


def _runs_functions(leaf: Any) -> bool:
    """Return whether Python functions that get Arrow batches make the rows of a plan's leaf.

    A leaf is an RDD (as of a stream's batch) or a cached frame. True if there are too many RDDs to check.
    """
    kind = leaf.getClass().getSimpleName()
    if kind == "InMemoryRelation":
        plan = leaf.cacheBuilder().cachedPlan().toString()
        return any(name in plan for name in _NAMES)
    if kind not in ("LogicalRDD", "ExternalRDD"):
        return False
    rdds, seen = [leaf.rdd()], set()
    while rdds:
        rdd = rdds.pop()
        if rdd.id() in seen:
            continue
        seen.add(rdd.id())
        scope = rdd.scope()
        if len(seen) > _MOST_RDDS or (scope.isDefined() and any(name in scope.get().name() for name in _NAMES)):
            return True
        rdds += [dependency.rdd() for dependency in elements(rdd.dependencies())]
    return False


# Spark itself plans `df.write`, so no code of lakescan runs around its job. The rule (`Writes.java`, compiled by
# Spark's own Janino) wraps the write of a Python data source: the job gets local properties that lift Spark's limit,
# and rows get their fillers. A write that the rule does not recognize is left as it is, and Spark measures.

_LOG = logging.getLogger("lakescan")


def bound_writes(spark: SparkSession) -> None:
    """Install the rule that bounds the batches of `df.write` in a classic session, once.

    If that is not possible, and on Connect, Spark measures rows.
    """
    if is_connect(spark):
        return
    try:
        install_rule(
            spark, Path(__file__).with_name("Writes.java"), "lakescan.Writes$Rule", lambda: _WriteRuleAnswers(spark)
        )
    except Exception:  # from Java, py4j, or a vendor's Spark
        _LOG.debug("rows of df.write are measured: the optimizer rule cannot be installed", exc_info=True)


class _WriteRuleAnswers:
    """Answers the rule of `bound_writes` with the properties of a write's job, and its rows with fillers if needed."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext

    def apply(self, request: Any) -> Any:
        """Return properties and plan for a write as a Java map; None leaves the write as it is."""
        try:
            return self._bound_batches(request)
        except Exception:  # a Spark that differs from the tested versions
            _LOG.debug("the rows of a write are measured", exc_info=True)
            return None

    def _bound_batches(self, request: Any) -> Any:
        from pyspark.sql import DataFrame, SparkSession

        jvm, session = self._context._jvm, request["session"]
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, request["query"])
        frame: Any = DataFrame(rows, SparkSession(self._context, session))
        handed = ArrowTransfer(frame, sets_properties_last=True)
        filled = handed.add_fillers(frame)
        if handed.properties is None:
            return None
        answer, properties = jvm.java.util.HashMap(), jvm.java.util.HashMap()
        for name, value in handed.properties.items():
            properties.put(name, str(value))
        answer.put("properties", properties)
        if filled is not None:
            answer.put("query", filled._jdf.queryExecution().optimizedPlan())
            answer.put("piece", PIECE)
        return answer

    class Java:
        implements = ("java.util.function.Function",)

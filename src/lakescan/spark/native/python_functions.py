"""Finding the Python functions of a frame that get rows in Arrow batches: UDFs, `mapInArrow`, `applyInPandas`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakescan.spark.native.optimizer_rules import elements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OWN = "lakescan_"  # the names of lakescan's own functions begin so
_PICKLED = (100, 300)  # UDFs and UDTFs that get rows one by one
_MOST_RDDS = 200
_PLANS = "org.apache.spark.sql.catalyst"
_NAMES = ("Arrow", "Pandas", "Python")


def runs_python_functions(frame: DataFrame) -> bool:
    """Return whether a job of a classic frame may run Python functions of others that get Arrow batches.

    Functions in subqueries, and those below a frame's RDD, count too. Raises whatever py4j raises if this Spark has
    other classes.
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
    """Whether functions make the rows of a leaf of a plan: an RDD, such as a batch of a stream, or a cached frame."""
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

"""`df.write.format(...)` of classic sessions: a rule of Spark's optimizer bounds the batches that tasks get.

Spark plans such a write by itself, so nothing of lakescan's runs around its job. The rule (`Writes.java`, compiled by
the Janino that Spark has) wraps the write of a Python data source: the job gets local properties that lift Spark's
limit, and rows get their fillers. Where something is not understood, the write stays as it is, and Spark measures.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakescan.spark.native.optimizer_rules import install_rule
from lakescan.spark.session import is_connect
from lakescan.spark.writing.arrow_batches import PIECE, ArrowTransfer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakescan")


def bound_writes(spark: SparkSession) -> None:
    """Install the rule in a classic session, unless it is there. Spark measures rows where that is not possible."""
    if is_connect(spark):
        return
    try:
        install_rule(
            spark, Path(__file__).with_name("Writes.java"), "lakescan.Writes$Rule", lambda: _WriteRuleAnswers(spark)
        )
    except Exception:  # of Java, py4j, or a vendor's Spark
        _LOG.debug("rows of df.write are measured: the optimizer rule cannot be installed", exc_info=True)


class _WriteRuleAnswers:
    """Answers the rule: the properties of a write's job, and its rows with fillers; None to leave the write."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext

    def apply(self, request: Any) -> Any:
        """Bound the batches of a write."""
        try:
            return self._bound_batches(request)
        except Exception:  # a Spark that differs from what was tried
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

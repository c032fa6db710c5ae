"""Every table of the corpus, read in process and on Spark, gives the rows of the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import Row, VariantVal

import lakescan
from tests.conftest import corpus_folder
from tests.corpus.cases import Case, all_cases, ratchet_names
from tests.support.rows import differences, with_variants_decoded

pytestmark = pytest.mark.skipif(corpus_folder() is None, reason="no corpus: set LAKESCAN_CORPUS to its folder")
CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_case_is_read_in_process(case: Case) -> None:
    check(case, "local", lambda: scan(case).to_arrow())


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_case_is_read_on_spark(case: Case, spark) -> None:
    check(case, "spark", lambda: collected(scan(case).to_spark(spark), case))


def test_the_ratchet_names_only_cases_of_the_corpus() -> None:
    assert ratchet_names() <= {case.name for case in CASES}


def scan(case: Case) -> lakescan.Scan:
    return lakescan.table(case.location, format=case.format, relocate=case.relocate).scan()


def collected(frame: Any, case: Case) -> pa.Table:
    """Collect a data frame's rows. Variants are collected as objects: Spark's Arrow collection refuses null ones."""
    if "variant" not in frame.schema.json():
        return frame.toArrow()
    expected = case.expected
    if expected is None:  # Spark cannot show every variant that it can carry
        frame.write.format("noop").mode("overwrite").save()  # reads all rows; a count may be answered from metadata
        return pa.table({"row": range(frame.count())})
    rows = [plain(row.asDict()) for row in frame.collect()]
    return pa.Table.from_pylist(rows, schema=with_variants_decoded(expected).schema)


def plain(value: Any) -> Any:
    """Convert a collected value: variants to the text of their values, maps to pairs."""
    match value:
        case VariantVal():
            return str(value.toPython())
        case Row():
            return {k: plain(v) for k, v in value.asDict().items()}
        case list():
            return [plain(v) for v in value]
        case dict():
            return {
                k: [(x, plain(y)) for x, y in v.items()] if isinstance(v, dict) else plain(v) for k, v in value.items()
            }
    return value


def check(case: Case, engine: str, read: Callable[[], pa.Table]) -> None:
    """Check that the case passes, or that it fails and the ratchet lists it. A listed case that passes is an error."""
    problem = find_problem(case, read)
    reason = case.reason_not_passing(engine)
    if reason is None:
        assert not problem, problem
    elif problem:
        pytest.xfail(f"in the ratchet: {reason}")
    else:
        pytest.fail(f"{case.name} passes ({engine}): take it out of ratchet.json")


def find_problem(case: Case, read: Callable[[], pa.Table]) -> str:
    """Describe how the rows read differ from the expected ones; empty if they agree."""
    expected_error = case.error
    try:
        actual = read()
    except Exception as error:  # any error: it is compared with the expected one
        text = f"{type(error).__name__}: {error}"
        return "" if expected_error is not None and expected_error.__name__ in text else text
    if expected_error is not None:
        return f"{actual.num_rows} rows instead of {expected_error.__name__}"
    expected = case.expected
    if expected is not None:
        return differences(with_variants_decoded(actual), with_variants_decoded(expected))
    return "" if actual.num_rows == case.row_count else f"{actual.num_rows} rows instead of {case.row_count}"

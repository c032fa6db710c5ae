"""Write Spark's answers to the examples of its own functions.

`tests/statements/select/test_function_examples.py` compares them.

Run it with the project's environment: `.venv/bin/python scripts/spark_function_examples.py`. It takes two minutes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as s

TARGET = Path(__file__).parent.parent / "tests" / "query" / "function_examples.json"
_EXAMPLE = re.compile(r"^\s*> (.*?;)\s*$", re.MULTILINE | re.DOTALL)


def examples(spark: SparkSession) -> list[tuple[str, str]]:
    """Return the functions of a session, each with the example statements of its description."""
    found = []
    for [name] in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        described = "\n".join(row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect())
        for example in _EXAMPLE.finditer(described.partition("Examples:")[2]):
            text = example[1].strip().rstrip(";")
            if not text.upper().startswith("SET"):
                found.append((name, text))
    return found


def answer(spark: SparkSession, text: str) -> dict[str, Any]:
    """Return the types and rows of a statement's result, or the kind of its error."""
    try:
        frame = spark.sql(text)
        table = frame.toArrow()
    except Exception as error:
        condition = re.match(r"\[([A-Z_.0-9]+)\]", str(error))
        return {"error": condition[1] if condition else type(error).__name__}
    rows = [[repr(column[n].as_py()) for column in table.columns] for n in range(table.num_rows)]
    return {"types": [_name(field.dataType) for field in frame.schema], "rows": rows}


def _name(kind: s.DataType) -> str:
    return re.sub(r"interval (day|hour|minute|second)( to \w+)?", "interval", kind.simpleString())


def main() -> None:
    """Run the examples on Spark and write the file."""
    builder = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    found = [{"function": name, "sql": text, **answer(spark, text)} for name, text in examples(spark)]
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in found)
    TARGET.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()

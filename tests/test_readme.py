"""The README's code runs, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.spark
def test_the_readmes_python_and_sql_run(spark, shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    (sql,) = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    here = python.replace("/lake/shop/orders", shop.orders).replace("/lake/customers", shop.customers)
    here = here.replace("/lake/local", f"{tmp_path}/local").replace("/lake/checkpoint", f"{tmp_path}/checkpoint")
    names: dict[str, Any] = {"spark": spark}
    exec(compile(here, "README.md", "exec"), names)
    assert names["table"].num_rows == names["frame"].count() > 0
    assert "files by partition" in capsys.readouterr().out
    spark.sql(sql.replace("/lake/shop/orders", shop.orders).replace("TEMPORARY", "OR REPLACE TEMPORARY"))
    assert spark.table("orders").count() == names["orders"].scan().to_arrow().num_rows


def test_importing_lakescan_brings_neither_spark_nor_pandas() -> None:
    import subprocess
    import sys

    heavy = (
        "[m for m in ('pyspark', 'pandas', 'polars', 'deltalake', 'pyiceberg', 'rich', 'sqlglot') if m in sys.modules]"
    )
    script = f"import sys, lakescan; lakescan.spark.register; print({heavy})"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

"""The steps as assets of Dagster, one partition per day: `dagster dev -f dagster_jobs.py`."""

import os
from datetime import date
from pathlib import Path

import dagster
import steps

FOLDER = Path(os.environ.get("LAKE_FOLDER", "orchestrated-data"))
DAYS = dagster.DailyPartitionsDefinition(start_date="2026-01-01")
# A conflict with another writer is retried: each step reads the newest state again.
AGAIN = dagster.RetryPolicy(max_retries=3, delay=10)


@dagster.asset(partitions_def=DAYS, retry_policy=AGAIN)
def sales(context: dagster.AssetExecutionContext) -> dagster.MaterializeResult:
    """Load the sales of a day."""
    return dagster.MaterializeResult(metadata=steps.load(FOLDER, date.fromisoformat(context.partition_key)))


@dagster.asset(partitions_def=DAYS, retry_policy=AGAIN, deps=[sales])
def totals(context: dagster.AssetExecutionContext) -> dagster.MaterializeResult:
    """Compute the totals of a day by country."""
    return dagster.MaterializeResult(metadata=steps.total(FOLDER, date.fromisoformat(context.partition_key)))


@dagster.asset(retry_policy=AGAIN)
def maintenance() -> dagster.MaterializeResult:
    """Maintain both tables."""
    return dagster.MaterializeResult(metadata=steps.mend(FOLDER))


definitions = dagster.Definitions(
    assets=[sales, totals, maintenance],
    schedules=[
        dagster.build_schedule_from_partitioned_job(
            dagster.define_asset_job("daily", [sales, totals], partitions_def=DAYS), hour_of_day=2
        ),
        dagster.ScheduleDefinition(
            "weekly", job=dagster.define_asset_job("mend", [maintenance]), cron_schedule="0 4 * * 0"
        ),
    ],
)

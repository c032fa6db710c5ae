"""The steps as tasks of Airflow 3, one run per day: put this folder into Airflow's `dags_folder`."""

import os
from datetime import date, datetime, timedelta
from pathlib import Path

import steps
from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

FOLDER = Path(os.environ.get("LAKE_FOLDER", Path(__file__).parent / "orchestrated-data"))
# A conflict with another writer is retried: each step reads the newest state again.
AGAIN = {"retries": 3, "retry_delay": timedelta(seconds=10)}
START = datetime(2026, 1, 1)


# At two o'clock, for the day before: `ds` is the first day of the run's interval.
@dag(schedule=CronDataIntervalTimetable("0 2 * * *", "UTC"), start_date=START, catchup=False, default_args=AGAIN)
def daily_sales():
    """Load the sales of a day, then its totals."""

    @task
    def sales(ds: str):
        return steps.load(FOLDER, date.fromisoformat(ds))

    @task
    def totals(ds: str):
        return steps.total(FOLDER, date.fromisoformat(ds))

    sales() >> totals()


@dag(schedule="0 4 * * 0", start_date=START, catchup=False, default_args=AGAIN)
def weekly_maintenance():
    """Maintain both tables."""

    @task
    def maintenance():
        return steps.mend(FOLDER)

    maintenance()


DAYS, WEEKS = daily_sales(), weekly_maintenance()

"""The commands `run` and `check`, for jobs that were written for the JARs of Iceberg and Delta."""

from __future__ import annotations

from typing import Annotated

import typer

from lakescan.cli.job import USAGE, parse_run, run_job
from lakescan.cli.settings import Section

app: Section = Section("Jobs")


@app.command(
    "run",
    rich_help_panel=app.title,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="",
)
def run_command(
    context: typer.Context,
    job: Annotated[
        list[str] | None, typer.Argument(metavar="JOB.py | -m MODULE | NOTEBOOK.ipynb [ARGUMENTS]...", help="The job.")
    ] = None,
) -> None:
    """Run a PySpark job that was written for the JARs of Iceberg or Delta, unchanged and without the JARs.

    The job runs as with `python JOB.py ARGUMENTS`: arguments that begin with `-` are the job's own.
    """
    found = parse_run([*(job or ()), *context.args]) if job or context.args else None
    if found is None:
        raise typer.BadParameter(USAGE)
    run_job(found)

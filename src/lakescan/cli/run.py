"""The commands `run` and `check`, for jobs that were written for the JARs of Iceberg and Delta."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakescan.cli.job import USAGE, parse_run, run_job
from lakescan.cli.output import console, print_json
from lakescan.cli.settings import Section, command, wants_json

if TYPE_CHECKING:
    from lakescan.cli.script_check import Finding

app: Section = Section("Jobs")


@app.command(
    "run",
    rich_help_panel=app.title,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="",
)
def run_command(
    job: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB ARGUMENTS",
            help="A script, a notebook, or -m and a module. Then the arguments of the job, which may begin with -.",
        ),
    ] = None,
) -> None:
    """Run a PySpark job that was written for the JARs of Iceberg or Delta, unchanged and without the JARs.

    The job runs as with `python JOB ARGUMENTS`.
    """
    found = parse_run(job) if job else None
    if found is None:
        raise typer.BadParameter(USAGE)
    run_job(found)


@command(app, "check", opens=False)
def check_command(
    job: Annotated[str, typer.Argument(metavar="JOB.py", help="A script or a notebook.")],
    problems: Annotated[bool, typer.Option("--problems", help="Leave out the lines that work.")] = False,
) -> None:
    """List what a job for the JARs will do with lakescan, line by line, without running it.

    Exits with 1 if something is refused.
    """
    from lakescan.cli.script_check import DIFFERS, REFUSED, UNCLEAR, WORKS, check_script
    from lakescan.cli.script_reader import read_script

    found = check_script(read_script(job))
    shown = [each for each in found if not problems or each.outcome != WORKS]
    if wants_json():
        for each in shown:
            print_json({"file": job, **asdict(each)})
    else:
        _show(job, shown)
        counts = {name: sum(each.outcome == name for each in found) for name in (WORKS, DIFFERS, UNCLEAR, REFUSED)}
        console.print(_summary(counts), soft_wrap=True)
    if any(each.outcome == REFUSED for each in found):
        raise typer.Exit(1)


def _show(job: str, findings: "Sequence[Finding]") -> None:
    colours = {"works": "green", "differs": "yellow", "unclear": "yellow", "refused": "red"}
    for each in findings:
        cell = "" if each.cell is None else f"[cell {each.cell}]"
        detail = f"  {each.detail}" if each.detail else ""
        outcome = (f"{each.outcome:<8}", colours[each.outcome])
        console.print(
            Text.assemble(f"{job}{cell}:{each.line}: ", outcome, f" {each.subject}", (detail, "dim")), soft_wrap=True
        )


def _summary(counts: Mapping[str, int]) -> str:
    if not any(counts.values()):
        return "nothing in this script concerns Iceberg or Delta tables"
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)

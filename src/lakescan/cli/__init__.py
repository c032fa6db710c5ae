"""The entry point of the `lakescan` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. If libraries of the command line are missing, exit with the advice to install them."""
    if "run" in sys.argv:
        from lakescan.cli.job import parse_job, run_job  # without the libraries of the other commands

        if (job := parse_job(sys.argv[1:])) is not None:
            run_job(job)
            return
    try:
        from lakescan.cli.commands import run
    except ImportError as error:
        sys.exit(f"the lakescan command needs `{error.name}`, which is not installed: pip install 'lakescan[cli]'")
    run()

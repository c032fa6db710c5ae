"""Write `docs/cli.md` from the commands of the command line: `python scripts/cli_doc.py`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from typer.models import ArgumentInfo, CommandInfo, OptionInfo, ParameterInfo

from lakescan.cli import commands
from lakescan.cli.failures import EXIT_CODES

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
_SHARED = ("as_json", "storage_option")
_HEAD = """# The command line

`pip install 'lakescan[cli]'` installs the command `lakescan`. Tables are named as in Python: a folder or URI,
an Iceberg metadata file, or `catalog.namespace.table`.

```sh
lakescan health /lake/orders --html health.html
lakescan --catalog local=./lake maintain local.db.orders --dry-run
lakescan head s3://lake/orders -w "price > 5" --storage-option region=eu-west-1
lakescan snapshots local.db.orders --json | jq .snapshot_id
lakescan sql "ALTER TABLE local.db.orders ADD COLUMN note STRING" --catalog local=./lake
lakescan run job.py --day 2026-03-01
```

- `--catalog name=folder`, before the command, names an embedded catalog. Other catalogs come from pyiceberg's
  configuration.
- Each command takes `--json`: it prints rows, names and results as JSON, one object per line, and nothing else.
- Commands that open a table take `--storage-option name=value`, which may be repeated.
- Commands that remove something take `--dry-run`.
- Long work shows its progress on stderr if that is a terminal. Errors are one line on stderr.
- `lakescan sql` changes tables: `ALTER TABLE`, `INSERT`, `MERGE` and the other statements of [sql.md](sql.md).
- `lakescan sql --file job.sql`, or `lakescan sql < job.sql`, runs the statements of a script in order. The first error
  ends the script with the line of its statement on stderr and an exit code. Later statements do not run.
- `lakescan run` and `lakescan check` are for jobs that were written for the JARs of Iceberg and Delta:
  [From JARs to lakescan](guides/from_jars.md).

This page is made from the source by `scripts/cli_doc.py`.
"""


def page() -> str:
    """Return the page of all commands."""
    parts = [_HEAD, *_exit_codes()]
    for section in (commands.app, *(group.app for group in commands.GROUPS)):
        parts.append(f"## {section.title}\n")
        parts += [text for each in section.registered_commands for text in _command(each)]
    return "\n".join(parts).rstrip() + "\n"


def _exit_codes() -> Iterator[str]:
    rows = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    yield f"## Exit codes\n\n| code | meaning |\n|---|---|\n{rows}\n"


def _command(command: CommandInfo) -> Iterator[str]:
    assert command.callback is not None
    found = [each for each in inspect.signature(command.callback).parameters.values() if each.name not in _SHARED]
    arguments = [each for each in found if isinstance(_info(each), ArgumentInfo)]
    options = [each for each in found if isinstance(_info(each), OptionInfo)]
    words = ["lakescan", str(command.name), *map(_word, arguments), *(["[options]"] if options else [])]
    yield f"### `{' '.join(words)}`\n"
    yield f"{_text(command.help or command.callback.__doc__)}\n"
    rows = [f"| `{_word(each)}` | {_text(_info(each).help)} |" for each in arguments]
    rows += [f"| {_names(each)} | {_text(_info(each).help)}{_default(each)} |" for each in options]
    if rows and not command.help:
        yield "| | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _info(parameter: inspect.Parameter) -> ParameterInfo:
    """Return typer's information on a parameter."""
    return parameter.annotation.__metadata__[0]


def _word(argument: inspect.Parameter) -> str:
    name = argument.name.upper()
    return name if argument.default is inspect.Parameter.empty else f"[{name}]"


def _names(option: inspect.Parameter) -> str:
    info = _info(option)  # in `Annotated`, typer would read the first name as a default
    names = [each for each in (info.default, *(info.param_decls or ())) if isinstance(each, str)]
    names = names or [f"--{option.name.replace('_', '-')}"]
    kind = option.annotation.__origin__
    value = "" if kind is bool else " N" if kind in (int, int | None) else " VALUE"
    return ", ".join(f"`{name}{value}`" for name in names)


def _default(option: inspect.Parameter) -> str:
    return "" if option.default in (None, False) else f" By default {option.default}."


def _text(help_text: str | None) -> str:
    return " ".join((help_text or "").split()).replace("|", chr(92) + "|")


if __name__ == "__main__":
    PAGE.write_text(page())

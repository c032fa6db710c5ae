"""Table text is displayed, but no terminal obeys it and no browser runs it; it contains no secret."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.cli.output import TerminalConsole, print_json
from lakescan.common.control_characters import harmless, harmless_json
from lakescan.storage import Storage
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.errors import error_text, redact
from lakescan.storage.vended_credentials import Credential, Credentials

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">'
SECRET = "s3cr3t-k3y-of-the-reader"
SEQUENCES = [
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "\r\x1b[Aoverwritten",
    "\x1b]52;c;aGk=\x07",
    "\u202egnp.exe",
    "\x00\x7f",
]


@pytest.fixture
def table(tmp_path: Path) -> lakescan.Table:
    rows = pa.table({HOSTILE: pa.array([HOSTILE, "b"])})
    path = str(tmp_path / "<b onclick=alert(3)>")
    lakescan.save(rows, path, format="delta")
    return lakescan.table(path)


def tags(html: str) -> bool:
    """Return whether markup of the table reached the output."""
    return any(each in html for each in ("<script>alert", "<img src=x", "<b onclick"))


def test_pages_of_a_table_hold_its_names_and_values_as_text(table: lakescan.Table) -> None:
    scan = table.scan().where(f"`{HOSTILE}` = '{HOSTILE}'".replace("''", "'"))
    pages = [table._repr_html_(), table.health()._repr_html_(), scan.plan()._repr_html_(), scan._repr_html_()]
    pages.append(lakescan.sql("SELECT * FROM t", t=table)._repr_html_())
    assert [page for page in pages if tags(page)] == []
    assert all("&lt;" in page for page in pages)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_terminal_gets_no_control_sequences_of_a_table(sequence: str) -> None:
    out = io.StringIO()
    console = TerminalConsole(file=out, markup=False, emoji=False, highlight=False, width=200)
    console.print(f"a name {sequence} of a table")
    console.print(sequence, soft_wrap=True)
    assert not set(out.getvalue()) & set(sequence) - set(
        "[]0123456789;,=abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ."
    )


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_json_lines_hold_the_same_value_without_control_characters(sequence: str) -> None:
    text = harmless_json(json.dumps({"name": sequence}, ensure_ascii=False))
    assert json.loads(text) == {"name": sequence}
    assert harmless(text) == text


def test_names_in_all_scripts_are_shown_unchanged() -> None:
    text = "Bücher, 本, كتاب\n\tдва 🙂"
    assert harmless(text) == text


def test_the_json_of_commands_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "\x9b31m"})
    assert "\x9b" not in capsys.readouterr().out


def test_no_text_of_a_storage_has_its_secrets() -> None:
    storage = Storage(
        {"s3.access-key-id": "id", "s3.secret-access-key": SECRET},
        io_properties={"s3.session-token": SECRET},
        vended=Credentials([Credential("s3://a", {"s3.session-token": SECRET})]),
        allowed=AllowedLocations("s3://a"),
    )
    texts = [
        repr(storage),
        str(storage),
        repr(storage.settings),
        repr(storage.vended),
        repr(storage.all_options_at("s3://a/1")),
    ]
    assert [text for text in texts if SECRET in text] == []


def test_errors_of_storage_options_do_not_repeat_their_values() -> None:
    for options in ({"s3.secret-access-key": SECRET, "aws_secret_access_key": SECRET + "2"}, {"no-such": SECRET}):
        with pytest.raises(lakescan.InvalidOption) as refused:
            Storage(options)
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "location",
    [
        f"s3://id:{SECRET}@bucket/t",
        f"abfss://c@a.dfs.core.windows.net/t?sv=1&sig={SECRET}",
        f"s3://bucket/t?X-Amz-Signature={SECRET}&X-Amz-Security-Token={SECRET}",
        f"hdfs://u:{SECRET}@name:9000/t",
    ],
)
def test_errors_repeat_no_password_and_no_signature_of_a_location(location: str) -> None:
    assert SECRET not in redact(location)
    assert SECRET not in error_text(OSError(f"no bucket '{location}' is there, nor {location.partition('://')[2]}"))


@pytest.mark.parametrize(
    "location",
    ["s3://bucket/day=2026-01-31 12:00/a@b", "abfss://c@a.dfs.core.windows.net/t", "/lake/a:b@c/f", "C:/lake/a@b"],
)
def test_errors_repeat_other_locations_unchanged(location: str) -> None:
    assert redact(location) == location
    assert error_text(OSError(f"{location} is not there")) == f"{location} is not there"


def test_plans_and_metadata_contain_no_secrets(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lakescan.save(pa.table({"a": [1]}), path, format="delta", storage_options={"s3.secret-access-key": SECRET})
    table = lakescan.table(path, storage_options={"s3.secret-access-key": SECRET})
    plan = table.scan().plan()
    texts = [repr(table), str(plan), repr(plan), plan._repr_html_(), table.scan().explain(), repr(table.scan())]
    texts += [file.read_text("latin-1") for file in tmp_path.rglob("*") if file.is_file()]
    assert [text for text in texts if SECRET in text] == []


def test_spilled_data_is_in_a_private_folder(table: lakescan.Table) -> None:
    lakescan.sql("SELECT * FROM t", t=table).to_arrow()
    from lakescan.statements.select import query

    folder = Path(query._new_folder()).parent
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert os.stat(folder).st_uid == os.getuid()


def test_a_removed_spill_folder_is_recreated_and_never_shared() -> None:
    from lakescan.statements.select import query

    folder = Path(query._new_folder()).parent
    assert Path(query._new_folder()).parent == folder
    folder.rmdir()
    again = Path(query._new_folder()).parent
    assert again.is_dir()
    again.rmdir()
    again.symlink_to(Path.home())
    try:
        assert Path(query._new_folder()).parent != again
    finally:
        again.unlink()


@pytest.mark.parametrize("how", ["multiprocessing", "fork"])
def test_processes_leave_no_spill_folders(tmp_path: Path, how: str) -> None:
    program = (
        "import multiprocessing, os, sys\n"
        "from lakescan.statements.select import query\n"
        "query._new_folder()\n"
        "if sys.argv[1] == 'fork':\n"
        "    child = os.fork()\n"
        "    query._new_folder()\n"
        "    assert child == 0 or os.waitpid(child, 0)[1] == 0\n"
        "else:\n"
        "    child = multiprocessing.get_context('fork').Process(target=query._new_folder)\n"
        "    child.start(); child.join(); assert child.exitcode == 0\n"
        "assert os.path.isdir(os.path.dirname(query._new_folder()))\n"
    )
    subprocess.run([sys.executable, "-c", program, how], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []

"""`tests.differential` counts every failure, however it ended."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.differential import __main__ as command


def test_errors_within_the_time_count_as_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any, **__: Any) -> Any:
        raise subprocess.TimeoutExpired("pytest", 1, output=b"..E.F.")

    monkeypatch.setattr(subprocess, "run", killed)
    assert command._laws("tests/a.py", 1, 1.0, spark=False) == {"passed": 4, "failed": 1, "error": 1}


@pytest.mark.parametrize("code", [2, 3, 4, 5])
def test_a_path_whose_laws_did_not_run_is_an_error(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    done = subprocess.CompletedProcess("pytest", code, "no tests ran in 0.01s", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert command._laws("tests/a.py", 1, 1.0, spark=False)["error"] == 1


@pytest.mark.parametrize(
    ("passed", "failed", "error", "code"), [(1, 0, 0, 0), (1, 1, 0, 1), (1, 0, 1, 1), (0, 0, 0, 1)]
)
def test_the_exit_code_is_0_if_laws_passed_and_none_failed(passed: int, failed: int, error: int, code: int) -> None:
    assert command.exit_code({"passed": passed, "failed": failed, "error": error}) == code

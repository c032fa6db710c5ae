"""Secrets of the process appear in no text, whatever other libraries print."""

from __future__ import annotations

import logging
import pickle
import traceback
from pathlib import Path

import pytest
from hive_metastore.ttypes import InvalidOperationException

import lakescan
from lakescan.catalogs.properties import hide_secret
from lakescan.catalogs.responses import drop_pydantic_causes
from lakescan.common.secrets import (
    Secret,
    hide_error_secrets,
    hide_secrets,
    register_address_secrets,
    register_secrets,
    secret,
)
from lakescan.errors import InvalidOption, UnsupportedFeature

TOKEN = "t0ken-of-the-test"


def test_a_secret_is_shown_by_no_error_and_no_repr() -> None:
    given = secret(f" {TOKEN}\n")
    assert given == TOKEN
    assert TOKEN not in repr(given)
    for error in (InvalidOption(f"not {TOKEN}"), UnsupportedFeature("x", f"because of {TOKEN}")):
        assert TOKEN not in str(error) + repr(error)
        assert "***" in str(error)


def test_a_secret_stays_hidden_in_other_processes() -> None:
    again = pickle.loads(pickle.dumps(secret(TOKEN)))
    assert type(again) is Secret
    assert again == TOKEN


def test_causes_of_other_libraries_show_no_secret() -> None:
    register_secrets([TOKEN])
    failure = OSError(5, f"failed with {TOKEN}")
    failure.__cause__ = ValueError(f"Invalid header value b'Bearer {TOKEN}'")
    hide_error_secrets(failure)
    assert TOKEN not in "".join(traceback.format_exception(failure))


def test_hiding_secrets_does_not_change_data_of_errors(tmp_path: Path) -> None:
    """A password that is also a word of a view's query does not remove the view."""
    register_secrets(["pa55-n"])
    lake = lakescan.catalog("lake", warehouse=str(tmp_path))
    lake.create_namespace("n")
    lakescan.sql("CREATE VIEW lake.n.v AS SELECT 'pa55-n' AS s")
    assert lakescan.sql("SELECT s FROM lake.n.v").to_arrow()["s"].to_pylist() == ["pa55-n"]


def test_errors_of_thrift_show_no_secret() -> None:
    register_secrets([TOKEN])
    failure = InvalidOperationException(message=f"refused for {TOKEN}")
    hide_error_secrets(failure)
    drop_pydantic_causes(failure)
    assert TOKEN not in str(failure) + repr(failure)
    assert "refused for ***" in str(failure)


def test_a_cyclic_chain_of_causes_is_searched_once() -> None:
    register_secrets([TOKEN])
    first, second = ValueError(f"first {TOKEN}"), ValueError(f"second {TOKEN}")
    first.__cause__, second.__context__ = second, first
    hide_error_secrets(first)
    drop_pydantic_causes(first)
    assert [str(first), str(second)] == ["first ***", "second ***"]


def test_log_lines_show_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    register_secrets([TOKEN])
    with caplog.at_level(logging.DEBUG, "lakescan"):
        for name in ("lakescan", "lakescan.sql", "lakescan.metrics"):
            logging.getLogger(name).info("sent %s", TOKEN)
    assert [each.getMessage() for each in caplog.records] == ["sent ***"] * 3


@pytest.mark.parametrize(
    "address",
    [
        "https://bob:pa55word@host/x",
        "bob:pa55word@host",
        "postgresql://bob:x@pa55word@host/db",
        "https://a.blob.example?sv=1&sig=pa55word",
        "http://:pa55word@proxy:80",
    ],
)
def test_passwords_and_signatures_in_addresses_are_secrets(address: str) -> None:
    register_address_secrets(address)
    assert hide_secrets("cannot resolve pa55word@host") == "cannot resolve ***@host"


def test_a_password_is_hidden_in_its_encoded_form() -> None:
    register_address_secrets("postgresql://bob:pa55%2Fword%21@host/db")
    assert hide_secrets("refused for pa55/word!") == "refused for ***"
    hide_secret("auth", {"type": "basic", "basic": {"username": "bob", "password": "pa55-of-bob"}})
    assert hide_secrets("Authorization: Basic Ym9iOnBhNTUtb2YtYm9i") == "Authorization: Basic ***"


def test_a_secret_that_is_a_word_is_hidden_only_as_a_value() -> None:
    register_secrets(["another", "SECRET"])
    assert hide_secrets("set AWS_SECRET_ACCESS_KEY, not 'SECRET'") == "set AWS_SECRET_ACCESS_KEY, not '***'"
    assert hide_secrets("another server, Bearer another, u:another@h, token=another") == (
        "another server, Bearer ***, u:***@h, token=***"
    )

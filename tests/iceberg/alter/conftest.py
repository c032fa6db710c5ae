from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _only_own_catalogs(no_other_catalogs: None) -> None:
    """Tests of this folder see only the catalogs that they register."""

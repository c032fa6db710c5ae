"""Settings of storage that a catalog issues for some time only: vended credentials, and who renews them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Protocol


class Vended(Protocol):
    """The settings for one table's files, as its catalog issues them. It can be pickled, and its `repr` has no secret.

    Processes that read or write the table's files renew them by themselves.
    """

    @property
    def identity(self) -> Hashable:
        """A key for caches, which stays the same as credentials are renewed."""

    @property
    def has_credentials(self) -> bool:
        """Whether the catalog issues any: not for local files."""

    def properties(self) -> Mapping[str, str]:
        """FileIO properties that are valid now: the same object until they are renewed, which asks the catalog.

        Raises `StorageError` if the catalog does not issue them.
        """

    def for_writing(self) -> Vended:
        """The same with permission to write."""

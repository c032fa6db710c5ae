"""Changes of a table's metadata that pyiceberg works out, as what a commit sends to the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.table import StagedTable, Table, Transaction


@dataclass(frozen=True)
class MetadataChanges:
    """Updates of a table's metadata, and what they require of the table (both pyiceberg's)."""

    updates: tuple[Any, ...]
    requirements: tuple[Any, ...]

    @staticmethod
    def record(table: Table, change: Callable[[Transaction], None]) -> MetadataChanges:
        """Return what `change` does to a transaction of the table; nothing is committed. Raises what `change` raises.

        Example:
            >>> MetadataChanges.of(table, lambda transaction: transaction.set_properties({"owner": "me"}))
        """
        from pyiceberg.table import Table

        recorded: list[MetadataChanges] = []
        of = Table(table.name(), table.metadata, table.metadata_location, table.io, _recorder(recorded))
        with of.transaction() as transaction:
            change(transaction)
        return recorded[0] if recorded else MetadataChanges((), ())

    @staticmethod
    def record_creation(staged: StagedTable) -> MetadataChanges:
        """Return the updates that make a staged table, and that none has its name; nothing is committed.

        Example:
            >>> MetadataChanges.of_new(stage(catalog, ("shop", "orders"), arguments)).updates
        """
        from pyiceberg.table import CreateTableTransaction, StagedTable

        recorded: list[MetadataChanges] = []
        given = staged.name(), staged.metadata, staged.metadata_location, staged.io
        CreateTableTransaction(StagedTable(*given, _recorder(recorded))).commit_transaction()
        return recorded[0]


def _recorder(recorded: list[MetadataChanges]) -> Any:
    """A catalog that records the one commit of a transaction."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.table import CommitTableResponse

    class Recorder(NoopCatalog):
        """Records commits, and makes none."""

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> CommitTableResponse:
            recorded.append(MetadataChanges(tuple(updates), tuple(requirements)))
            return CommitTableResponse(metadata=table.metadata, metadata_location=table.metadata_location)

    return Recorder("recorder")

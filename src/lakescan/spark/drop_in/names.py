"""Names in enabled sessions: which tables, paths and catalogs are lakescan's."""

from __future__ import annotations

from lakescan.common.identifiers import split_name
from lakescan.spark.drop_in.session_catalog import SPARK, find_full_name, new_full_name
from lakescan.spark.drop_in.sessions import EnabledSession
from lakescan.spark.statements.names import current_namespace, is_temporary

FORMATS = ("iceberg", "delta")


def table_parts(session: EnabledSession, name: str) -> tuple[str, ...] | None:
    """Return the full name of a lakescan table that an API call names; None if the name is Spark's.

    The result begins with a catalog, or is a format and a path.
    """
    parts = split_name(name.strip()) if isinstance(name, str) else None
    if parts is None:
        return None
    if len(parts) >= 2 and parts[0].lower() in FORMATS and parts[0] not in session.catalogs:
        return parts
    if len(parts) >= 2 and parts[0] in session.catalogs and parts[0] != SPARK:
        return parts
    if (own := find_full_name(session.spark, parts, with_views=True)) is not None:
        return own
    within = current_namespace(session.spark)
    if not within or within[0] not in session.catalogs:
        return None
    if len(parts) == 1:
        return None if is_temporary(session.spark, parts[0]) else (*within, *parts)
    return None if parts[0] in (SPARK, "global_temp") else (within[0], *parts)


def new_table_parts(session: EnabledSession, name: str, format: str | None) -> tuple[str, ...] | None:
    """Return the full name of a lakescan table that an API call names, or of one that it creates.

    None if the table is Spark's. A new table of Spark's own catalog is lakescan's if `format` says so.
    """
    found = table_parts(session, name)
    if found is not None:
        return found
    parts = split_name(name.strip()) if isinstance(name, str) else None
    return None if parts is None else new_full_name(session.spark, parts, format)

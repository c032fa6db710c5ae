"""Names in enabled sessions: which tables, paths and catalogs are lakescan's."""

from __future__ import annotations

from lakescan.common.identifiers import split_name
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
    if len(parts) >= 2 and parts[0] in session.catalogs:
        return parts
    within = current_namespace(session.spark)
    if not within or within[0] not in session.catalogs:
        return None
    if len(parts) == 1:
        return None if is_temporary(session.spark, parts[0]) else (*within, *parts)
    return None if parts[0] in ("spark_catalog", "global_temp") else (within[0], *parts)

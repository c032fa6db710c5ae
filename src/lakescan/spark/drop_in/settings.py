"""Read the session settings of jobs for the JARs: catalogs, extensions and packages of Iceberg and Delta."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_LOG = logging.getLogger("lakescan")
PREFIX = "spark.sql.catalog."
DEFAULT_CATALOG = "spark.sql.defaultCatalog"
EXTENSIONS, PACKAGES, JARS = "spark.sql.extensions", "spark.jars.packages", "spark.jars"
CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
SESSION_CATALOG = "spark_catalog"
_ICEBERG, _ICEBERG_SESSION = "org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg.spark.SparkSessionCatalog"
_DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "io.delta.sql.DeltaSparkSessionExtension",
)
_PACKAGE = re.compile(r"(?:org\.apache\.iceberg:iceberg-|io\.delta:delta-)[\w.:-]+")
_JAR = re.compile(r"(?:.*/)?(?:iceberg-[\w-]*(?:runtime|bundle)|delta-(?:spark|core|storage|contribs))[\w.-]*\.jar")
_TYPES = {
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.inmemory.InMemoryCatalog": "in-memory",
    "org.apache.iceberg.nessie.NessieCatalog": "nessie",
    "org.apache.iceberg.gcp.bigquery.BigQueryMetastoreCatalog": "bigquery",
}
_JDBC = re.compile(r"jdbc:(\w+):(?://)?(.*)")


@dataclass
class JarSettings:
    """What a session's settings say about the JARs.

    - `catalogs`: properties of lakescan's catalogs, by name.
    - `session_catalog`: "delta" or "iceberg" if Spark's own catalog is theirs, else None.
    - `default_catalog`: the catalog of unqualified names, if it is one of `catalogs`.
    - `removed`: the settings that name classes of the JARs, which Spark cannot load.
    - `changed`: settings to replace, with their new values.
    """

    catalogs: dict[str, dict[str, str]] = field(default_factory=dict)
    session_catalog: str | None = None
    default_catalog: str | None = None
    removed: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)


def read_jar_settings(settings: Mapping[str, str]) -> JarSettings:
    """Read a session's settings, or those of a builder."""
    found = JarSettings()
    for key, value in settings.items():
        name = key.removeprefix(PREFIX)
        if name == key or "." in name:
            continue
        if value in (_ICEBERG, _ICEBERG_SESSION):
            own = {each.removeprefix(f"{key}."): given for each, given in settings.items() if each.startswith(f"{key}.")}
            found.removed[key] = value
            if value == _ICEBERG_SESSION and name == SESSION_CATALOG:
                found.session_catalog = "iceberg"
            found.catalogs[name] = catalog_properties(name, own, settings)
        elif value == _DELTA:
            found.removed[key] = value
            if name == SESSION_CATALOG:
                found.session_catalog = "delta"
    default = settings.get(DEFAULT_CATALOG)
    if default in found.catalogs and default != SESSION_CATALOG:
        found.default_catalog, found.removed[DEFAULT_CATALOG] = default, default
    for key, pattern in ((PACKAGES, _PACKAGE), (JARS, _JAR)):
        _leave_out(found, settings, key, pattern)
    if EXTENSIONS in settings:
        parts = [each.strip() for each in settings[EXTENSIONS].split(",")]
        kept = [each for each in parts if each not in _EXTENSIONS]
        if len(kept) < len(parts):
            _change(found, EXTENSIONS, settings[EXTENSIONS], kept)
    return found


def _leave_out(found: JarSettings, settings: Mapping[str, str], key: str, pattern: re.Pattern[str]) -> None:
    parts = [each.strip() for each in settings.get(key, "").split(",") if each.strip()]
    ours = [each for each in parts if pattern.fullmatch(each)]
    if ours:
        _LOG.info("%s: %s is left out, since lakescan reads and writes these tables itself", key, ", ".join(ours))
        _change(found, key, settings[key], [each for each in parts if each not in ours])


def _change(found: JarSettings, key: str, before: str, kept: list[str]) -> None:
    if kept:
        found.changed[key] = ",".join(kept)
    else:
        found.removed[key] = before


def catalog_properties(name: str, own: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Translate the properties of an Iceberg catalog in Spark's settings to those of `lakescan.catalog`.

    Args:
        name: The catalog's name.
        own: The settings after `spark.sql.catalog.NAME.`.
        settings: All settings, for the warehouse of Spark.
    """
    kind = own.get("type", "").lower()
    if not kind and "catalog-impl" in own:
        kind = _TYPES.get(own["catalog-impl"], "")
    kind = kind or ("rest" if own.get("uri", "").startswith("http") else "hive")
    found = {key: value for key, value in own.items() if key not in ("catalog-impl", "type", "io-impl")}
    if kind == "jdbc":
        kind, found = "sql", _of_jdbc(found)
    if kind == "hive" and "uri" not in found and (uri := settings.get("spark.hadoop.hive.metastore.uris")):
        found["uri"] = uri.split(",")[0].strip()
    return {**found, "type": kind}


def _of_jdbc(properties: dict[str, str]) -> dict[str, str]:
    """Translate the address and the account of Iceberg's JDBC catalog to those of an SQL catalog."""
    match = _JDBC.fullmatch(properties.get("uri", ""))
    if match is None:
        return properties
    kind, rest = match[1], match[2]
    found = {key: value for key, value in properties.items() if not key.startswith("jdbc.")}
    if kind == "sqlite":
        return {**found, "uri": f"sqlite:///{rest.removeprefix('file:')}"}
    user, password = properties.get("jdbc.user", ""), properties.get("jdbc.password", "")
    account = f"{user}:{password}@" if password else f"{user}@" if user else ""
    driver = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql"}.get(kind, kind)
    return {**found, "uri": f"{driver}://{account}{rest}"}

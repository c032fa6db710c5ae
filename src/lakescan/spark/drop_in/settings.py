"""Read the session settings of jobs for the JARs: catalogs, extensions and packages of Iceberg and Delta."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakescan.options.session_defaults import session_settings
from lakescan.options.session_settings import BRANCH_SETTING, ID_SETTING
from lakescan.spark.drop_in.catalog_settings import catalog_properties, default_namespace, unity_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakescan")
PREFIX = "spark.sql.catalog."
DEFAULT_CATALOG = "spark.sql.defaultCatalog"
EXTENSIONS, PACKAGES, JARS = "spark.sql.extensions", "spark.jars.packages", "spark.jars"
CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
SESSION_CATALOG = "spark_catalog"
DELTA_DEFAULTS = "spark.databricks.delta.properties.defaults."  # before the name of a property of new Delta tables
_ICEBERG, _ICEBERG_SESSION = "org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg.spark.SparkSessionCatalog"
_DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_UNITY = "io.unitycatalog.spark.UCSingleCatalog"
_EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.projectnessie.spark.extensions.NessieSparkSessionExtensions",
)
_PACKAGE = re.compile(
    r"(?:org\.apache\.iceberg:iceberg-|io\.delta:delta-|org\.projectnessie\.nessie-integrations:nessie-spark-ext"
    r"|io\.unitycatalog:unitycatalog-spark)[\w.:-]+"
)
_JAR = re.compile(
    r"(?:.*/)?(?:iceberg-[\w-]*(?:runtime|bundle)|delta-(?:spark|core|storage|contribs)|nessie-spark-ext"
    r"|unitycatalog-spark)[\w.-]*\.jar"
)
_PREFIXES = ("spark.databricks.delta.", "spark.sql.iceberg.", "spark.databricks.io.", "spark.delta.")


class Meaning(Enum):
    """The effect of a setting of the JARs in lakescan."""

    APPLIED = "applied"
    NONE = "none"
    UNSUPPORTED = "unsupported"


_APPLIED = (
    "spark.databricks.delta.schema.autoMerge.enabled",
    "spark.databricks.delta.retentionDurationCheck.enabled",
    *session_settings(),
    ID_SETTING,
    BRANCH_SETTING,
)
# Settings that change results and that lakescan does not apply, with the values of their defaults, which need nothing.
_UNSUPPORTED = {
    "spark.sql.iceberg.check-nullability": "true",
    "spark.sql.iceberg.check-ordering": "true",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "true",
    "spark.databricks.delta.replaceWhere.dataColumns.enabled": "true",
    "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": "false",
    "spark.databricks.delta.typeCoercion.enabled": "true",
    "spark.databricks.delta.allowArbitraryProperties.enabled": "false",
    "spark.databricks.delta.legacy.allowAmbiguousPathOptions": "false",
    "spark.databricks.delta.dynamicPartitionOverwrite.enabled": "true",
    "spark.databricks.delta.write.isolationLevel": "",
    "spark.databricks.delta.constraints.assumesDropIfExists.enabled": "false",
}


@dataclass(frozen=True)
class Enabled:
    """What `lakescan.spark.enable` found in a session.

    - `catalogs`: the warehouse (or else the address) of each catalog, by the catalog's name.
    - `session_catalog`: "delta" or "iceberg" if Spark's own catalog has tables of that format, else None.
    """

    catalogs: Mapping[str, str | None] = field(default_factory=dict)
    session_catalog: str | None = None


@dataclass
class JarSettings:
    """What a session's settings say about the JARs.

    - `catalogs`: properties of lakescan's catalogs, by name.
    - `session_catalog`: "delta" or "iceberg" if Spark's own catalog is theirs, else None.
    - `default_catalog`: the catalog of unqualified names, if it is one of `catalogs`, and the parts of its
      default namespace, joined by NUL characters.
    - `removed`: the settings that name classes of the JARs, which Spark cannot load.
    - `changed`: settings to replace, with their new values.
    """

    catalogs: dict[str, dict[str, str]] = field(default_factory=dict)
    session_catalog: str | None = None
    default_catalog: str | None = None
    removed: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)


def read_jar_settings(settings: Mapping[str, str], *, log: bool = True) -> JarSettings:
    """Read a session's settings, or those of a builder.

    Args:
        settings: The settings by name.
        log: Log the settings that have no effect here, once per process.
    """
    found, namespaces = JarSettings(), {}
    for key, value in settings.items():
        name = key.removeprefix(PREFIX)
        if name == key or "." in name or value not in (_ICEBERG, _ICEBERG_SESSION, _DELTA, _UNITY):
            continue
        found.removed[key] = value
        if value == _DELTA:
            found.session_catalog = "delta" if name == SESSION_CATALOG else found.session_catalog
            continue
        own = {each.removeprefix(f"{key}."): given for each, given in settings.items() if each.startswith(f"{key}.")}
        if value == _ICEBERG_SESSION and name == SESSION_CATALOG:
            found.session_catalog = "iceberg"
        if value == _UNITY and name == SESSION_CATALOG and not own:
            found.session_catalog = "delta"
            continue
        found.catalogs[name] = (
            unity_properties(own) if value == _UNITY else catalog_properties(name, own, settings, log=log)
        )
        namespaces[name] = default_namespace(own)
    default = settings.get(DEFAULT_CATALOG)
    if default in found.catalogs and default != SESSION_CATALOG:
        found.default_catalog, found.removed[DEFAULT_CATALOG] = "\0".join((default, *namespaces[default])), default
    lists = ((PACKAGES, _PACKAGE, ","), (JARS, _JAR, ","), *((each, _JAR, os.pathsep) for each in CLASS_PATHS))
    for key, pattern, mark in lists:
        _leave_out(found, settings, key, pattern, mark, log)
    if EXTENSIONS in settings:
        parts = [each.strip() for each in settings[EXTENSIONS].split(",")]
        kept = [each for each in parts if each not in _EXTENSIONS]
        if len(kept) < len(parts):
            _change(found, EXTENSIONS, settings[EXTENSIONS], kept, ",")
    if log:
        report_settings(settings)
    return found


def meaning_of(name: str, value: str) -> Meaning | None:
    """Return the effect of a setting of the JARs in lakescan; None for a setting of Spark or others."""
    if name in _APPLIED:
        return Meaning.APPLIED
    if name.startswith(DELTA_DEFAULTS):
        return Meaning.APPLIED
    if name in _UNSUPPORTED and value.strip().lower() != _UNSUPPORTED[name]:
        return Meaning.UNSUPPORTED
    return Meaning.NONE if name.startswith(_PREFIXES) else None


def delta_defaults(spark: SparkSession) -> dict[str, str]:
    """Return the properties that a session sets for new Delta tables (`spark.databricks.delta.properties.defaults`)."""
    settings: Any = spark.conf.getAll
    return {
        f"delta.{name.removeprefix(DELTA_DEFAULTS)}": str(value)
        for name, value in settings.items()
        if name.startswith(DELTA_DEFAULTS)
    }


_reported: set[str] = set()


def report_settings(settings: Mapping[str, str]) -> None:
    """Log each setting of the JARs without effect, once per process: as a warning if it would change results."""
    new = {
        name: meaning
        for name, value in settings.items()
        if name.startswith(_PREFIXES) and name not in _reported and (meaning := meaning_of(name, value)) is not None
    }
    _reported.update(new)
    for name in sorted(name for name, meaning in new.items() if meaning is Meaning.UNSUPPORTED):
        _LOG.warning("the setting %s is not supported: lakescan behaves as with its default value", name)
    if none := sorted(name for name, meaning in new.items() if meaning is Meaning.NONE):
        _LOG.info("settings without a meaning in lakescan: %s", ", ".join(none))


def is_jar_package(text: str) -> bool:
    """Return whether a Maven coordinate or the name of a file is a JAR of Iceberg or Delta."""
    return bool(_PACKAGE.fullmatch(text) or _JAR.fullmatch(text))


def _leave_out(
    found: JarSettings, settings: Mapping[str, str], key: str, pattern: re.Pattern[str], mark: str, log: bool
) -> None:
    parts = [each.strip() for each in settings.get(key, "").split(mark) if each.strip()]
    ours = [each for each in parts if pattern.fullmatch(each)]
    if ours:
        if log and key not in _reported:
            _LOG.info("%s: %s is left out, since lakescan reads and writes these tables itself", key, ", ".join(ours))
            _reported.add(key)
        _change(found, key, settings[key], [each for each in parts if each not in ours], mark)


def _change(found: JarSettings, key: str, before: str, kept: list[str], mark: str) -> None:
    if kept:
        found.changed[key] = mark.join(kept)
    else:
        found.removed[key] = before

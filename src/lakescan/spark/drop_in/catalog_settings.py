"""Translate the properties of catalogs in Spark's settings, as the JARs name them, to those of `lakescan.catalog`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from lakescan.storage.settings.catalog_properties import PREFIXES
from lakescan.storage.settings.option_names import find_settings, parse_option

_LOG = logging.getLogger("lakescan")
_IMPLEMENTATIONS = {
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog": "dynamodb",
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.inmemory.InMemoryCatalog": "in-memory",
    "org.apache.iceberg.nessie.NessieCatalog": "nessie",
    "org.apache.iceberg.gcp.bigquery.BigQueryMetastoreCatalog": "bigquery",
}
# Properties of the JVM's clients, caches and pools: they change no result.
_NO_MEANING = re.compile(
    r"cache[.-].*|clients|client\.(?:pool\..*|factory|credentials-provider.*)|io-impl|io\.manifest\..*|http-client\..*|"
    r"metrics-reporter-impl|table-metrics-reporter.*|use-nullable-query-schema|jdbc\..*|list-all-tables|lock[.-].*|"
    r"default-namespace|s3\.(?:threads|multipart\..*|delete\..*|preload-client-enabled|acceleration-enabled|"
    r"checksum-enabled|crt\..*|retry\..*|staging-dir|write\..*|access-grants\..*)|rest\.auth\..*|authentication\..*|"
    r"authentication|client-api-version|nessie\..*|ref|hadoop\..*|page-size|glue\.skip-archive|suppress-permission-error"
)
_LOCKS = re.compile(r"lock[.-].*")
_JDBC = re.compile(r"jdbc:(\w+):(?://)?(.*)")
_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
_HADOOP = "spark.hadoop."
_reported: set[str] = set()
_RENAMED = {
    "client.assume-role.arn": "client.role-arn",
    "client.assume-role.external-id": "client.external-id",
    "client.assume-role.session-name": "client.session-name",
    "client.assume-role.region": "client.region",
}


def catalog_properties(
    name: str, own: Mapping[str, str], settings: Mapping[str, str], *, log: bool = True
) -> dict[str, str]:
    """Translate the properties of an Iceberg catalog.

    A catalog of an unsupported class gets the class as its type. The first use of the catalog then raises
    `InvalidOption` with that name.

    Args:
        name: The catalog's name.
        own: The settings after `spark.sql.catalog.NAME.`.
        settings: All settings: Hadoop's configure the metastore and the storage of catalogs without their own settings.
        log: Log the properties that have no effect here, once per process and catalog.
    """
    kind = _type_of(own)
    kept = {_RENAMED.get(key, key): value for key, value in own.items()}
    kept = {key: value for key, value in kept.items() if key not in ("type", "catalog-impl")}
    if log and name not in _reported:
        _reported.add(name)
        _log_left_out(name, kept)
    found = {key: value for key, value in kept.items() if not _NO_MEANING.fullmatch(key)}
    match kind:
        case "jdbc":
            kind, found = "sql", _jdbc(found, own)
        case "nessie":
            kind, found = "rest", _nessie(found, own)
        case "rest":
            found |= _rest_authentication(own)
        case "hive" if "uri" not in found:
            uris = settings.get(f"{_HADOOP}hive.metastore.uris") or settings.get("hive.metastore.uris", "")
            found |= {"uri": uris} if uris else {}
    if kind == "hive" and "warehouse" not in found and (folder := settings.get("spark.sql.warehouse.dir")):
        found["warehouse"] = folder
    return {**_storage(own, found, settings), **found, "type": kind}


def unity_properties(own: Mapping[str, str]) -> dict[str, str]:
    """Translate the properties of a Unity Catalog (`io.unitycatalog.spark.UCSingleCatalog`)."""
    return {**{key: value for key, value in own.items() if key in ("uri", "token")}, "type": "unity"}


def default_namespace(own: Mapping[str, str]) -> tuple[str, ...]:
    """Return the parts of the namespace that `USE catalog` selects: the property `default-namespace`."""
    return tuple(part for part in own.get("default-namespace", "").split(".") if part)


def _type_of(own: Mapping[str, str]) -> str:
    if named := own.get("type", "").lower():
        return named
    if implementation := own.get("catalog-impl", ""):
        return _IMPLEMENTATIONS.get(implementation, implementation)
    return "rest" if own.get("uri", "").startswith("http") else "hive"


def _log_left_out(name: str, properties: Mapping[str, str]) -> None:
    locks = sorted(key for key in properties if _LOCKS.fullmatch(key))
    if locks:
        _LOG.warning(
            "catalog %s: %s is not supported. Let no job with the JARs write to this catalog at the same time",
            name,
            ", ".join(locks),
        )
    known = ("default-namespace", "ref", "jdbc.user", "jdbc.password")
    left_out = sorted(
        key for key in properties if _NO_MEANING.fullmatch(key) and key not in locks and not key.startswith(known)
    )
    if left_out:
        _LOG.info("catalog %s: %s has no meaning without the JARs", name, ", ".join(left_out))


def _storage(own: Mapping[str, str], found: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's settings of storage for a catalog that has none of its own, as Iceberg's `HadoopFileIO` uses."""
    hadoop = {key.removeprefix(_HADOOP): value for key, value in settings.items() if key.startswith(_HADOOP)}
    hadoop |= {key.removeprefix("hadoop."): value for key, value in own.items() if key.startswith("hadoop.")}
    stores = {setting.key[0] for key in found for setting in find_settings(key)}
    result = {}
    for key, value in hadoop.items():
        if not key.startswith("fs.") or not find_settings(key):
            continue
        for setting, parsed in parse_option(key, value, ignore_unknown=True):
            name = next((each for each in setting.names if each.startswith(PREFIXES)), None)
            if name == "s3.path-style-access":
                parsed = not parsed  # the setting is its opposite, virtual addressing
            if name is not None and setting.key[0] not in stores:
                result[name] = str(parsed).lower() if isinstance(parsed, bool) else str(parsed)
    endpoint = result.get("s3.endpoint", "")
    if endpoint and "://" not in endpoint and hadoop.get("fs.s3a.connection.ssl.enabled", "").lower() == "false":
        result["s3.endpoint"] = f"http://{endpoint}"
    return result


def _nessie(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Translate Nessie's own address to that of its REST catalog: `/api/v2` and a reference to `/iceberg/main`."""
    base = re.sub(r"/+api/v\d+/*$", "", own.get("uri", "").rstrip("/"))
    uri = base if "/iceberg" in base else f"{base}/iceberg"
    found = {**properties, "uri": f"{uri}/{quote(own['ref'], safe='')}" if own.get("ref") else uri}
    kind, prefix = own.get("authentication.type", "").lower(), "authentication.oauth2."
    if kind == "bearer" and "authentication.token" in own:
        found["token"] = own["authentication.token"]
    elif kind == "oauth2":
        found["credential"] = f"{own.get(f'{prefix}client-id', '')}:{own.get(f'{prefix}client-secret', '')}"
        for theirs, ours in (("token-endpoint-uri", "oauth2-server-uri"), ("client-scopes", "scope")):
            if value := own.get(prefix + theirs):
                found[ours] = value
    return found


def _rest_authentication(own: Mapping[str, str]) -> dict[str, str]:
    """Translate `rest.auth.type` and its properties."""
    match own.get("rest.auth.type", "").lower():
        case "sigv4":
            return {"rest.sigv4-enabled": "true"}
        case "basic":
            account = {each: own.get(f"rest.auth.basic.{each}", "") for each in ("username", "password")}
            return {"auth": json.dumps({"type": "basic", "basic": account})}
        case "google":
            return {"auth": json.dumps({"type": "google", "google": {}})}
    return {}


def _jdbc(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Translate the address and the account of Iceberg's JDBC catalog to those of an SQL catalog."""
    match = _JDBC.fullmatch(own.get("uri", ""))
    if match is None:
        return dict(properties)
    kind, rest = match[1], match[2]
    if kind == "sqlite":
        path = rest.removeprefix("file:").partition("?")[0]
        return {**properties, "uri": "sqlite://" if path.startswith(":memory:") else f"sqlite:///{path}"}
    parts = urlsplit(f"//{rest}")
    options = dict(parse_qsl(parts.query))
    user = own.get("jdbc.user") or options.pop("user", "")
    password = own.get("jdbc.password") or options.pop("password", "")
    account = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "") + ("@" if user else "")
    kept = {key: value for key, value in options.items() if key == "sslmode"}
    if kind == "postgresql":
        if options.get("ssl", "").lower() == "true":
            kept.setdefault("sslmode", "require")
        if schema := options.get("currentSchema"):
            kept["options"] = f"-csearch_path={schema}"
    query = f"?{urlencode(kept, quote_via=quote)}" if kept else ""
    return {**properties, "uri": f"{_DRIVERS.get(kind, kind)}://{account}{parts.netloc}{parts.path}{query}"}

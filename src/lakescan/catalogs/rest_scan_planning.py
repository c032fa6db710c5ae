"""Scan planning by the server of a REST catalog: submits, polls and cancels plans, and fetches plan tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakescan.catalogs.registry import CatalogConfiguration, configuration_of, connection_with
from lakescan.catalogs.rest_credentials import credentials_in, server_settings, source_for
from lakescan.catalogs.rest_session import (
    CANCEL_PLAN,
    PLAN,
    PLAN_RESULT,
    PLAN_TASKS,
    RestSession,
    is_rest,
    message_of,
    response_object,
)
from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.errors import CorruptMetadata, InvalidOption, NoSuchTable, StorageError, UnsupportedFeature
from lakescan.iceberg.scan.server_side_planning import CompletedPlan

_LOG = logging.getLogger("lakescan")
MODE, CLIENT, SERVER = "scan-planning-mode", "client", "server"
_TIMEOUT, _DEFAULT_TIMEOUT = "rest-scan-planning.poll-timeout-ms", 300_000  # as in Iceberg's client
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10  # seconds between polls of a plan


@dataclass(frozen=True)
class CatalogPlanner:
    """A `PlanningServer` for a table of a REST catalog. Can be pickled for other processes."""

    catalog: str
    table: tuple[str, ...]
    configuration: CatalogConfiguration

    @property
    def name(self) -> str:
        """The table's name, including its catalog."""
        return ".".join((self.catalog, *self.table))

    def planned(self, request: Mapping[str, Any]) -> CompletedPlan:
        """Submit a plan (`PlanTableScanRequest`), and wait until the server has completed it.

        Raises `NoSuchTable`, `UnsupportedFeature` if the server cannot plan this scan, `StorageError` if planning fails
        or takes too long, and `CorruptMetadata` for an unreadable response.
        """
        session = self._session
        answer = self._answer("POST", f"{session.table_path(self.table)}/plan", dict(request))
        plan_id = answer.get("plan-id")
        try:
            if answer.get("status") == "submitted":
                answer = self._await_plan(str(plan_id))
        except BaseException:  # no reader waits for the plan any more
            if plan_id is not None:
                self.cancel(str(plan_id))
            raise
        self._check(answer, "completed")
        credentials = credentials_in(answer, f"the plan of {self.name}", server_settings(self._connection))
        source = source_for(self._connection, self.table, plan_id) if credentials else None
        return CompletedPlan(answer, None if plan_id is None else str(plan_id), credentials, source)

    def tasks(self, plan_task: str) -> Mapping[str, Any]:
        """Fetch the scan tasks of a plan task, as the JSON object of the response; raises the errors of `planned`."""
        if not self._session.has(PLAN_TASKS):
            raise self._missing_endpoint(PLAN_TASKS)
        return self._answer("POST", f"{self._session.table_path(self.table)}/tasks", {"plan-task": plan_task})

    def cancel(self, plan_id: str) -> None:
        """Cancel a plan if the server supports it. A failure is only logged."""
        try:
            if self._session.has(CANCEL_PLAN):
                self._session.delete(self._path(plan_id))
        except Exception as error:
            _LOG.info("%s: a plan was not cancelled: %s", self.name, error)

    def _await_plan(self, plan_id: str) -> Mapping[str, Any]:
        """Poll a plan while it is "submitted"; return the final response as JSON. Raises `StorageError` on timeout."""
        if not self._session.has(PLAN_RESULT):
            raise self._missing_endpoint(PLAN_RESULT)
        seconds = int(self._connection.properties.get(_TIMEOUT, _DEFAULT_TIMEOUT)) / 1000
        attempts = Attempts(RetryPolicy(None, _FIRST_WAIT, ceiling=min(_LONGEST_WAIT, seconds), timeout=seconds))
        while True:
            answer = self._answer("GET", self._path(plan_id), None)
            if answer.get("status") != "submitted":
                return answer
            if not attempts.wait():
                raise StorageError(
                    f"{self.name}: the catalog has not planned the scan within {seconds:g} s. Narrow it by a filter, "
                    f"or give the catalog more time by its property {_TIMEOUT}."
                )

    def _check(self, answer: Mapping[str, Any], wanted: str) -> None:
        status = answer.get("status")
        if status == wanted:
            return
        if status in ("failed", "cancelled"):
            error = answer.get("error")
            message = error.get("message") if isinstance(error, dict) else error
            why = f": {message}" if message else ""
            raise StorageError(f"{self.name}: the catalog's plan of the scan is {status}{why}")
        raise CorruptMetadata(f"{self.name}: the catalog reports the plan of the scan as {status!r}, not {wanted}")

    def _answer(self, method: str, path: str, body: Any) -> Mapping[str, Any]:
        from requests import RequestException

        def renew() -> object:
            return self._connection.load_table(self.table)

        try:
            response = self._session.post(path, body, renew) if method == "POST" else self._session.get(path, renew)
        except RequestException as error:
            raise StorageError(f"{self.name}: the catalog failed to respond about a plan: {error}") from error
        if response.status_code == 404 and "NoSuchTable" in response.text:
            raise NoSuchTable(f"{self.name}: {message_of(response)}")
        if response.status_code in (405, 406, 501):
            raise UnsupportedFeature(f"planning this scan of {self.name} by its catalog", message_of(response))
        if response.status_code != 200:
            raise StorageError(f"{self.name}: the catalog does not plan the scan: {message_of(response)}")
        return response_object(response)

    def _missing_endpoint(self, endpoint: str) -> UnsupportedFeature:
        return UnsupportedFeature(
            f"this plan of {self.name}", f"Its catalog's server requires {endpoint} for it, but lacks the endpoint."
        )

    def _path(self, plan_id: str) -> str:
        from urllib.parse import quote

        return f"{self._session.table_path(self.table)}/plan/{quote(plan_id, safe='')}"

    @property
    def _connection(self) -> Any:
        return connection_with(self.catalog, self.configuration)

    @property
    def _session(self) -> RestSession:
        return RestSession(self._connection)


@dataclass(frozen=True)
class ServerPlanning:
    """Whether the server of a REST catalog or this process plans scans of a table, by the server's configuration.

    `demanded` is the mode in the table's configuration: 'client', 'server' or None. `usual` is the mode in the
    catalog's configuration. Pickled for other processes, which may not have the catalog's configuration.
    """

    demanded: str | None
    usual: str | None
    configuration: CatalogConfiguration

    @staticmethod
    def find(catalog: Any, table: Any) -> ServerPlanning | None:
        """Return the planning mode of a loaded pyiceberg table; None for a catalog that is not of type rest."""
        if not is_rest(catalog):
            return None
        return ServerPlanning(table.config.get(MODE), catalog.properties.get(MODE), configuration_of(catalog.name))

    def planner(self, catalog: str, table: tuple[str, ...], mode: str | None) -> CatalogPlanner | None:
        """Return the server that plans scans of a table, or None if this process plans.

        `mode` is the reader's choice, or None. Raises `InvalidOption` if the table's configuration demands the other
        mode, and `UnsupportedFeature` if the server cannot plan.
        """
        demanded = self.demanded
        if demanded is not None and mode is not None and mode != demanded:
            raise InvalidOption(
                f"{MODE}={mode}: the catalog demands {demanded!r} for {'.'.join((catalog, *table))}. Leave the option "
                "out."
            )
        if (demanded or mode or self.usual or CLIENT) != SERVER:
            return None
        found = CatalogPlanner(catalog, table, self.configuration)
        if not RestSession(connection_with(catalog, self.configuration)).has(PLAN):
            raise UnsupportedFeature(
                f"scans of {found.name} that its catalog plans ({MODE}={SERVER})",
                f"Its server does not have the endpoint {PLAN}. Read with {MODE}={CLIENT}.",
            )
        return found

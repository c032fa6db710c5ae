from __future__ import annotations

from tests.support import own_catalog

local, no_other_catalogs = own_catalog.local, own_catalog.no_other_catalogs

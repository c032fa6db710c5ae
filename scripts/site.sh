#!/usr/bin/env bash
# The documents as a site, in build/site. SITE_VENV names the environment; it is made from the lock file's group `docs`.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="$(command -v uv || echo build/uv/bin/uv)"
venv="${SITE_VENV:-$PWD/build/site-venv}"
UV_PROJECT_ENVIRONMENT="$venv" "$uv" sync --quiet --frozen --no-default-groups --only-group docs --python .venv/bin/python
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict --quiet --site-dir "${SITE:-build/site}"

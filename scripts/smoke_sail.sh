#!/usr/bin/env bash
# Sail in an environment of its own: what docs/guides/sail.md promises.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="$(command -v uv || echo build/uv/bin/uv)"
"$uv" venv --quiet --allow-existing --python .venv/bin/python .venv-sail
"$uv" pip install --quiet --python .venv-sail/bin/python 'pysail==0.7.*' 'pyspark-client==4.1.*' 'pandas<3' \
    -e '.[iceberg,delta,sql]'
.venv-sail/bin/python -m tests.support.sail_smoke

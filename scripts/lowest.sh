#!/usr/bin/env bash
# The tests without Spark with the lowest versions that pyproject.toml allows, in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="$(command -v uv || echo build/uv/bin/uv)"
"$uv" venv --quiet --clear --python "${UV_PYTHON:-3.11}" .venv-lowest
"$uv" pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct -e '.[all]' \
    'deltalake>=1.6,<2' 'pytest>=8' 'pytest-xdist>=3.6' 'hypothesis>=6.120' 'moto[s3]>=5' 'flask>=3' 'flask-cors>=5' 'pyiceberg[hive]>=0.11,<1'
"$uv" pip freeze --quiet --python .venv-lowest/bin/python
.venv-lowest/bin/python -m pytest -q -n 2 -m "not spark and not slow" tests/planning tests/iceberg tests/delta tests/tables

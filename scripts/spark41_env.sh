#!/usr/bin/env bash
# The environment of the oldest supported PySpark; PYSPARK=4.2 names another.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="$(command -v uv || echo build/uv/bin/uv)"
"$uv" venv --quiet --allow-existing --python .venv/bin/python .venv-spark41
"$uv" pip install --quiet --python .venv-spark41/bin/python "pyspark[connect]==${PYSPARK:-4.1}.*" 'pandas<3' \
    -e '.[iceberg,delta,sql,encryption]' deltalake pytest pytest-timeout pytest-xdist hypothesis 'moto[s3]' flask flask-cors boto3

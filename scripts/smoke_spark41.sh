#!/usr/bin/env bash
# The oldest supported PySpark: one read of each format, and frames that are whole and of one state.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/spark41_env.sh
.venv-spark41/bin/python -m pytest tests/spark/test_smoke.py tests/spark/test_one_state.py -q -n 2

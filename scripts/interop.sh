#!/usr/bin/env bash
# Tables written by the JVM implementations on PySpark 4.1 and by Flink, read here: an environment of its own, JARs from Maven.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/spark41_env.sh
scripts/flink.sh
.venv-spark41/bin/python -m pytest interop -q -n 2 --dist loadfile "$@"

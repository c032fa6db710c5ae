#!/usr/bin/env bash
# The libraries of Flink with Iceberg's connector, for interop/flink: from Maven to build/flink.
set -euo pipefail
cd "$(dirname "$0")/.."
pom=interop/flink/pom.xml
[ build/flink/complete -nt "$pom" ] && exit 0
if ! command -v mvn >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends maven >/dev/null
    else
        echo "Maven is needed for Flink's libraries and was not found: install it, e.g. apt-get install maven" >&2
        exit 1
    fi
fi
mvn -q -B -f "$pom" dependency:copy-dependencies -DoutputDirectory="$PWD/build/flink"
touch build/flink/complete

#!/usr/bin/env bash
# Make the local environment from the lock file, and see that Java is there for Spark.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

find_uv() {
    if command -v uv >/dev/null 2>&1; then
        command -v uv
        return
    fi
    if [ ! -x build/uv/bin/uv ]; then
        say "installing uv into build/uv"
        python3 -m venv build/uv
        build/uv/bin/python -m pip install --quiet uv
    fi
    echo build/uv/bin/uv
}

java_version() {
    # Prints the major version, or nothing. A JAVA_HOME wins, as it does for Spark.
    local java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
    command -v "$java" >/dev/null 2>&1 || return 0
    "$java" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1
}

need_java() {
    local found
    found="$(java_version)"
    if [ -n "$found" ] && [ "$found" -ge 17 ]; then
        return
    fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "Java 17+ is needed for Spark (found: ${found:-none}): installing openjdk-17-jre-headless"
        apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null
        return
    fi
    say "Java 17 or newer is needed for Spark and was not found (${found:-none}): install it, e.g. apt-get install openjdk-17-jre-headless, brew install openjdk@17"
    exit 1
}

need_java
uv="$(find_uv)"
"$uv" sync --frozen --quiet --extra all --extra ray --extra dask

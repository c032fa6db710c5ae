#!/usr/bin/env bash
# The guided fuzz, in an environment that has Atheris beside what .venv has: fuzz.sh MINUTES.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="$(command -v uv || echo build/uv/bin/uv)"
if [ ! -x build/fuzz/bin/python ]; then
    "$uv" venv --quiet --python .venv/bin/python build/fuzz
    "$uv" pip install --quiet --python build/fuzz/bin/python "atheris>=3,<4"
    site='import site; print(site.getsitepackages()[0])'
    .venv/bin/python -c "$site" >"$(build/fuzz/bin/python -c "$site")/venv.pth"
fi
PYTHONPATH="$PWD/src:$PWD" exec nice build/fuzz/bin/python -m tests.fuzz.guided --minutes "${1:-10}"

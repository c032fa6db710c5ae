#!/usr/bin/env bash
# The built wheel, as an index takes it and `pip install` gives it: fresh environments, nothing of the checkout's own.
# With all extras, the README's blocks run; with each extra alone, what that extra promises.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="$(command -v uv || echo build/uv/bin/uv)"
out=build/wheel
rm -rf "$out"
mkdir -p "$out"
"$uv" build --quiet --wheel --out-dir "$out/dist"

# The same bytes each time, from sources of another age, too.
cp -r pyproject.toml README.md LICENSE src "$out/" && find "$out/src" -type f -exec touch -d 2001-02-03 {} +
"$uv" build --quiet --wheel --out-dir "$PWD/$out/again" "$out"
cmp "$out"/dist/lakescan-*.whl "$out"/again/lakescan-*.whl
wheel="$(ls "$PWD/$out"/dist/lakescan-*.whl)"

# What a package index requires of both distributions, and the README on its page; what a wheel must not hold.
"$uv" build --quiet --sdist --out-dir "$out/dist"
UV_PROJECT_ENVIRONMENT="$PWD/$out/release" "$uv" sync --quiet --frozen --no-default-groups --only-group release \
    --python .venv/bin/python
"$out/release/bin/twine" check --strict "$out"/dist/lakescan-*
# Its links must lead somewhere there, too: an index has no folders beside a README.
"$out/release/bin/python" - "$wheel" <<'END'
import re, sys, zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    metadata = next(wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
relative = re.findall(r"\]\((?!https?://|#)[^)]*\)", metadata)
sys.exit(f"links of the README lead nowhere on an index's page: {relative}" if relative else 0)
END
"$out/release/bin/check-wheel-contents" "$wheel"

install() { # install NAME REQUIREMENT...
    "$uv" venv --quiet --python .venv/bin/python "$out/$1"
    "$uv" pip install --quiet --python "$out/$1/bin/python" "${@:2}"
}

install all "$wheel[all]" deltalake  # which makes the tables of samples/
PYSPARK_PYTHON="$PWD/$out/all/bin/python" "$out/all/bin/python" -m tests.support.readme "$out/readme"

for extra in core fast sql iceberg delta frames cli encryption spark ray dask daft; do
    if [ "$extra" = core ]; then install "$extra" "$wheel"; else install "$extra" "$wheel[$extra]"; fi
    mkdir -p "$out/scratch/$extra"
    PYSPARK_PYTHON="$PWD/$out/$extra/bin/python" \
        "$out/$extra/bin/python" -m tests.support.extras "$extra" "$out/readme/shop" "$out/scratch/$extra"
done
rm -rf "$out"

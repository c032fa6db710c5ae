#!/usr/bin/env bash
# The bill of materials of lakescan with all extras, from uv.lock, as CycloneDX 1.5: sbom.sh FILE.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="$(command -v uv || echo build/uv/bin/uv)"
mkdir -p "$(dirname "${1:-build/sbom.json}")"
"$uv" export --frozen --quiet --no-dev --extra all --preview-features sbom-export \
    --format cyclonedx1.5 --output-file "${1:-build/sbom.json}" >/dev/null

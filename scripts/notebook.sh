#!/usr/bin/env bash
# A notebook in JupyterLab, in an environment of its own (build/notebook-venv): scripts/notebook.sh NAME.
set -euo pipefail
cd "$(dirname "$0")/.."
file="notebooks/$1.ipynb"
if [ ! -f "$file" ]; then
    echo "there is no $file; choose one of: $(basename -s .ipynb notebooks/*.ipynb | xargs)" >&2
    exit 2
fi
uv="$(command -v uv || echo build/uv/bin/uv)"
venv="${NOTEBOOK_VENV:-$PWD/build/notebook-venv}"
"$uv" venv --quiet --allow-existing --python .venv/bin/python "$venv"
"$uv" pip install --quiet --python "$venv/bin/python" 'jupyterlab>=4,<5' -e '.[all]'
PATH="$venv/bin:$PATH" exec "$venv/bin/jupyter" lab ${JUPYTER_ARGS:-} "$file"

#!/bin/sh
# Writes requirements/*.txt anew from pyproject.toml: `make lock`. Needs the network and python3 with venv.
# A different uv may write the files differently, so its version is fixed here.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet uv==0.13.9 packaging==26.4
"$work/venv/bin/python" "$root/scripts/lock.py" --uv "$work/venv/bin/uv" --root "$root" --work "$work/project" "$@"

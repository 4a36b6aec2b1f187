#!/bin/sh
# Makes an environment of its own for what reads the descriptions of a bundle (mlcroissant, roc-validator, cffconvert):
# `make test-archive`. Never in our package's: cffconvert 2.0.0 pins a jsonschema that validate cannot use.
# PYTHON: Python 3.11 or newer to make it with (default python3). ARCHIVE_VENV: where it goes (default .venv-archive).
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
venv=${ARCHIVE_VENV:-.venv-archive}
python=${PYTHON:-python3}
wanted=$(cksum <requirements/archive-tools.txt)

if [ "$(cat "$venv/ecocompute-archive" 2>/dev/null)" != "$wanted" ]; then
    "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
        echo "ecocompute: these tools need Python 3.11 or newer with venv; name one: make test-archive PYTHON=python3.12" >&2
        exit 2
    }
    if [ -e "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
        echo "ecocompute: $venv is no virtual environment and is left alone; name another place: make test-archive ARCHIVE_VENV=…" >&2
        exit 2
    fi
    echo "ecocompute: making $venv for mlcroissant, roc-validator and cffconvert; about 60 MB to download."
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements/archive-tools.txt
    echo "$wanted" >"$venv/ecocompute-archive"
fi
echo "ecocompute: ready: $venv/bin/mlcroissant"

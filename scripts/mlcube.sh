#!/bin/sh
# Makes an environment of its own for the mlcube command: `make mlcube`. Never in our package's: mlcube 0.0.9 pins what
# others need newer, and its omegaconf 2.1.0 is refused by every pip since 24.1 (requirements/mlcube.txt has 2.3.0).
# PYTHON: Python 3.11 to 3.13 to make it with (default python3). MLCUBE_VENV: where it goes (default .venv-mlcube).
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) # mlcube too takes the folder's real name
cd "$root"

# Before anything is made: mlcube writes paths into a line for the shell as they are, and a volume ends at a colon.
case $root in
*[[:space:]:\'\"\`\$\&\;\|\<\>\(\)\*\?\\]*)
    printf 'ecocompute: mlcube cannot run from %s: %s %s\n' "'$root'" \
        "it breaks on a path with a space, a colon, a quote or another character that the shell acts on." \
        "Move this checkout, or clone it into a folder without one; with spaces alone, plain docker works from here too." >&2
    exit 2
    ;;
esac
venv=${MLCUBE_VENV:-.venv-mlcube}
python=${PYTHON:-python3}
wanted=$(cat requirements/mlcube-build.txt requirements/mlcube.txt | cksum)

if [ "$(cat "$venv/ecocompute-mlcube" 2>/dev/null)" != "$wanted" ]; then
    "$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || {
        echo "ecocompute: mlcube 0.0.9 and its lock need Python 3.11 to 3.13 with venv; name one: make mlcube PYTHON=python3.12" >&2
        exit 2
    }
    echo "ecocompute: making $venv for mlcube 0.0.9; about 4 MB to download."
    pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes"
    if [ -e "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
        echo "ecocompute: $venv is no virtual environment and is left alone; name another place: make mlcube MLCUBE_VENV=…" >&2
        exit 2
    fi
    rm -rf "$venv"
    "$python" -m venv "$venv"
    $pip --requirement requirements/mlcube-build.txt
    $pip --no-build-isolation --use-pep517 --requirement requirements/mlcube.txt
    echo "$wanted" >"$venv/ecocompute-mlcube"
fi
echo "ecocompute: ready: $venv/bin/mlcube run --task=download,measure,report"

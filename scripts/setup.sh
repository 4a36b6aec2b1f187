#!/bin/sh
# Finds a Python that will do and hands over to setup.py: `make setup`, and the targets that need it.
# Usage: sh scripts/setup.sh run|test|check|fuzz      PYTHON, VENV and TORCH may be set: see setup.py.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
target=${1:?run, test, check or fuzz}

say() { printf '%s\n' "ecocompute: $1" >&2; }

# Exit status: 0 will do, 3 wrong version, 4 venv or ensurepip missing, anything else does not run.
probe() {
    "$1" -c '
import sys
if not (3, 11) <= sys.version_info < (3, 15): sys.exit(3)
try: import ensurepip, venv
except ImportError: sys.exit(4)
' >/dev/null 2>&1
}

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

try() {
    status=0
    probe "$1" || status=$?
    [ "$status" -ne 0 ] || exec "$1" "$root/scripts/setup.py" "$target"
}

say_venv_is_missing() {
    found=$(version "$1")
    say "Python $found is here, but not the part that makes virtual environments; install it (Debian and Ubuntu: sudo apt-get install python$found-venv) and run make again."
    exit 2
}

if [ -n "${PYTHON:-}" ]; then
    try "$PYTHON"
    case $status in
        3) say "PYTHON=$PYTHON is Python $(version "$PYTHON"), and 3.11 to 3.14 is needed; name another one, or none to let make look for one." ;;
        4) say_venv_is_missing "$PYTHON" ;;
        *) say "PYTHON=$PYTHON does not run; name a Python 3.11 to 3.14, or none to let make look for one." ;;
    esac
    exit 2
fi

without_venv=
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    try "$candidate"
    if [ "$status" -eq 4 ]; then without_venv=${without_venv:-$candidate}; fi
done
case ${VENV:=.venv} in /*) try "$VENV/bin/python" ;; *) try "$root/$VENV/bin/python" ;; esac
[ -z "$without_venv" ] || say_venv_is_missing "$without_venv"
say "no Python 3.11 to 3.14 was found (python3 is $(version python3 2>/dev/null || echo missing)); install one (Debian 12, Ubuntu 24.04 and newer: sudo apt-get install python3 python3-venv), or name one: make setup PYTHON=/path/to/python3.12"
exit 2

#!/bin/sh
# The first step of action.yml: installs ecocompute beside the checkout, looks, and leaves what it found.
# Takes its wishes from ECO_…; writes annotations, the job's summary and the step's outputs.
set -eu

work=${RUNNER_TEMP:-/tmp}/ecocompute-lint
mkdir -p "$work"
python=${ECO_PYTHON:-python3}

if [ -z "${ECO_COMMAND:-}" ]; then
    "$python" -m venv "$work/venv"
    "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        -r "$ECO_ACTION/requirements/core.txt"
    # From its own folder, without a build: the command needs its sources alone.
    PYTHONPATH=$ECO_ACTION
    export PYTHONPATH
    ECO_COMMAND="$work/venv/bin/python -m ecocompute_cube.cli"
fi

set --
[ -z "${ECO_GPU:-}" ] || set -- "$@" "--gpu=$ECO_GPU"
base=${ECO_BASE:-${ECO_EVENT_BASE:-}}
if [ -n "$base" ] && [ "$base" != all ]; then
    git cat-file -e "$base^{commit}" 2>/dev/null || git fetch --quiet --depth=1 origin "$base"
    set -- "$@" "--diff=$base"
fi

# shellcheck disable=SC2086  # paths are a list, and the command has arguments
lint() { $ECO_COMMAND lint $ECO_PATHS "$@"; }

status=0
lint "$@" --format github --fail_on "${ECO_FAIL_ON:-warning}" || status=$?
echo "status=$status" >>"$GITHUB_OUTPUT"
[ "$status" -le 1 ] || exit 0 # the last step ends with it

lint "$@" --format sarif --fail_on never --output "$work/lint.sarif" 2>/dev/null
lint "$@" --format markdown --fail_on never --output "$work/lint.md" 2>/dev/null
cat "$work/lint.md" >>"$GITHUB_STEP_SUMMARY"
{
    echo "sarif=$work/lint.sarif"
    echo "markdown=$work/lint.md"
} >>"$GITHUB_OUTPUT"

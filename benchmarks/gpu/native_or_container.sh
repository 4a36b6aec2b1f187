#!/bin/sh
# Does the container cost energy? One plan natively and in the cube, in turn on one board.
#
#   sh benchmarks/gpu/native_or_container.sh PAIRS OUT [name=value… and -P… for mlcube]
#   python -m benchmarks.gpu.alternating OUT/native OUT/cube
#
# Every second pair begins with the cube, so that what drifts hits both alike. ECOCOMPUTE and MLCUBE name the two
# commands, PLAN the plan, MODELS the models folder (downloaded before). A pair lies in folders of its own number; one
# that was cut off is left out of the comparison, and the next call begins after the last.
set -eu
pairs=${1:?how many pairs} out=$(mkdir -p "${2:?a folder}" && cd "$2" && pwd)
shift 2
here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
plan=${PLAN:-$here/data/h200/plans/native-or-container.yaml}
models=$(cd "${MODELS:-$here/workspace/models}" && pwd)

native() {
    ${ECOCOMPUTE:-ecocompute} measure --parameters_file "$plan" --models_dir "$models" --output_dir "$out/native/$pair"
}

cube() {
    ${MLCUBE:-mlcube} run --mlcube="$here" --task=measure --platform=docker -- \
        "parameters_file=$plan" "models_dir=$models/" "output_dir=$out/cube/$pair/" "$@"
}

pair=1
while [ -e "$out/native/$pair" ] || [ -e "$out/cube/$pair" ]; do pair=$((pair + 1)); done
last=$((pair + pairs - 1))
while [ "$pair" -le "$last" ]; do
    echo "pair $pair of $last"
    [ $((pair % 2)) -eq 1 ] || cube "$@"
    native
    [ $((pair % 2)) -eq 0 ] || cube "$@"
    pair=$((pair + 1))
done

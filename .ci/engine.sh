# Docker Engine of CI's own, and a base image made from Debian's packages: no registry is asked. Sourced by .ci/run.
#
#   start_engine DIR     starts dockerd with everything it writes in DIR, and points docker at it
#   stop_engine          ends that daemon, by its pid, and no other
#   make_base TAG DIR    imports a stand-in for debian:bookworm-slim that knows this machine's package index
#
# Needs root, and Debian's docker.io and debootstrap.

start_engine() {
    engine_dir=$1
    mkdir -p "$engine_dir"
    export DOCKER_HOST="unix://$engine_dir/docker.sock"
    setsid dockerd --iptables=false --bridge=none --storage-driver=overlay2 \
        --data-root "$engine_dir/data" --exec-root "$engine_dir/exec" --pidfile "$engine_dir/dockerd.pid" \
        --host "$DOCKER_HOST" >"$engine_dir/dockerd.log" 2>&1 </dev/null &
    engine_pid=$!
    for _ in $(seq 60); do
        if docker info >/dev/null 2>&1; then return 0; fi
        sleep 0.5
    done
    echo "dockerd did not answer within 30 s; the end of its log:" >&2
    tail -n 20 "$engine_dir/dockerd.log" >&2
    return 1
}

stop_engine() {
    [ -n "${engine_pid:-}" ] || return 0
    kill "$engine_pid" 2>/dev/null || true
    wait "$engine_pid" 2>/dev/null || true
    engine_pid=
}

make_base() {
    local tag=$1 dir=$2 codename mirror name changes=()
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
    debootstrap --variant=minbase \
        --include=ca-certificates,gcc,libc6-dev,python3,python3-dev,python3-venv \
        "$codename" "$dir/root" "$mirror" >"$dir/debootstrap.log" 2>&1 ||
        { tail -n 20 "$dir/debootstrap.log" >&2; return 1; }
    rm -rf "$dir/root"/var/cache/apt/archives/*.deb "$dir/root"/var/lib/apt/lists/* || return 1
    # What makes this machine's pip reach its index makes the builder's reach it too: certificates,
    # and the settings in PIP_*. The CPU build of torch comes along, for it stands in no default index.
    cp /etc/ssl/certs/ca-certificates.crt "$dir/root/etc/ssl/certs/ca-certificates.crt" || return 1
    mkdir "$dir/root/wheels" || return 1
    python3 -m pip download --quiet --no-deps --require-hashes --only-binary=:all: \
        --requirement requirements/torch-cpu.txt --dest "$dir/root/wheels" >"$dir/wheel.log" 2>&1 ||
        { echo "pip finds no CPU build of torch for the image:" >&2; tail -n 5 "$dir/wheel.log" >&2; return 1; }
    changes=(--change "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        --change "ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt" --change "ENV PIP_FIND_LINKS=/wheels")
    for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL; do
        [ -z "${!name:-}" ] || changes+=(--change "ENV $name=${!name}")
    done
    tar -C "$dir/root" -c . | docker import "${changes[@]}" - "$tag" >/dev/null || return 1
    rm -rf "$dir/root"
}

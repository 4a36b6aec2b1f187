# EcoCompute cube: the `ecocompute` command in an image, for mlcube and for plain `docker run`.
#
#   docker build --tag ecocompute-cube:0.1.0 --build-arg "REVISION=$(git describe --always --dirty --exclude='*')" .
#
# BASE_IMAGE  a Debian or Ubuntu whose python3 is 3.11 to 3.14
# TORCH       cuda: the torch that the boards in data/ ran, with its CUDA libraries; the driver's come from the host.
#             cpu:  the small build, for rehearsals, where pip can find it (requirements/README.md says how)
# REVISION    the commit that the image is made from; it stands in a label and in every journal
#
# No heredocs and no mounts: a builder without BuildKit takes it. No token, no user, no model goes in.

ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}

# The compiler and Python's headers are for what torch.compile and Triton build at run time.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        ca-certificates gcc libc6-dev python3 python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*

ARG TORCH=cuda
COPY requirements/build.txt requirements/measure.txt requirements/image-torch.txt requirements/torch-cpu.txt \
     /opt/ecocompute/requirements/
RUN case "$TORCH" in \
        cuda) torch=image-torch.txt ;; \
        cpu) torch=torch-cpu.txt ;; \
        *) echo "TORCH=$TORCH is not known; it is cuda or cpu." >&2; exit 2 ;; \
    esac \
 && python3 -m venv /opt/venv \
 && cd /opt/ecocompute/requirements \
 && /opt/venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check --progress-bar=off \
        --no-deps --require-hashes --only-binary=:all: \
        --requirement build.txt --requirement measure.txt --requirement "$torch" \
 && chmod -R a+rX /opt

COPY pyproject.toml README.md LICENSE NOTICE THIRD_PARTY.md /opt/ecocompute/
COPY ecocompute_cube/ /opt/ecocompute/ecocompute_cube/
RUN /opt/venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
        --no-deps --no-index --no-build-isolation /opt/ecocompute \
 && chmod -R a+rX /opt/ecocompute /opt/venv/lib/python3*/site-packages/ecocompute_cube*

ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="EcoCompute cube" \
      org.opencontainers.image.description="Does quantizing a language model save energy on this GPU?" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# Any uid: HOME and USER hold for one that no passwd entry names. `utility` is NVML, `compute` is CUDA.
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp USER=ecocompute \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    ECO_IMAGE=${VERSION}+${REVISION}

# Defaults of the command lie below workspace/, so `-v "$PWD/workspace:/workspace"` is all a plain run needs.
WORKDIR /
USER 65534:65534
ENTRYPOINT ["/opt/venv/bin/ecocompute"]
CMD ["--help"]

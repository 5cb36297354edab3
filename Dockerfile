# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# These commands build the image and start a server:
#
#   docker build -t warpfold .
#   docker run --gpus all -p 127.0.0.1:50051:50051 --read-only --cap-drop ALL warpfold --allow_insecure
#
# The server listens on every address of the container, so it starts only with a certificate and its key
# (docs/operating.md) or with --allow_insecure. Other flags of warpfold-server also follow the image's name.
# A release pins its base images by digest, as docs/operating.md shows: the base image of --build-arg
# RUNTIME_DIGEST=sha256:... is the one that is pulled, and the image's label names the same digest.
ARG BUILD_IMAGE=nvidia/cuda:13.0.2-devel-ubuntu24.04
ARG BUILD_DIGEST=
ARG RUNTIME_IMAGE=nvidia/cuda:13.0.2-base-ubuntu24.04
ARG RUNTIME_DIGEST=

FROM ${RUNTIME_IMAGE}${RUNTIME_DIGEST:+@}${RUNTIME_DIGEST} AS base

FROM ${BUILD_IMAGE}${BUILD_DIGEST:+@}${BUILD_DIGEST} AS build
ARG CUDA=ON
# The sources are compiled once for each architecture. The last one is also embedded as PTX, which drivers
# can translate for future GPUs (docs/adr/0024).
ARG CUDA_ARCHITECTURES=75-real;80-real;86-real;89-real;90-real;100-real;120
WORKDIR /src
COPY deploy/install_packages.sh deploy/
RUN deploy/install_packages.sh build
COPY . .
RUN cmake --preset release -DWARPFOLD_CUDA="${CUDA}" -DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES}" \
    && cmake --build --preset release --target warpfold-server warpfold \
    && strip build/release/bin/warpfold-server build/release/bin/warpfold
ARG RUNTIME_IMAGE
ARG VERSION=0.1.0
COPY --from=base /var/lib/dpkg/status /tmp/base-status
RUN python3 -B deploy/sbom.py build/release /tmp/base-status "${RUNTIME_IMAGE}" "${VERSION}" >sbom.spdx.json \
    && python3 -B deploy/notices.py build/release >notices.txt && gzip -9 --no-name notices.txt

# The image has no driver: the NVIDIA container toolkit mounts the libraries of the host's driver.
FROM base
ARG RUNTIME_IMAGE
ARG RUNTIME_DIGEST
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Warpfold" \
      org.opencontainers.image.description="gRPC service that reduces arrays on a GPU" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Warpfold Authors" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${RUNTIME_IMAGE}" \
      org.opencontainers.image.base.digest="${RUNTIME_DIGEST}"
COPY --from=build /src/build/release/bin/warpfold-server /src/build/release/bin/warpfold /usr/local/bin/
COPY --from=build /src/sbom.spdx.json /src/notices.txt.gz /src/LICENSE /usr/local/share/warpfold/
# The server needs no root privileges. Any other user works as well, because the server writes no files.
USER 65532:65532
EXPOSE 50051 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["/usr/local/bin/warpfold", "health"]
ENTRYPOINT ["/usr/local/bin/warpfold-server", "--listen=0.0.0.0:50051"]

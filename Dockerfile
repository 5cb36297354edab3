# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
#   docker build -t warpfold .
#   docker run --gpus all -p 50051:50051 warpfold
#
# Further flags of warpfold-server go after the image's name.
ARG BUILD_IMAGE=nvidia/cuda:13.0.2-devel-ubuntu24.04
ARG RUNTIME_IMAGE=nvidia/cuda:13.0.2-base-ubuntu24.04

FROM ${BUILD_IMAGE} AS build
ARG CUDA=ON
# Each is a compilation of its own; the last also as PTX, for GPUs to come (docs/adr/0024).
ARG CUDA_ARCHITECTURES=75-real;80-real;86-real;89-real;90-real;100-real;120
WORKDIR /src
COPY deploy/install_packages.sh deploy/
RUN deploy/install_packages.sh build
COPY . .
RUN cmake --preset release -DWARPFOLD_CUDA="${CUDA}" -DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES}" \
    && cmake --build --preset release \
    && strip build/release/bin/warpfold-server build/release/bin/warpfold

# The driver's libraries come from the host, through the NVIDIA container toolkit.
FROM ${RUNTIME_IMAGE}
COPY --from=build /src/build/release/bin/warpfold-server /src/build/release/bin/warpfold /usr/local/bin/
# Nobody in particular; not root.
USER 65532:65532
EXPOSE 50051
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["/usr/local/bin/warpfold", "health"]
ENTRYPOINT ["/usr/local/bin/warpfold-server", "--listen=0.0.0.0:50051"]

#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# container_test.sh FOLDER [TOOLS]: builds the Dockerfile and checks the result, without a Docker daemon or a
# registry: buildah builds, on a stand-in for both base images that debootstrap makes from this machine's own
# package sources. FOLDER keeps that stand-in for the next run. The compiler's cache is the machine's: the
# same compiler with the same options has already left there what the release consists of. TOOLS is for
# check_image.sh.
#
# WARPFOLD_CUDA_TOOLKIT=/usr/local/cuda also builds the image with the cuda backend, with the toolkit mounted
# into the build, for all its architectures or those in WARPFOLD_CUDA_ARCHITECTURES: this takes hours on two
# cores. WARPFOLD_KEEP=FOLDER copies the image's executables there, for a machine that has a GPU.
# Exit code 77: skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_folder=$(cd "$here/../.." && pwd)

# shellcheck source=/dev/null
. "$here/stand_in.sh"

((EUID == 0)) || skip "needs root"
for tool in buildah capsh ccache debootstrap ip unshare; do
  type -P "$tool" >/dev/null || skip "needs $tool (deploy/install_packages.sh build test)"
done

unshare --net --mount true 2>/dev/null || skip "may not make namespaces"

mkdir -p "$1"
folder=$(cd "$1" && pwd)
base=$folder/base.tar
store=$folder/store
buildah=(buildah --storage-driver vfs --root "$store/root" --runroot "$store/run")

build_image() {
  local container
  container=$("${buildah[@]}" from scratch)
  "${buildah[@]}" add --quiet "$container" "$base" / >/dev/null
  "${buildah[@]}" commit --quiet --rm "$container" stand-in >/dev/null
  digest=$("${buildah[@]}" images --format '{{.Digest}}' stand-in)
  echo "Building the image"
  local cache
  cache=$(ccache --get-config cache_dir)
  mkdir -p "$cache" "$folder/ccache"
  # With other settings (above all of compiler_check) nothing would be found.
  ccache --show-config | sed -n '/^(default)/!s/^([^)]*) //p' | sed '/^cache_dir /d' \
    >"$folder/ccache/ccache.conf"
  local cuda=(--build-arg CUDA=OFF)
  if [[ -n ${WARPFOLD_CUDA_TOOLKIT-} ]]; then
    # Mounted read-only, at the same place: vfs would copy it into every layer.
    cuda=(--build-arg CUDA=ON --volume "$(realpath "$WARPFOLD_CUDA_TOOLKIT"):/usr/local/cuda:ro")
    if [[ -n ${WARPFOLD_CUDA_ARCHITECTURES-} ]]; then
      cuda+=(--build-arg "CUDA_ARCHITECTURES=$WARPFOLD_CUDA_ARCHITECTURES")
    fi
  fi
  # Health checks are not in the OCI format.
  "${buildah[@]}" bud --isolation chroot --format docker --pull-never \
    --volume "$cache:/root/.cache/ccache" --volume "$folder/ccache:/root/.config/ccache:ro" \
    --ignorefile "$source_folder/.dockerignore" \
    --build-arg BUILD_IMAGE=localhost/stand-in --build-arg RUNTIME_IMAGE=localhost/stand-in \
    --build-arg RUNTIME_DIGEST="$digest" --build-arg REVISION=0123abcd "${cuda[@]}" \
    --tag warpfold --file "$source_folder/Dockerfile" "$source_folder"
}

clean_up() {
  "${buildah[@]}" rm --all >/dev/null 2>&1 || true
  rm -rf "$store"
}
trap clean_up EXIT

make_base "$folder"
rm -rf "$store"
build_image
# The image's port is fixed: in a separate network nothing else listens on it.
unshare --net "$here/check_image.sh" "$base" "$digest" "${2-}" "${buildah[@]}"

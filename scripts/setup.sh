#!/bin/bash
# Installs the Debian 12 packages that accelopt is built from and runs with; only what is missing.
# Usage: scripts/setup.sh [--tests]      --tests adds what only the tests need (Slurm, munge)
set -euo pipefail

packages=(
  # build
  g++ cmake ninja-build ccache pkg-config
  # MPI; ssh is what Open MPI looks for even on one machine
  libopenmpi-dev openmpi-bin openssh-client
  # libraries
  libhdf5-dev libzstd-dev libyaml-cpp-dev nlohmann-json3-dev libfmt-dev libspdlog-dev libcli11-dev
  libcurl4-openssl-dev libssl-dev libdnnl-dev libhwy-dev ca-certificates
  # the embedded Python: parser of kernels, numpy references (the plain BLAS is 20 times slower)
  libpython3-dev pybind11-dev python3-numpy libopenblas0-pthread
  # unit tests, test server, analysis
  catch2 libcpp-httplib-dev python3-h5py python3-pandas python3-matplotlib
)
test_packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge zstd)

case "${1:-}" in
  "") ;;
  --tests) packages+=("${test_packages[@]}") ;;
  *) echo "usage: scripts/setup.sh [--tests]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup.sh installs Debian packages, and this system has no apt-get. Install the equivalents of:" >&2
  echo "  ${packages[*]}" >&2
  echo "then build with scripts/build.sh" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ $state == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

release=$(. /etc/os-release && echo "${ID:-unknown} ${VERSION_ID:-}")
if [[ $release != "debian 12" ]]; then
  echo "setup: made for Debian 12, this is \"$release\"; package names may differ" >&2
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: not root and no sudo; let an administrator run:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
echo "setup: done"

# Sourced by quickstart, test and lint: which Debian packages a build and the suites take.

build_packages=(g++ meson ninja-build pkg-config libspdlog-dev libhwloc-dev libsodium-dev libhwy-dev
                libcli11-dev nlohmann-json3-dev libxxhash-dev iproute2 python3)
test_packages=(catch2 libucx-dev libtorch-dev cmake clang clang-format clang-tidy libclang-rt-14-dev lld shellcheck
               git patchelf python3-venv)

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# install_packages PACKAGE...: prints what is missing and installs it; does nothing when all is there.
install_packages() {
  local package missing=() as_root=()
  for package in "$@"; do
    installed "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    echo "packages: all of them are installed ($*)"
    return 0
  fi
  if ! command -v apt-get >/dev/null; then
    echo "packages: not a Debian system; install what matches these and run this again: ${missing[*]}" >&2
    return 1
  fi
  echo "packages to install: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "packages: this needs root. As root run: apt-get install -y ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  # Another apt may be at work, and a mirror may fail once.
  local apt=(apt-get -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600)
  local tries=10  # update waits for no lock
  until "${as_root[@]}" "${apt[@]}" update -qq; do
    tries=$((tries - 1))
    if [ "$tries" -eq 0 ]; then return 1; fi
    sleep 6
  done
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
  echo "packages: installed ${missing[*]}"
}

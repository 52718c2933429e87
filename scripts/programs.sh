# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154,SC2178 # shared with scripts/test; lists by name
# How scripts/test runs programs: which beside which, how each is counted, and how long it took. Sourced by it.
#
# A test program mostly waits: for a deadline, a timer, a process. Some compute, or keep CPUs busy while they
# wait, as MPI does. So what is queued is in a lane, and a set begins when its build is there, while programs of
# the sets before it still run:
#
#   waits     three programs a CPU run at once, of this lane and the next together
#   computes  one a CPU of them, as long as others wait for their turn
#   idle      what only computes, without a deadline: at a low priority beside the others
#   build     one at a time, at the same priority when others run
#   alone     when nothing runs but one of the lane idle

readonly lanes=(build waits computes idle alone)
cpus=$(nproc)
((cpus <= 4)) || cpus=4 # deadlines are those of a small machine
readonly cpus at_once=$((3 * cpus))

declare -A queued=()  # how many of a lane
declare -A running=() # the same
declare -A left=()    # how many programs of a set have not ended
declare -A lane_of=() # of a process of this shell
declare -A set_of=()  # of the same
declare -A span_of=() # of the same, what began and ended is told of: a set or a build
declare -A began_s=() ended_s=()
spans=()
queue_build=() queue_waits=() queue_computes=() queue_idle=() queue_alone=()
for lane in "${lanes[@]}"; do
    queued[$lane]=0 running[$lane]=0
done

# ---- one program --------------------------------------------------------------------------------

# The cases of a TAP file that passed, failed or were skipped. Criterion tells of a case that a filter leaves out, too:
# that one is not part of the run.
passed_in() { sed -n '/# SKIP/d; /^ok /p' "$@"; }
skipped_in() { sed -n '/# SKIP test was skipped$/d; /^ok .*# SKIP/p' "$@"; }
left_out_in() { sed -n '/^ok .*# SKIP test was skipped$/p' "$@"; }
failed_in() { sed -n '/^not ok /p' "$@"; }

# wrongly_skipped_in TAP...   Those of the default sets whose reason tests/skips.tsv does not have.
wrongly_skipped_in() {
    awk -F'\t' -v tap="^$out/(tree|demo|python|install|attack|release)/" '
        FILENAME == "tests/skips.tsv" { if (!/^#/) { reasons[++n] = $1 } next }
        FILENAME !~ tap || !/^ok .*# SKIP/ || /# SKIP test was skipped$/ { next }
        {
            reason = $0
            sub(/.*# SKIP */, "", reason)
            for (i = 1; i <= n; i++)
                if (reason ~ "^(" reasons[i] ")$") next
            print
        }' tests/skips.tsv "$@"
}

# Every case that a Criterion program planned must have told how it went.
complete_tap() {
    local tap=$1 code=$2 planned told

    touch "$tap" # it is not there if the program could not start
    planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$tap")
    told=$(grep -cE '^(not )?ok ' "$tap") || true
    if [[ -z $planned ]] || ((told < planned)); then
        echo "not ok - ended with exit code $code after $told of ${planned:-?} cases" >>"$tap"
    elif ((code)) && [[ -z $(failed_in "$tap") ]]; then
        echo "not ok - no case failed, but the exit code is $code" >>"$tap"
    fi
}

# Tenths of a second on a CPU, by what a shell had waited for when it wrote its `times` to the file.
cpu_tenths() {
    awk 'NR == 2 {
        split($0, t, /[^0-9]+/)
        printf "%d", (t[1] + t[4]) * 600 + (t[2] + t[5]) * 10 + (t[3] + t[6]) / 100
    }' "$1"
}

# run_program SET KIND NAME COMMAND...   KIND is criterion, plain or tap (TAP on stdout).
# Leaves NAME.tap and NAME.log in the set's folder and prints one line, more when a case failed.
run_program() {
    local set=$1 kind=$2 name=$3 base=$out/$1/$3 code=0 began=$EPOCHREALTIME child report
    local -x ASAN_OPTIONS=log_path=$PWD/$base.report:detect_leaks=1
    local -x LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
    local -x TSAN_OPTIONS=log_path=$PWD/$base.report:second_deadlock_stack=1
    TSAN_OPTIONS+=:suppressions=$PWD/tests/tsan.supp:print_suppressions=0
    local -x UBSAN_OPTIONS=print_stacktrace=1
    # GLib's own pools, in the command, hand memory from thread to thread by locks that no sanitizer sees.
    local -x G_SLICE=always-malloc

    shift 3
    [[ $kind != criterion ]] || set -- "$@" "--tap=$base.tap" -j1
    if [[ $kind == tap ]]; then
        timeout -k 10 "$program_s" "$@" </dev/null >"$base.tap" 2>"$base.log" &
    elif [[ $set/$name == "build/$shown_build" && -t 1 ]]; then
        timeout -k 10 "$program_s" "$@" </dev/null & # nothing else is to be seen meanwhile
    else
        timeout -k 10 "$program_s" "$@" </dev/null >"$base.log" 2>&1 &
    fi
    child=$!
    trap 'kill $child 2>/dev/null' TERM
    wait "$child" || code=$?
    times >"$base.cpu"

    case $kind in
    plain)
        case $code in
        0) echo "ok - $name" ;;
        77) echo "ok - $name # SKIP $(tail -n 1 "$base.log")" ;;
        *) echo "not ok - $name ended with exit code $code" ;;
        esac >"$base.tap"
        ;;
    *) complete_tap "$base.tap" "$code" ;;
    esac
    # A rank whose end nobody looks at still has its sanitizer's words heard.
    for report in "$base".report.*; do
        # LeakSanitizer also notes there that a thread ran on while it looked: no finding.
        grep -qsE 'SUMMARY: |runtime error: ' "$report" || continue
        cat "$report" >>"$base.log"
        echo "not ok - $(sed -n 's/^SUMMARY: //p' "$report" | head -n 1) (${report##*/})" >>"$base.tap"
    done
    tell_program "$set" "$name" "${began//[!0-9]/}"
}

# What a log says of a failure, which may be far from its end, and its end.
words_of_log() {
    grep -nE 'failed|^\[(----|FAIL)|SUMMARY: |runtime error: ' "$1" | head -n 20 || true
    tail -n 40 "$1"
}

# tell_program SET NAME BEGAN   BEGAN in microseconds.
tell_program() {
    local set=$1 name=$2 base=$out/$1/$2 counts tenths

    counts="$(passed_in "$base.tap" | wc -l) passed"
    [[ -z $(skipped_in "$base.tap") ]] || counts+=", $(skipped_in "$base.tap" | wc -l) skipped"
    tenths=$(((${EPOCHREALTIME//[!0-9]/} - $3) / 100000))
    printf '%d %d %s %s\n' "$tenths" "$(cpu_tenths "$base.cpu")" "$set" "$name" >>"$out/$set/times"
    if [[ -z $(failed_in "$base.tap") ]]; then
        printf '%-9s %-28s %s  (%d.%d s)\n' "$set" "$name" "$counts" $((tenths / 10)) $((tenths % 10))
        return
    fi
    counts+=", $(failed_in "$base.tap" | wc -l) FAILED"
    {
        printf '%-9s %-28s %s  (%d.%d s)\n' "$set" "$name" "$counts" $((tenths / 10)) $((tenths % 10))
        failed_in "$base.tap" | sed 's/^/    /'
        [[ ! -e $base.log ]] || words_of_log "$base.log" | cut -c 1-300 | sed 's/^/    | /'
    } >"$base.words"
    cat "$base.words"
}

# ---- all that is queued -------------------------------------------------------------------------

# queue LANE SET KIND NAME COMMAND...   What comes first is started first; see run_program.
queue() {
    local -n queue_of_lane=queue_$1
    local words

    printf -v words '%q ' "${@:2}"
    queue_of_lane+=("$words")
    queued[$1]=$((queued[$1] + 1))
    left[$2]=$((${left[$2]-0} + 1))
}

# Whether one more of the lane may run now.
has_room() {
    local others=$((queued[waits] + queued[computes])) in_time=$((running[waits] + running[computes]))

    case $1 in
    build) ((running[build] == 0)) ;;
    waits) ((in_time < at_once)) ;;
    computes) ((in_time < at_once && running[computes] < (queued[waits] ? cpus : 2 * cpus))) ;;
    idle) ((running[idle] < (others + queued[alone] + running[alone] ? 1 : cpus))) ;;
    alone) ((${#lane_of[@]} <= 1 && ${#lane_of[@]} == running[idle] && others + queued[build] == 0)) ;;
    esac
}

# add_span SPAN BEGAN ENDED
add_span() {
    [[ ${began_s[$1]-} ]] || {
        spans+=("$1")
        began_s[$1]=$2
    }
    ended_s[$1]=$3
}

start_next() {
    local lane=$1 span steps=0 program_s=$program_s
    local -n queue_of_lane=queue_$lane
    local -a program

    eval "program=(${queue_of_lane[0]})"
    queue_of_lane=("${queue_of_lane[@]:1}")
    if [[ $lane == build || $lane == idle ]]; then
        program_s=3600 # it may get what others leave
        [[ $lane == build ]] && ((running[waits] + running[computes] == 0)) || steps=10
    fi
    {
        ((!steps)) || renice -n $steps "$BASHPID" >/dev/null || true
        run_program "${program[@]}"
    } &
    span=${program[0]}
    [[ $span != build ]] || span="build of ${program[2]}"
    add_span "$span" "$SECONDS" "$SECONDS"
    lane_of[$!]=$lane set_of[$!]=${program[0]} span_of[$!]=$span
    queued[$lane]=$((queued[$lane] - 1)) running[$lane]=$((running[$lane] + 1))
}

start_all_with_room() {
    local lane

    for lane in build computes waits idle alone; do
        while ((queued[$lane])) && has_room "$lane"; do
            start_next "$lane"
        done
    done
}

# Waits until one has ended. When it was the last of its set, and there is a function ended_SET, that is called.
await_one() {
    local pid set

    wait -n -p pid "${!lane_of[@]}" || true
    set=${set_of[$pid]}
    running[${lane_of[$pid]}]=$((running[${lane_of[$pid]}] - 1))
    ended_s[${span_of[$pid]}]=$SECONDS
    unset "lane_of[$pid]" "set_of[$pid]" "span_of[$pid]"
    left[$set]=$((left[$set] - 1))
    if ((!left[$set])) && declare -F "ended_$set" >/dev/null; then
        "ended_$set"
    fi
}

# ---- how long it took ---------------------------------------------------------------------------

# Seconds on a CPU of a span, - if nobody has counted them.
cpu_of_span() {
    local set=$1 name=

    [[ $1 != 'build of '* ]] || set=build name=${1#build of }
    awk -v name="$name" '!name || $4 == name { s += $2 } END { print s ? int(s / 10) : "-" }' "$out/$set/times" \
        2>/dev/null || echo -
}

# say_times FOLDER...   What ran when, how long on a CPU, and the longest programs of the folders.
say_times() {
    local span tenths cpu set name

    printf '\n%s\n' "When it ran, in seconds from the beginning, and how long on a CPU ($(nproc) CPUs had $((SECONDS * $(nproc))) s):"
    for span in "${spans[@]}"; do
        printf '  %5d to %5d s  %6s s  %s\n' "${began_s[$span]}" "${ended_s[$span]}" "$(cpu_of_span "$span")" "$span"
    done
    echo "The longest programs, and how long they were on a CPU:"
    { cat "${@/%//times}" 2>/dev/null || true; } | grep -v ' build ' | sort -rn | head -n 12 |
        while read -r tenths cpu set name; do
            printf '  %5d s  %5d s  %s %s\n' $((tenths / 10)) $((cpu / 10)) "$set" "$name"
        done
}

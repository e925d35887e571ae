# What scripts that measure and test `iolane run` share. Sourced, with `set -euo pipefail`, after
# IOLANE (the program) is set.

complain() {
    echo "$1" >&2
    exit 2
}

needs_iolane() { [ -x "$IOLANE" ] || complain "$IOLANE is not there: run make build"; }
needs_root() { [ "$(id -u)" = 0 ] || complain "loop devices, mounts and control groups need root: run with sudo"; }

# needs PACKAGES PROGRAM...
needs() {
    local packages=$1 program
    shift
    for program in "$@"; do
        command -v "$program" >/dev/null || complain "$program is missing: install $packages"
    done
}

# scratch PARENT NAME: makes the folder $folder. However the script ends, its function clean_up
# is called, which removes it.
scratch() {
    folder=$(mktemp --directory "$1/iolane-$2.XXXXXX")
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# make_file_system DEVICE [OPTION...]: one that has nothing left to initialise beside what is measured.
make_file_system() { mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "${@:2}" "$1"; }

# Prints the path of the library that $IOLANE preloads, and looks for it as $IOLANE does.
interposer() {
    local place file
    for place in "" deps/ ../lib/iolane/ ../deps/; do
        file=$(dirname "$IOLANE")/${place}libiolane_interpose.so
        [ ! -f "$file" ] || { echo "$file"; return; }
    done
    complain "libiolane_interpose.so is not beside $IOLANE"
}

# For awk: the median of numbers with blanks between. They are then in list[1] to list[length],
# the least first.
# shellcheck disable=SC2034  # used by those that source this
readonly MEDIAN='
    function median(numbers,   i, j, held) {
        count = split(numbers, list, " ")
        for (i = 2; i <= count; i++)
            for (j = i; j > 1 && list[j] + 0 < list[j - 1] + 0; j--) {
                held = list[j]; list[j] = list[j - 1]; list[j - 1] = held
            }
        return (list[int((count + 1) / 2)] + list[int(count / 2) + 1]) / 2
    }'

# shellcheck shell=sh
# For the scripts of the virtual machine. Results go to the second serial line.
readonly RESULTS=/dev/ttyS1
readonly CONFIG=/sys/kernel/config/nullb

say() { echo "$*" >"$RESULTS"; }

modprobe configfs 2>/dev/null
mount -t configfs configfs /sys/kernel/config
modprobe null_blk nr_devices=0

# null_create NAME KEY=VALUE...: a null_blk device /dev/NAME with one hardware
# queue, if nothing else is said.
null_create() {
    mkdir "$CONFIG/$1" || return 1
    null_name=$1
    shift
    echo 1 >"$CONFIG/$null_name/submit_queues" || return 1
    for pair; do
        echo "${pair#*=}" >"$CONFIG/$null_name/${pair%%=*}" || return 1
    done
    echo 1 >"$CONFIG/$null_name/power" || return 1
    wait_for "/dev/$null_name"
}

null_remove() {
    echo 0 >"$CONFIG/$1/power" 2>/dev/null
    rmdir "$CONFIG/$1"
}

wait_for() {
    tries=0
    until [ -e "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || return 1
        sleep 0.1
    done
}

queue() { echo "/sys/block/$1/queue"; }

scheduler() { echo "$2" >"$(queue "$1")/scheduler"; }

# setting DEVICE NAME VALUE
setting() { echo "$3" >"$(queue "$1")/iosched/$2"; }

# levels DEVICE COLUMN: that column of debugfs for the levels 0 to 4.
levels() {
    awk -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i; next }
        { printf "%s%s", (NR > 2 ? " " : ""), $column } END { print "" }' \
        "/sys/kernel/debug/block/$1/sched/levels"
}

# field JOB NAME < JSON lines of load
field() {
    sed -n "/\"job\":\"$1\"/s/.*\"$2\":\([0-9.]*\).*/\1/p"
}

# program NAME ARGUMENT...: one of vm_add_program.
program() {
    program_name=$1
    shift
    /data/lib/ld-linux-x86-64.so.2 --library-path /data/lib "/data/$program_name" "$@"
}

# again_if_slow COMMAND...: up to ten times. What is timed may miss its mark
# where the machine stalls, but not each time; what is wrong misses it always.
# Inside, every check that must hold needs its own "|| return 1": set -e is off.
again_if_slow() {
    for attempt in 1 2 3 4 5 6 7 8 9; do
        "$@" && return
        echo "attempt $attempt was too slow, or wrong: $*"
    done
    "$@"
}

# holds EXPRESSION: in awk, with decimals.
holds() { awk "BEGIN { exit !($1) }"; }

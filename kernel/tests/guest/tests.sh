# shellcheck shell=sh
# The module's tests. Each runs by itself; then the kernel's log must be clean.
. /guest/lib.sh
. /guest/semantics.sh

# What no test may cause.
readonly BAD='BUG|WARNING:|INFO: |possible recursive|possible circular|Oops|protection fault|Call Trace|refcount_t|list_(add|del) corruption|leak|use-after-free'

cleanup() {
    for directory in "$CONFIG"/*/; do
        [ -d "$directory" ] && null_remove "$(basename "$directory")"
    done
    rmmod scsi_debug 2>/dev/null
    rmmod prio-deadline 2>/dev/null
    true
}

run_test() {
    modprobe prio-deadline
    dmesg -c >/dev/null
    # An exit code in a condition would switch off set -e inside.
    (set -e; "test_$1") >/tmp/output 2>&1
    status=$?
    cleanup
    dmesg -c >/tmp/log
    if [ $status = 77 ]; then
        say "skipped: $1: $(tail -n 1 /tmp/output)"
    elif [ $status != 0 ]; then
        say "FAIL $1: $(tail -n 5 /tmp/output | tr '\n' ' ')"
    elif grep -qE "$BAD" /tmp/log; then
        say "FAIL $1: the kernel's log: $(grep -E -A 12 "$BAD" /tmp/log | head -n 30)"
    else
        say "ok $1 $(tail -n 1 /tmp/output)"
    fi
}

test_load_select_unload() {
    null_create n0 size=64
    grep -q prio-deadline "$(queue n0)/scheduler"
    scheduler n0 prio-deadline
    grep -q '\[prio-deadline\]' "$(queue n0)/scheduler"
    [ "$(ls "$(queue n0)/iosched" | wc -l)" = 34 ]
    ! rmmod prio-deadline 2>/dev/null || { echo "unloaded while in use"; return 1; }
    scheduler n0 none
    rmmod prio-deadline
    # The kernel loads it by its name.
    scheduler n0 prio-deadline
    lsmod | grep -q prio_deadline
}

test_defaults_of_the_device() {
    null_create n0 size=64
    scheduler n0 prio-deadline
    grep -q 'position \[level\]' "$(queue n0)/iosched/mode"
    [ "$(cat "$(queue n0)/iosched/level4_read_deadline_us")" = 1200000 ]
    scheduler n0 none
    echo 1 >"$(queue n0)/rotational"
    scheduler n0 prio-deadline
    grep -q '\[position\] level' "$(queue n0)/iosched/mode"
    [ "$(cat "$(queue n0)/iosched/level0_read_deadline_us")" = 250000 ]
    [ "$(cat "$(queue n0)/iosched/level4_write_deadline_us")" = 12000000 ]
}

refused() {
    if setting n0 "$1" "$2" 2>/dev/null; then
        echo "$1 took $2"
        return 1
    fi
}

test_settings_are_checked() {
    null_create n0 size=64
    scheduler n0 prio-deadline
    for bad in "mode paper" "batch_max 0" "batch_max x" "front_merges 2" \
        "level0_read_deadline_us 3600000001" "level1_read_deadline_us -1" \
        "level2_max_percent 0" "level2_max_percent 101" "level3_floor_percent 91" \
        "level4_reserved_percent 70"; do
        # shellcheck disable=SC2086
        refused $bad
    done
    setting n0 level1_floor_percent 0
    setting n0 level3_floor_percent 80
    refused level4_floor_percent 20
    setting n0 level0_read_deadline_us 0
    setting n0 mode position
    grep -q '\[position\]' "$(queue n0)/iosched/mode"
}

test_switch_under_load() {
    modprobe bfq
    modprobe kyber-iosched
    null_create n0 size=64 completion_nsec=100000 irqmode=2 memory_backed=1 hw_queue_depth=16
    verify /dev/n0 12 11 &
    verifier=$!
    switches=0
    while kill -0 $verifier 2>/dev/null; do
        for name in prio-deadline bfq prio-deadline none prio-deadline kyber prio-deadline mq-deadline; do
            scheduler n0 $name
            switches=$((switches + 1))
        done
    done
    wait $verifier
    echo "$switches switches"
}

# iolane measures with it where it is loaded, and leaves it as it was.
test_bench_mix() {
    [ -e /data/iolane ] || skip "no iolane: cargo is missing"
    null_create n0 size=64 irqmode=2 completion_nsec=1000000 hw_queue_depth=8
    scheduler n0 prio-deadline
    setting n0 mode position
    setting n0 batch_max 7
    program iolane bench mix --file /dev/n0 --kernel-schedulers prio-deadline,none --allow-scheduler-change \
        --policies noop --background-depth 16 --warm-up 100ms --runtime 500ms >/tmp/mix
    cat /tmp/mix
    grep -q '\[prio-deadline\]' "$(queue n0)/scheduler"
    [ "$(cat "$(queue n0)/iosched/mode")" = "[position] level" ]
    [ "$(cat "$(queue n0)/iosched/batch_max")" = 7 ]
    for run in prio-deadline prio-deadline+ioprio; do
        grep -qF "$run " /tmp/mix
    done
    # What it offers, from the message about one that there is not.
    ! program iolane bench mix --file /dev/n0 --kernel-schedulers paper --allow-scheduler-change 2>/tmp/offer
    grep 'it offers .*prio-deadline' /tmp/offer
}

test_load_unload_100_times() {
    null_create n0 size=64
    before=$(awk '/^SUnreclaim/ { print $2 }' /proc/meminfo)
    for i in $(seq 100); do
        modprobe prio-deadline
        scheduler n0 prio-deadline
        dd if=/dev/n0 of=/dev/null bs=64k count=16 iflag=direct 2>/dev/null
        scheduler n0 none
        rmmod prio-deadline
    done
    after=$(awk '/^SUnreclaim/ { print $2 }' /proc/meminfo)
    # A scheduler's data is some 10 KiB: 100 of them would show.
    echo "slab memory from $before to $after KiB"
    [ $((after - before)) -lt 800 ]
}

integrity() {
    label=$1
    shift
    null_create n0 size=16 memory_backed=1 irqmode=2 completion_nsec=50000 "$@"
    scheduler n0 prio-deadline
    seed=$((seed + 1))
}

# Every mode, queue depth and way of merging, on flash and on disks.
test_integrity() {
    seed=100
    runs=0
    # Written there is what was flushed, too: a cache has to be emptied.
    flushes=0
    for device in "hw_queue_depth=1" "hw_queue_depth=32" "hw_queue_depth=32 submit_queues=2" \
        "hw_queue_depth=16 submit_queues=2 shared_tag_bitmap=1" "hw_queue_depth=32 cache_size=4" \
        "rotating hw_queue_depth=32 cache_size=4"; do
        # shellcheck disable=SC2086
        integrity "$device" ${device#rotating } 2>/dev/null || { null_remove n0; continue; }
        case $device in
        rotating*)
            scheduler n0 none
            echo 1 >"$(queue n0)/rotational"
            scheduler n0 prio-deadline
            [ "$(cat "$(queue n0)/iosched/lower_depth")" = 1 ]
            # What waits must not be all that the time is spent with.
            setting n0 urgent_hold_us 10000
            ;;
        esac
        for mode in position level; do
            setting n0 mode $mode
            for depth in 4 64 256; do
                echo $depth >"$(queue n0)/nr_requests"
                [ "$(cat "$(queue n0)/nr_requests")" = $depth ]
                for merging in "0 1" "0 0" "1 1" "1 0" "2 1"; do
                    # shellcheck disable=SC2086
                    set -- $merging
                    echo "$1" >"$(queue n0)/nomerges"
                    setting n0 front_merges "$2"
                    seed=$((seed + 1))
                    verify /dev/n0 0.1 $seed
                    runs=$((runs + 1))
                done
            done
        done
        flushes=$((flushes + $(awk '{ print $16 }' /sys/block/n0/stat)))
        null_remove n0
    done
    [ $runs -ge 120 ]
    [ $flushes -gt 50 ]
    echo "$runs runs, $flushes flushes, last seed $seed"
}

scsi_disk() {
    modprobe scsi_debug dev_size_mb=64 max_queue=16 "$@"
    modprobe sd_mod
    wait_for /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/sd* 2>/dev/null || sleep 1
    basename /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/sd*
}

test_integrity_scsi() {
    disk=$(scsi_disk ndelay=100000 vpd_use_hostno=0)
    wait_for "/dev/$disk"
    scheduler "$disk" prio-deadline
    for mode in position level; do
        setting "$disk" mode $mode
        verify "/dev/$disk" 2 301
    done
    flushes=$(awk '{ print $16 }' "/sys/block/$disk/stat")
    [ "$flushes" -gt 0 ]
    echo "$flushes flushes"
}

# The driver sends requests back: transport errors, which SCSI tries again.
test_requeue() {
    disk=$(scsi_disk ndelay=100000 every_nth=40 opts=16)
    wait_for "/dev/$disk"
    scheduler "$disk" prio-deadline
    verify "/dev/$disk" 3 302
    dispatched=$(levels "$disk" dispatched | awk '{ print $1 + $2 + $3 + $4 + $5 }')
    inserted=$(levels "$disk" inserted | awk '{ print $1 + $2 + $3 + $4 + $5 }')
    merged=$(levels "$disk" merged | awk '{ print $1 + $2 + $3 + $4 + $5 }')
    echo "$inserted inserted, $merged merged, $dispatched dispatched"
    [ "$(levels "$disk" in_flight)" = "0 0 0 0 0" ]
}

test_hot_removal() {
    for i in 1 2 3; do
        null_create n$i size=64 irqmode=2 completion_nsec=1000000 hw_queue_depth=8
        scheduler n$i prio-deadline
        load /dev/n$i 4 a:2:32:randwrite:4096:be7 b:2:32:randread:4096:be0 >/dev/null 2>&1 &
        sleep 1
        null_remove n$i
        wait
    done
    disk=$(scsi_disk ndelay=1000000)
    wait_for "/dev/$disk"
    scheduler "$disk" prio-deadline
    load "/dev/$disk" 4 a:2:32:randwrite:4096:be7 b:2:32:randread:4096:be0 >/dev/null 2>&1 &
    sleep 1
    echo 1 >"/sys/block/$disk/device/delete"
    wait
    [ ! -e "/sys/block/$disk" ]
    echo "4 devices removed under load"
}

test_random_settings() {
    null_create n0 size=64 memory_backed=1 irqmode=2 completion_nsec=100000 hw_queue_depth=16
    scheduler n0 prio-deadline
    verify /dev/n0 8 401 &
    verifier=$!
    awk 'BEGIN {
        srand(401)
        split("0 1 2 5 15 16 50 100 1000 65536 3600000000 -1 x 4294967296", values, " ")
        for (i = 0; i < 6000; i++) print int(rand() * 34) + 1, values[int(rand() * 14) + 1]
    }' >/tmp/random
    ls "$(queue n0)/iosched" >/tmp/names
    writes=0
    while read -r number value && kill -0 $verifier 2>/dev/null; do
        name=$(sed -n "${number}p" /tmp/names)
        [ "$name" != mode ] || value=$([ "$value" = x ] && echo position || echo level)
        setting n0 "$name" "$value" 2>/dev/null || true
        [ $((writes % 50)) != 0 ] || echo $((4 + writes % 500)) >"$(queue n0)/nr_requests"
        writes=$((writes + 1))
    done </tmp/random
    wait $verifier
    echo "$writes writes"
}

for name in load_select_unload defaults_of_the_device settings_are_checked switch_under_load bench_mix \
    load_unload_100_times integrity integrity_scsi requeue hot_removal random_settings \
    zoned unprivileged_levels merging groups groups_of_hardware_queues floor worst_wait lower_depth urgent_slowdown \
    dispatch_order; do
    case " $(cat /data/only 2>/dev/null || echo $name) " in
    *" $name "*) run_test $name ;;
    esac
done
say "end"

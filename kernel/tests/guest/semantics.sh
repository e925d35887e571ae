# shellcheck shell=sh
# Tests of what the scheduler decides. Sourced by tests.sh.

skip() {
    echo "$*"
    exit 77
}

test_zoned() {
    null_create n0 size=64 zoned=1 zone_size=4 memory_backed=1 || skip "null_blk has no zones"
    if scheduler n0 prio-deadline 2>/dev/null; then
        # With zone write plugging the order is not the scheduler's.
        dd if=/dev/zero of=/dev/n0 bs=64k count=64 oflag=direct
    else
        grep -q '\[none\]\|\[mq-deadline\]' "$(queue n0)/scheduler"
        echo "refused"
    fi
}

readonly FIVE="be0 be1 be4 be6 be7"

# Whatever the interface: each of the five priorities is a level of its own.
test_unprivileged_levels() {
    null_create n0 size=64 irqmode=2 completion_nsec=1000000 hw_queue_depth=8
    chmod 666 /dev/n0
    for engine in sync aio uring; do
        scheduler n0 none
        scheduler n0 prio-deadline
        jobs=
        for priority in $FIVE; do
            jobs="$jobs $priority:1:1:randread:4096:$priority:$engine"
        done
        # shellcheck disable=SC2086
        unprivileged 0 /bin/load /dev/n0 0.5 $jobs >/dev/null
        inserted=$(levels n0 inserted)
        echo "$engine: $inserted"
        for count in $inserted; do
            [ "$count" -gt 20 ]
        done
    done
    # A task without a priority, and a nice one.
    scheduler n0 none
    scheduler n0 prio-deadline
    unprivileged 0 /bin/load /dev/n0 0.3 a:1:1:randread:4096:none >/dev/null
    [ "$(levels n0 inserted | awk '{ print $1 + $2 + $4 + $5 }')" = 0 ]
    unprivileged 19 /bin/load /dev/n0 0.3 a:1:1:randread:4096:none:sync >/dev/null
    [ "$(levels n0 inserted | cut -d' ' -f5)" -gt 20 ]
    ! unprivileged 0 /bin/load /dev/n0 0.2 a:1:1:randread:4096:rt:sync 2>/dev/null
    echo "levels by sync, aio, io_uring, default and nice"
}

# Neighbours of one level merge, of different levels they do not.
test_merging() {
    null_create n0 size=64 irqmode=2 completion_nsec=100000000 hw_queue_depth=1
    scheduler n0 prio-deadline
    echo 64 >"$(queue n0)/nr_requests"
    # The first two are out of the scheduler before the others come.
    { echo "W 2 33554432 4096"; echo "W 2 50331648 4096"
      for i in 0 1 2 3 4 5 6 7; do echo "W 3 $((i * 4096)) 4096"; done
      for i in 15 14 13 12 11 10 9 8; do echo "W 3 $((i * 4096)) 4096"; done; } >/tmp/same
    burst /dev/n0 </tmp/same >/dev/null
    echo "level 3: $(levels n0 merged) merged, $(levels n0 dispatched) dispatched"
    [ "$(levels n0 merged | cut -d' ' -f4)" = 15 ]
    [ "$(levels n0 dispatched | cut -d' ' -f4)" = 1 ]
    scheduler n0 none
    scheduler n0 prio-deadline
    echo 64 >"$(queue n0)/nr_requests"
    awk '{ if (NR > 2) $2 = NR % 5; print }' /tmp/same >/tmp/different
    burst /dev/n0 </tmp/different >/dev/null
    [ "$(levels n0 merged)" = "0 0 0 0 0" ]
    echo "15 of 16 merged at one level, none at five"
}

# Low levels never take all requests, by whatever interface.
test_groups() {
    for engine in aio uring; do
        null_create n0 size=64 irqmode=2 completion_nsec=2000000 hw_queue_depth=32
        scheduler n0 prio-deadline
        setting n0 level4_max_percent 50
        load /dev/n0 4 low:4:128:randread:4096:be7:$engine >/dev/null &
        sleep 1
        most=0
        for i in $(seq 20); do
            allocated=$(levels n0 allocated | cut -d' ' -f5)
            [ "$allocated" -le $most ] || most=$allocated
        done
        # Half of 64; tasks that race for the last may get it both, and who may
        # not wait gets one tag per word of the bitmap, of which there are 4.
        echo "$engine: $most of 64 at most"
        [ "$most" -ge 28 ]
        [ "$most" -le 40 ]
        # There is room for the highest level at once.
        load /dev/n0 1 high:1:1:randread:4096:be0 >/tmp/high
        allocation_ok=$(field high p50_ns </tmp/high)
        echo "$engine: a high read takes $allocation_ok ns"
        holds "$allocation_ok < 20e6"
        wait
        null_remove n0
    done
}

dispatched() { levels n0 dispatched | awk '{ print $1, $5 }'; }

# Two levels that want everything: the lower one gets its share, no more.
test_floor() {
    # Slow enough that an emulated machine keeps both queues filled.
    null_create n0 size=64 irqmode=2 completion_nsec=20000000 hw_queue_depth=4
    scheduler n0 prio-deadline
    echo 256 >"$(queue n0)/nr_requests"
    for level in 0 4; do
        setting n0 level${level}_read_deadline_us 60000000
    done
    for floor in 0 2 10 30; do
        setting n0 level4_floor_percent $floor
        load /dev/n0 6 high:1:128:randread:4096:be0 low:1:16:randread:4096:be7 >/dev/null &
        sleep 1
        before=$(dispatched)
        sleep 4
        after=$(dispatched)
        wait
        share=$(echo "$before $after" | awk '{ printf "%.2f", 100 * ($4 - $2) / ($3 - $1 + $4 - $2) }')
        echo "floor $floor: $share percent"
        holds "$share >= $floor - 1 && $share <= $floor + 1"
    done
    echo "floors of 0, 2, 10 and 30 percent met within 1"
}

# Without a share, the low level is served when its deadline passes.
test_worst_wait() {
    null_create n0 size=64 irqmode=2 completion_nsec=5000000 hw_queue_depth=4
    waits=
    for mode in level position; do
        scheduler n0 none
        scheduler n0 prio-deadline
        echo 256 >"$(queue n0)/nr_requests"
        setting n0 mode $mode
        setting n0 level0_read_deadline_us 60000000
        setting n0 level4_floor_percent 0
        setting n0 level4_read_deadline_us 500000
        load /dev/n0 4 high:1:48:randread:4096:be0 low:1:8:randread:4096:be7 >/tmp/result
        worst=$(levels n0 read_wait_us_max | cut -d' ' -f5)
        # The deadline, and one batch of 16 at 4 in 5 ms; twice that in an
        # emulated machine.
        echo "$mode: $worst"
        [ "$worst" -le 540000 ]
        waits="$waits $mode $worst us"
    done
    echo "deadline 500000 us, worst wait:$waits"
}

# While urgent requests are about, few others are with the device; then all.
test_lower_depth() {
    null_create n0 size=64 irqmode=2 completion_nsec=10000000 hw_queue_depth=32
    scheduler n0 prio-deadline
    setting n0 lower_depth 3
    # Longer than an emulated machine may stall.
    setting n0 urgent_hold_us 3000000
    setting n0 level4_floor_percent 0
    setting n0 level4_read_deadline_us 60000000
    for with in "" high:1:1:randread:4096:be0; do
        # shellcheck disable=SC2086
        load /dev/n0 3 low:1:40:randread:4096:be7 $with >/dev/null &
        sleep 1
        most=0
        for i in $(seq 20); do
            now=$(levels n0 in_flight | cut -d' ' -f5)
            [ "$now" -le $most ] || most=$now
        done
        wait
        echo "${with:-alone}: $most in flight"
        if [ -z "$with" ]; then
            [ $most -ge 24 ]
            alone=$most
        else
            [ $most -ge 2 ]
            [ $most -le 3 ]
        fi
    done
    echo "$alone in flight alone, $most beside urgent requests"
}

# traced NAME: the order of a trace, by a scheduler that starts anew.
traced() {
    scheduler n0 none
    scheduler n0 prio-deadline
    echo 128 >"$(queue n0)/nr_requests"
    setting n0 mode position
    level=0
    while read -r deadline_us; do
        setting n0 level${level}_read_deadline_us "$deadline_us"
        setting n0 level${level}_write_deadline_us "$deadline_us"
        setting n0 level${level}_reserved_percent 0
        level=$((level + 1))
    done <"$1.deadlines"
    burst /dev/n0 <"$1.trace" >/tmp/order
}

# The same trace in the same order as the scheduler core in user space.
test_dispatch_order() {
    [ -d /data/traces ] || skip "no traces: cargo is missing"
    null_create n0 size=1024 irqmode=2 completion_nsec=120000000 hw_queue_depth=1
    same=0
    for trace in /data/traces/*.trace; do
        name=${trace%.trace}
        # Again if the machine was too slow to submit in time.
        traced "$name" || traced "$name" || traced "$name"
        cmp "$name.order" /tmp/order || {
            echo "$(basename "$name"): $(tr '\n' ' ' </tmp/order)"
            return 1
        }
        same=$((same + 1))
    done
    echo "$same traces in the same order"
}

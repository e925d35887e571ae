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
    for engine in sync aio uring aio-request uring-request; do
        scheduler n0 none
        scheduler n0 prio-deadline
        jobs=
        for priority in $FIVE; do
            jobs="$jobs $priority:1:1:randread:4096:$priority:$engine"
        done
        # shellcheck disable=SC2086
        unprivileged 0 /bin/load /dev/n0 1 $jobs >/dev/null
        inserted=$(levels n0 inserted)
        echo "$engine: $inserted"
        for count in $inserted; do
            [ "$count" -gt 0 ]
        done
    done
    # A task without a priority, and a nice one.
    scheduler n0 none
    scheduler n0 prio-deadline
    unprivileged 0 /bin/load /dev/n0 0.3 a:1:1:randread:4096:none >/dev/null
    [ "$(levels n0 inserted | awk '{ print $1 + $2 + $4 + $5 }')" = 0 ]
    unprivileged 19 /bin/load /dev/n0 0.3 a:1:1:randread:4096:none:sync >/dev/null
    [ "$(levels n0 inserted | cut -d' ' -f5)" -gt 0 ]
    ! unprivileged 0 /bin/load /dev/n0 0.2 a:1:1:randread:4096:rt:sync 2>/dev/null
    # What a request says goes before what its thread says.
    for engine in aio uring; do
        scheduler n0 none
        scheduler n0 prio-deadline
        ionice -c 2 -n 0 load /dev/n0 0.3 a:1:8:randread:4096:be7:$engine-request >/dev/null
        inserted=$(levels n0 inserted)
        echo "$engine, a thread of be0 with requests of be7: $inserted"
        [ "$(echo "$inserted" | cut -d' ' -f5)" -gt 0 ]
        [ "$(echo "$inserted" | cut -d' ' -f1-4)" = "0 0 0 0" ]
    done
    echo "levels by sync, aio, io_uring, by thread and by request, default and nice"
}

# How large the requests are that come of 32 pages read at once.
sectors_of_portions() {
    before=$(awk '{ print $1, $3 }' /sys/block/n0/stat)
    load /dev/n0 0.5 low:1:32:read:4096:be7:aio:1 >/dev/null
    echo "$before $(awk '{ print $1, $3 }' /sys/block/n0/stat)" | awk '{ print int(($4 - $2) / ($3 - $1)) }'
}

# A scheduler that starts anew, with room for all of a burst.
anew() {
    scheduler n0 none
    scheduler n0 prio-deadline
    echo 64 >"$(queue n0)/nr_requests"
}

# Neighbours of one level merge ...
same_level_merges() {
    anew
    burst /dev/n0 </tmp/same >/dev/null
    echo "level 3: $(levels n0 merged) merged, $(levels n0 dispatched) dispatched"
    [ "$(levels n0 merged | cut -d' ' -f4)" = 15 ] || return 1
    [ "$(levels n0 dispatched | cut -d' ' -f4)" = 1 ]
}

# ... and beside urgent requests lower ones stay small: 4 of 16 KiB.
beside_urgent_ones_stay_small() {
    anew
    setting n0 lower_depth 1
    setting n0 lower_merge_kib 16
    setting n0 urgent_hold_us 10000000
    burst /dev/n0 </tmp/beside >/dev/null
    echo "beside: $(levels n0 merged) merged, $(levels n0 dispatched) dispatched"
    # Larger ones are wrong even once.
    [ "$(levels n0 dispatched | cut -d' ' -f4)" -ge 4 ] || exit 1
    [ "$(levels n0 dispatched | cut -d' ' -f4)" = 4 ]
}

portions_stay_small() {
    scheduler n0 none
    scheduler n0 prio-deadline
    setting n0 lower_depth 1
    setting n0 lower_merge_kib 16
    setting n0 urgent_hold_us 10000000
    alone=$(sectors_of_portions)
    load /dev/n0 0.2 high:1:1:randread:4096:be0 >/dev/null
    beside=$(sectors_of_portions)
    echo "portions of 32 pages: $alone sectors a request alone, $beside beside urgent ones"
    [ "$alone" -gt 32 ] || return 1
    [ "$beside" -gt 8 ] || return 1
    [ "$beside" -le 32 ]
}

test_merging() {
    # All must be there before the first is done.
    null_create n0 size=64 irqmode=2 completion_nsec=500000000 hw_queue_depth=1
    # The first two are out of the scheduler before the others come.
    { echo "W 2 33554432 4096"; echo "W 2 50331648 4096"
      for i in 0 1 2 3 4 5 6 7; do echo "W 3 $((i * 4096)) 4096"; done
      for i in 15 14 13 12 11 10 9 8; do echo "W 3 $((i * 4096)) 4096"; done; } >/tmp/same
    again_if_slow same_level_merges
    # Those of different levels never do.
    anew
    awk '{ if (NR > 2) $2 = NR % 5; print }' /tmp/same >/tmp/different
    burst /dev/n0 </tmp/different >/dev/null
    [ "$(levels n0 merged)" = "0 0 0 0 0" ]
    { echo "W 0 33554432 4096"; sed 1d /tmp/same; } >/tmp/beside
    again_if_slow beside_urgent_ones_stay_small
    # Pages that a task asks for at once, which the block layer joins on its way
    # here: beside urgent requests the size is bounded all the same.
    scheduler n0 none
    null_remove n0
    null_create n0 size=64 irqmode=2 completion_nsec=1000000 hw_queue_depth=8
    again_if_slow portions_stay_small
    echo "15 of 16 merged at one level, none at five, 12 with 16 KiB at most"
}

# most_allocated LOOKS: the most requests that the lowest level had, of so many
# looks 50 ms apart.
most_allocated() {
    most=0
    for i in $(seq "$1"); do
        allocated=$(levels n0 allocated | cut -d' ' -f5)
        [ "$allocated" -le "$most" ] || most=$allocated
        sleep 0.05
    done
    echo "$most"
}

# low_leaves_room ENGINE
low_leaves_room() {
    load /dev/n0 6 low:4:128:randread:4096:be7:"$1" >/tmp/low &
    most=$(most_allocated 40)
    # There is room for the highest level at once.
    load /dev/n0 1 high:1:1:randread:4096:be0 >/tmp/high
    wait
    high=$(field high p50_ns </tmp/high) low=$(field low p50_ns </tmp/low)
    echo "$1: $most of 64 at most; a high read takes $high ns, a low one $low"
    # Half of 64; tasks that race for the last may get it both, and who may
    # not wait gets one tag per word of the bitmap, of which there are 4.
    # Not even once.
    [ "$most" -le 40 ] || exit 1
    [ "$most" -ge 28 ] || return 1
    holds "$high * 2 < $low"
}

# Low levels never take all requests, by whatever interface.
test_groups() {
    for engine in aio uring; do
        null_create n0 size=64 irqmode=2 completion_nsec=2000000 hw_queue_depth=32
        scheduler n0 prio-deadline
        setting n0 level4_max_percent 50
        again_if_slow low_leaves_room $engine
        null_remove n0
    done
}

# low_is_bounded SETS: on a device with so many sets of requests, submitters on
# both processors, whichever way they ask.
low_is_bounded() {
    load /dev/n0 6 low:2:128:randread:4096:be7:aio io:2:128:randread:4096:be7:uring \
        plain:16:1:randread:4096:be7:sync >/tmp/low &
    sleep 1
    most=$(most_allocated 30)
    load /dev/n0 2 high:2:1:randread:4096:be0 >/tmp/high
    wait
    depth=$(cat "$(queue n0)/nr_requests")
    # The others' reserves, 34 percent; one tag per word of the bitmap for those
    # that may not wait, and as many again that race for the last.
    bound=$(($1 * (depth - depth * 34 / 100 + 8)))
    high=$(field high p50_ns </tmp/high) low=$(field low p50_ns </tmp/low)
    echo "$most of $(($1 * depth)) at most, $bound allowed; a high read takes $high ns, a low one $low"
    [ "$most" -le "$bound" ] || return 1
    [ "$most" -ge $((depth / 2)) ] || return 1
    [ "$(field high count </tmp/high)" -gt 0 ] || return 1
    holds "$high * 2 < $low"
}

# The same where each hardware queue has requests of its own, and where they
# share them: none of them is ever the low level's alone.
test_groups_of_hardware_queues() {
    [ "$(nproc)" -gt 1 ] || skip "one processor has one hardware queue"
    tried=
    for device in "" shared_tag_bitmap=1; do
        # shellcheck disable=SC2086
        null_create n0 size=64 irqmode=2 completion_nsec=2000000 hw_queue_depth=16 \
            submit_queues=2 $device || { null_remove n0; continue; }
        scheduler n0 prio-deadline
        sets=2
        [ -z "$device" ] || sets=1
        again_if_slow low_is_bounded $sets
        tried="$tried $most of $((sets * depth)),"
        null_remove n0
    done
    [ -n "$tried" ]
    echo "the lowest level had at most$tried own and shared"
}

dispatched() { levels n0 dispatched | awk '{ print $1, $5 }'; }

# floor_is PERCENT: that share of the dispatched requests, within 1 percentage point.
floor_is() {
    load /dev/n0 6 high:1:128:randread:4096:be0 low:1:16:randread:4096:be7 >/dev/null &
    sleep 1
    before=$(dispatched)
    sleep 4
    after=$(dispatched)
    wait
    share=$(echo "$before $after" | awk '{ printf "%.2f", 100 * ($4 - $2) / ($3 - $1 + $4 - $2) }')
    echo "floor $1: $share percent"
    holds "$share >= $1 - 1 && $share <= $1 + 1"
}

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
        again_if_slow floor_is $floor
    done
    echo "floors of 0, 2, 10 and 30 percent met within 1"
}

# worst_wait_is_bounded MODE DIRECTION: a low request beside a load that wants
# everything.
worst_wait_is_bounded() {
    scheduler n0 none
    scheduler n0 prio-deadline
    echo 256 >"$(queue n0)/nr_requests"
    setting n0 mode "$1"
    setting n0 level0_read_deadline_us 60000000
    setting n0 level4_floor_percent 0
    setting n0 level4_"$2"_deadline_us 500000
    # What the machine adds to 5 ms when nothing else is to be done.
    load /dev/n0 1 alone:1:1:randread:4096:be0 >/tmp/result
    stall=$(($(field alone max_ns </tmp/result) / 1000))
    load /dev/n0 4 high:1:48:randread:4096:be0 low:1:8:"rand$2":4096:be7 >/tmp/result
    worst=$(levels n0 "$2"_wait_us_max | cut -d' ' -f5)
    # The deadline, and one batch of 16 at 4 in 5 ms.
    echo "$1, $2: $worst us, stalls of $stall us"
    [ "$worst" -le $((500000 + 20000 + 4 * stall)) ]
}

# Without a share, the low level is served when its deadline passes.
test_worst_wait() {
    null_create n0 size=64 irqmode=2 completion_nsec=5000000 hw_queue_depth=4
    waits=
    for mode in level position; do
        # Writes wait behind reads besides.
        for direction in read write; do
            again_if_slow worst_wait_is_bounded $mode $direction
            waits="$waits $mode $direction $worst us,"
        done
    done
    echo "deadline 500000 us, worst wait:$waits"
}

# in_flight_between LEAST MOST JOB...: the most requests of the lowest level
# that were with the device at a time, beside these jobs.
in_flight_between() {
    least=$1 bound=$2
    shift 2
    load /dev/n0 3 low:1:40:randread:4096:be7 "$@" >/dev/null &
    sleep 1
    most=0
    for i in $(seq 20); do
        now=$(levels n0 in_flight | cut -d' ' -f5)
        [ "$now" -le $most ] || most=$now
    done
    wait
    echo "${*:-alone}: $most in flight"
    [ $most -ge "$least" ] && [ $most -le "$bound" ]
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
    # The device has 32 places; the block layer may keep a few more that it has
    # taken from the scheduler and has no place for.
    again_if_slow in_flight_between 24 40
    alone=$most
    again_if_slow in_flight_between 2 3 high:1:1:randread:4096:be0
    echo "$alone in flight alone, $most beside urgent requests"
}

# low_beside_high: requests of the lower level to one of the urgent one.
low_beside_high() {
    before=$(dispatched)
    load /dev/n0 3 low:1:40:randread:4096:be7 high:1:1:randread:4096:be0 >/dev/null
    after=$(dispatched)
    echo "$before $after" | awk '{ printf "%.3f", ($4 - $2) / ($3 - $1) }'
}

# slowdown_is_bounded MODE: what the reader does between its requests does not
# count, so that on a slow machine the difference is less.
slowdown_is_bounded() {
    scheduler n0 none
    scheduler n0 prio-deadline
    setting n0 mode "$1"
    # Longer than the reader, in an emulated machine, takes to come again.
    setting n0 urgent_idle_us 1000000
    setting n0 level4_floor_percent 0
    setting n0 level4_read_deadline_us 60000000
    setting n0 urgent_slowdown_percent 10
    bound=$(low_beside_high)
    setting n0 urgent_slowdown_percent 0
    free=$(low_beside_high)
    echo "$1: low requests per urgent one: $bound with 10 percent, $free without a bound"
    holds "$bound * 1.25 < $free"
}

# On a disk, lower levels get a small share of the time of an urgent reader that
# always comes again, instead of every second turn.
test_urgent_slowdown() {
    null_create n0 size=64 irqmode=2 completion_nsec=10000000 hw_queue_depth=32
    echo 1 >"$(queue n0)/rotational"
    ratios=
    for mode in position level; do
        again_if_slow slowdown_is_bounded $mode
        ratios="$ratios $mode $bound, $free;"
    done
    echo "low requests per urgent one, with 10 percent and without a bound:$ratios"
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

in_order() {
    traced "$1" || return 1
    cmp "$1.order" /tmp/order || {
        echo "$(basename "$1"): $(tr '\n' ' ' </tmp/order)"
        return 1
    }
}

# The same trace in the same order as the scheduler core in user space.
test_dispatch_order() {
    [ -d /data/traces ] || skip "no traces: cargo is missing"
    null_create n0 size=1024 irqmode=2 completion_nsec=120000000 hw_queue_depth=1
    same=0
    for trace in /data/traces/*.trace; do
        name=${trace%.trace}
        # A slow machine submits too late, or hands the first two on too late.
        again_if_slow in_order "$name"
        same=$((same + 1))
    done
    echo "$same traces in the same order"
}

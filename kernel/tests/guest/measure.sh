# shellcheck shell=sh
# Measurements: this scheduler beside the kernel's own. A line "row ..." is for
# the reader, a line "json ..." for the document.
. /guest/lib.sh
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
modprobe prio-deadline
modprobe bfq
modprobe kyber-iosched

readonly SECONDS_EACH=$(cat /data/seconds 2>/dev/null || echo 3)
seconds=$SECONDS_EACH
readonly TRACING=/sys/kernel/tracing
readonly SCHEDULERS=$(cat /data/schedulers 2>/dev/null ||
    echo "none mq-deadline kyber bfq prio-deadline:level prio-deadline:position")

# choose DEVICE SCHEDULER[:MODE]
choose() {
    scheduler "$1" none
    scheduler "$1" "${2%:*}"
    case $2 in *:*) setting "$1" mode "${2#*:}" ;; esac
}

# chosen_of SCHEDULER...: those that are measured at all.
chosen_of() {
    for candidate; do
        case " $SCHEDULERS " in *" $candidate "*) echo "$candidate" ;; esac
    done
}

# run EXPERIMENT DEVICE SCHEDULER PARAMETER JOB...: into /tmp/result, and out.
run() {
    experiment=$1 device=$2 chosen=$3 parameter=$4
    shift 4
    load "/dev/$device" "$seconds" "$@" >/tmp/result || say "row $experiment failed"
    say "json {\"experiment\":\"$experiment\",\"device\":\"$device\",\"scheduler\":\"$chosen\",\"parameter\":\"$parameter\",\"jobs\":[$(tr '\n' ',' </tmp/result | sed 's/,$//')]}"
}

# of JOB FIELD DIVISOR
of() { field "$1" "$2" </tmp/result | awk -v by="$3" '{ printf "%.1f", $1 / by }'; }

# Two jobs that want everything: mq-deadline's own test of its priorities.
two_jobs() {
    say "row"
    say "row two jobs on $1: 64 outstanding each, high in class RT, low IDLE"
    say "row scheduler              high/s    low/s  low's share %  low's worst ms"
    for chosen in $SCHEDULERS; do
        choose "$1" "$chosen"
        echo 256 >"$(queue "$1")/nr_requests" 2>/dev/null
        run two_jobs "$1" "$chosen" "" high:1:64:randread:4096:rt low:1:64:randread:4096:idle
        say "row $(printf '%-20s %8s %8s %14s %15s' "$chosen" "$(of high requests_per_second 1)" \
            "$(of low requests_per_second 1)" \
            "$(echo "$(of high count 1) $(of low count 1)" | awk '{ printf "%.1f", 100 * $2 / ($1 + $2) }')" \
            "$(of low max_ns 1e6)")"
    done
}

# Figure 8: one random reader among three sequential ones.
figure_8() {
    say "row"
    say "row figure 8 on $1: random reader (16 KiB, depth 1) and 3 sequential readers (64 KiB, depth $2)"
    say "row scheduler              alone ms  equal ms  priority ms  priority/alone  sequential MB/s equal  priority"
    for chosen in $SCHEDULERS; do
        choose "$1" "$chosen"
        run figure_8 "$1" "$chosen" alone random:1:1:randread:16384:be0
        alone=$(of random mean_ns 1e6)
        run figure_8 "$1" "$chosen" equal random:1:1:randread:16384:be4 sequential:3:"$2":read:65536:be4
        equal=$(of random mean_ns 1e6) equal_rate=$(of sequential bytes_per_second 1e6)
        run figure_8 "$1" "$chosen" priority random:1:1:randread:16384:rt sequential:3:"$2":read:65536:idle
        priority=$(of random mean_ns 1e6)
        say "row $(printf '%-20s %10s %9s %12s %15s %22s %9s' "$chosen" "$alone" "$equal" "$priority" \
            "$(awk "BEGIN { printf \"%.2f\", $priority / $alone }")" "$equal_rate" \
            "$(of sequential bytes_per_second 1e6)")"
    done
}

# Figure 8 as the paper has it: three threads that read a sustained rate, and a
# random reader that pauses, as without a pause it has the disk for itself. The
# numbers are those of iolane's own figure: 64 pages at a time, 2.5 MB/s each,
# pauses of 50 ms.
figure_8_sustained() {
    say "row"
    say "row figure 8 on $1, sustained: random reader (16 KiB, pauses of 50 ms), 3 sequential readers (64 pages of 16 KiB, 2.5 MB/s each)"
    say "row scheduler              alone ms  equal ms  priority ms  priority/alone  sequential MB/s equal  priority"
    for chosen in $SCHEDULERS; do
        choose "$1" "$chosen"
        run figure_8_sustained "$1" "$chosen" alone random:1:1:randread:16384:be0:sync:50
        alone=$(of random mean_ns 1e6)
        run figure_8_sustained "$1" "$chosen" equal random:1:1:randread:16384:be4:sync:50 \
            sequential:3:64:read:16384:be4:aio:400
        equal=$(of random mean_ns 1e6) equal_rate=$(of sequential bytes_per_second 1e6)
        run figure_8_sustained "$1" "$chosen" priority random:1:1:randread:16384:be0:sync:50 \
            sequential:3:64:read:16384:be7:aio:400
        priority=$(of random mean_ns 1e6)
        say "row $(printf '%-20s %10s %9s %12s %15s %22s %9s' "$chosen" "$alone" "$equal" "$priority" \
            "$(awk "BEGIN { printf \"%.2f\", $priority / $alone }")" "$equal_rate" \
            "$(of sequential bytes_per_second 1e6)")"
    done
}

# Figure 7: 200 outstanding random writes, the share of the high ones varies.
# Each is a thread's, as a full group makes its submitter wait.
figure_7_row() {
    high=$(($3 * 2))
    run figure_7 "$1" "$2" "$3" "high:$high:1:randwrite:16384:be0:sync" \
        "low:$((200 - high)):1:randwrite:16384:be7:sync"
    say "row $(printf '%-20s %6s %8s %8s %9s %9s %9s' "$2" "$3" "$(of high requests_per_second 1)" \
        "$(of low requests_per_second 1)" "$(of high mean_ns 1e6)" "$(of low mean_ns 1e6)" \
        "$(of low max_ns 1e6)")"
}

figure_7() {
    say "row"
    say "row figure 7 on $1: 200 outstanding random writes of 16 KiB; groups of 30 % of 200 requests, deadlines 3 and 9 s"
    say "row scheduler            high %   high/s    low/s   high ms    low ms  low worst ms"
    for chosen in $(chosen_of prio-deadline:position prio-deadline:level); do
        shares="10 30 50 90"
        [ $chosen = prio-deadline:level ] || shares="10 20 30 40 50 70 90"
        for share in $shares; do
            choose "$1" $chosen
            echo 200 >"$(queue "$1")/nr_requests"
            for level in 0 1 2 3 4; do
                setting "$1" level${level}_reserved_percent 0
                setting "$1" level${level}_max_percent 30
                setting "$1" level${level}_write_deadline_us 9000000
            done
            setting "$1" level0_write_deadline_us 3000000
            # The paper's scheduler keeps nobody waiting for the high ones.
            setting "$1" lower_depth 0
            figure_7_row "$1" $chosen $share
        done
    done
    for chosen in $(chosen_of none mq-deadline kyber bfq); do
        for share in 10 30 50; do
            choose "$1" $chosen
            echo 200 >"$(queue "$1")/nr_requests" 2>/dev/null
            figure_7_row "$1" $chosen $share
        done
    done
}

# five_levels DEVICE [DEADLINE_US...]: in mode position, levels differ where their
# deadlines pass. Those given are used besides the defaults.
five_levels() {
    say "row"
    say "row five levels on $1, 24 outstanding each: mean ms (requests/s)"
    five_levels_rows "$1" "" mq-deadline bfq prio-deadline:level prio-deadline:position
    five_device=$1
    shift
    [ $# = 0 ] || five_levels_rows "$five_device" "$*" prio-deadline:position
}

# five_levels_rows DEVICE DEADLINES SCHEDULER...
five_levels_rows() {
    five_device=$1 deadlines=$2
    shift 2
    for chosen in $(chosen_of "$@"); do
        choose "$five_device" "$chosen"
        echo 256 >"$(queue "$five_device")/nr_requests"
        level=0
        for deadline_us in $deadlines; do
            setting "$five_device" level${level}_read_deadline_us "$deadline_us"
            level=$((level + 1))
        done
        run five_levels "$five_device" "$chosen" "$deadlines" l0:24:1:randread:4096:be0:sync l1:24:1:randread:4096:be1:sync \
            l2:24:1:randread:4096:be4:sync l3:24:1:randread:4096:be6:sync l4:24:1:randread:4096:be7:sync
        text=
        for job in l0 l1 l2 l3 l4; do
            text="$text $(of $job mean_ns 1e6) ($(of $job requests_per_second 1))"
        done
        say "row $(printf '%-20s' "$chosen")$text${deadlines:+, deadlines of $deadlines us}"
    done
}

# A device that is done at once: what the scheduler itself costs.
overhead() {
    say "row"
    say "row overhead, null_blk without delay, 2 threads: requests/s, 5 runs in turn"
    for engine in aio uring; do
        for chosen in mq-deadline prio-deadline:level; do : >"/tmp/overhead.$chosen"; done
        for i in 1 2 3 4 5; do
            for chosen in mq-deadline prio-deadline:level; do
                choose n0 $chosen
                run "overhead_$engine" n0 $chosen $i "a:2:16:randread:4096:none:$engine"
                of a requests_per_second 1 >>"/tmp/overhead.$chosen"
                echo >>"/tmp/overhead.$chosen"
            done
        done
        for chosen in mq-deadline prio-deadline:level; do
            sort -n "/tmp/overhead.$chosen" >/tmp/sorted
            say "row $(printf '%-6s %-20s median %8s  from %8s to %8s' $engine $chosen "$(sed -n 3p /tmp/sorted)" \
                "$(sed -n 1p /tmp/sorted)" "$(sed -n 5p /tmp/sorted)")"
        done
    done
}

# traced_ns FUNCTION: the sum over all its calls in the trace.
traced_ns() {
    # A module's function has its module behind the name.
    awk -v name=" $1[( ]" '{ for (i = 2; i <= NF; i++) if ($i == "us" && $0 ~ name) sum += $(i - 1) }
        END { printf "%.0f", sum * 1000 }' /tmp/trace
}

# The scheduler's lock is taken in three functions, and held for most of each:
# their time, by the function graph tracer, bounds the time for which it is held.
lock_time() {
    say "row"
    say "row time under the scheduler's lock, same load, ns per request (functions that hold it)"
    say "row engine scheduler              insert  dispatch     merge     total"
    for engine in aio uring; do
        for chosen in $(chosen_of mq-deadline prio-deadline:level); do
            case $chosen in mq-*) prefix=dd ;; *) prefix=pd ;; esac
            choose n0 $chosen
            for function in insert_requests dispatch_request bio_merge; do
                echo "${prefix}_$function"
            done >$TRACING/set_ftrace_filter
            echo 0 >$TRACING/tracing_on
            echo 4096 >$TRACING/buffer_size_kb
            echo function_graph >$TRACING/current_tracer
            load /dev/n0 0.1 "a:2:16:randread:4096:none:$engine" >/dev/null &
            sleep 0.05
            read -r before rest <"/sys/block/n0/stat"
            echo 1 >$TRACING/tracing_on
            sleep 0.02
            echo 0 >$TRACING/tracing_on
            read -r after rest <"/sys/block/n0/stat"
            wait
            cat $TRACING/trace >/tmp/trace
            echo nop >$TRACING/current_tracer
            echo >$TRACING/set_ftrace_filter
            insert=$(traced_ns ${prefix}_insert_requests)
            dispatch=$(traced_ns ${prefix}_dispatch_request)
            merge=$(traced_ns ${prefix}_bio_merge)
            echo "$insert $dispatch $merge $((after - before))" >/tmp/lock
            say "json {\"experiment\":\"lock_time_$engine\",\"scheduler\":\"$chosen\",\"insert_ns\":$insert,\"dispatch_ns\":$dispatch,\"merge_ns\":$merge,\"requests\":$((after - before))}"
            say "row $(awk -v engine=$engine -v chosen=$chosen '{ printf "%-6s %-20s %8.0f %9.0f %9.0f %9.0f  (%d requests)",
                engine, chosen, $1 / $4, $2 / $4, $3 / $4, ($1 + $2 + $3) / $4, $4 }' /tmp/lock)"
        done
    done
}

wanted() { case " $(cat /data/only 2>/dev/null || echo "$1") " in *" $1 "*) ;; *) false ;; esac; }

if wanted overhead; then
    null_create n0 size=256 irqmode=0 hw_queue_depth=64
    # Nothing waits there: half a second is tens of thousands of requests.
    seconds=0.5
    overhead
    seconds=$SECONDS_EACH
    null_remove n0
fi
if wanted lock_time; then
    null_create n0 size=256 irqmode=0 hw_queue_depth=64
    lock_time
    null_remove n0
fi
if wanted null_5ms; then
    null_create null_5ms size=512 irqmode=2 completion_nsec=5000000 hw_queue_depth=32
    two_jobs null_5ms
    figure_8 null_5ms 1
    figure_8 null_5ms 16
    figure_7 null_5ms
    # What waits for 19 ms all together misses some of these.
    five_levels null_5ms 2000 6000 12000 20000 32000
    null_remove null_5ms
fi
if wanted null_100us; then
    null_create null_100us size=512 irqmode=2 completion_nsec=100000 hw_queue_depth=4
    two_jobs null_100us
    figure_8 null_100us 1
    null_remove null_100us
fi
if wanted null_slow; then
    # As fast as the paper's disk: 256 random requests per second.
    null_create null_slow size=512 irqmode=2 completion_nsec=7800000 hw_queue_depth=2
    figure_7 null_slow
    null_remove null_slow
fi
if wanted scsi_debug; then
    modprobe scsi_debug dev_size_mb=128 max_queue=32 ndelay=5000000
    modprobe sd_mod
    sleep 2
    disk=$(basename /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/sd*)
    two_jobs "$disk"
fi
# A modelled disk that the host serves over NBD.
if [ -e /data/nbd ]; then
    modprobe virtio_pci
    modprobe virtio_blk
    wait_for /dev/vda
    echo 1 >/sys/block/vda/queue/rotational
    wanted figure_8 && figure_8 vda 4
    wanted figure_8_sustained && figure_8_sustained vda
    wanted two_jobs && two_jobs vda
    wanted figure_7 && figure_7 vda
    # The lowest level's requests take longer than its deadline of 12 s.
    seconds=45
    wanted five_levels && five_levels vda 50000 250000 800000 1800000 3600000
    seconds=$SECONDS_EACH
fi
say "end"

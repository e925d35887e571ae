# shellcheck shell=sh
. /guest/lib.sh
modprobe prio-deadline
null_create nullb0 size=64 queue_mode=2 irqmode=2 completion_nsec=100000 memory_backed=1 hw_queue_depth=32
cat /sys/block/nullb0/queue/scheduler >$RESULTS
scheduler nullb0 prio-deadline
cat /sys/block/nullb0/queue/scheduler >$RESULTS
load /dev/nullb0 2 hi:1:4:randread:4096:be0 lo:2:16:randwrite:4096:be7 >$RESULTS 2>&1
verify /dev/nullb0 2 1 >$RESULTS 2>&1
cat /sys/kernel/debug/block/nullb0/sched/* >$RESULTS
grep . /sys/block/nullb0/queue/iosched/* >$RESULTS
scheduler nullb0 none
rmmod prio-deadline
dmesg | tail -30 >$RESULTS

# How much processor time a server takes: a control group in which it runs, with all that it
# starts. Sourced, beside common.sh.

processor_groups=()

# make_processor_group NAME: its folder is in $processor_group.
make_processor_group() {
    local hierarchy
    hierarchy=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpuacct(,|$)/ { print $2; exit }' /proc/mounts)
    [ -n "$hierarchy" ] || hierarchy=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    [ -n "$hierarchy" ] || complain "no control group hierarchy counts processor time here"
    processor_group=$hierarchy/iolane-$1-$$
    mkdir "$processor_group"
    processor_groups+=("$processor_group")
}

remove_processor_groups() {
    local group
    for group in ${processor_groups[@]+"${processor_groups[@]}"}; do rmdir "$group" || true; done
    processor_groups=()
}

# processor_time GROUP: microseconds so far.
processor_time() {
    if [ -f "$1/cpuacct.usage" ]; then
        echo $(($(cat "$1/cpuacct.usage") / 1000))
    else
        awk '$1 == "usage_usec" { print $2 }' "$1/cpu.stat"
    fi
}

# Block devices under the kernel's throttle, as a cloud volume is: a control group whose members
# may do so much a second. Sourced, beside common.sh.

# make_group NAME: makes $group, in a hierarchy in which block I/O can be limited.
make_group() {
    local unified
    throttle=$(awk '$3 == "cgroup" && $4 ~ /(^|,)blkio(,|$)/ { print $2; exit }' /proc/mounts)
    unified=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    [ -n "$throttle" ] || grep -qw io "$unified/cgroup.subtree_control" 2>/dev/null ||
        complain "no control group hierarchy limits block I/O here"
    group=${throttle:-$unified}/iolane-$1-$$
    mkdir "$group"
}

# limit DEVICE WORD...: for members of the group; words as io.max has them, such as riops=3000.
limit() {
    local numbers word file
    numbers=$(cat "/sys/block/${1#/dev/}/dev")
    shift
    if [ -z "$throttle" ]; then
        echo "$numbers $*" >"$group/io.max"
        return
    fi
    for word in "$@"; do
        case ${word%=*} in
        riops) file=read_iops_device ;;
        wiops) file=write_iops_device ;;
        rbps) file=read_bps_device ;;
        wbps) file=write_bps_device ;;
        *) complain "there is no limit $word" ;;
        esac
        echo "$numbers ${word#*=}" >"$group/blkio.throttle.$file"
    done
}

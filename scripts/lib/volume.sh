# A volume for a database: a loop device with direct I/O on a file in $folder, mounted at
# $folder/mounted. Sourced, beside common.sh and limit.sh.

device=

# make_volume MEGABYTES
make_volume() {
    dd if=/dev/zero of="$folder/disk" bs=1M count="$1" conv=fsync status=none
    device=$(losetup --find --show --direct-io=on "$folder/disk")
    make_file_system "$device"
    mkdir "$folder/mounted"
    mount "$device" "$folder/mounted"
    chmod 755 "$folder"
}

# A file system that was just mounted has nothing in the page cache.
empty_page_cache() {
    umount "$folder/mounted"
    mount "$device" "$folder/mounted"
}

# limit_volume REQUESTS: a second, of reads and as many of writes, whoever asks. With version 1 of
# control groups the kernel's own write-back counts as the root group's, so that group is limited.
limit_volume() {
    make_group bench
    limited=$group
    if [ -n "$throttle" ]; then
        rmdir "$group"
        group='' limited=$throttle
    fi
    group=$limited limit "$device" "riops=$1" "wiops=$1"
}

# limit_memory MEGABYTES: of all processes together that enter_groups is called in, page cache
# included.
limit_memory() {
    local hierarchy
    hierarchy=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)
    if [ -n "$hierarchy" ]; then
        memory=$hierarchy/iolane-bench-$$
        mkdir "$memory"
        echo "$1M" >"$memory/memory.limit_in_bytes"
        return
    fi
    [ -n "$group" ] || make_group bench
    memory=$group
    echo "$1M" >"$memory/memory.max"
}

# The calling shell and what it starts are members of the groups from now on.
enter_groups() {
    [ -z "$group" ] || echo "$BASHPID" >"$group/cgroup.procs"
    [ -z "$memory" ] || [ "$memory" = "$group" ] || echo "$BASHPID" >"$memory/cgroup.procs"
}

group='' limited='' memory=''
remove_volume() {
    ! mountpoint -q "$folder/mounted" || umount "$folder/mounted" || true
    [ -z "$device" ] || [ -z "$limited" ] || group=$limited limit "$device" riops=0 wiops=0 2>/dev/null || true
    [ -z "$device" ] || losetup --detach "$device" || true
    [ -z "$memory" ] || [ "$memory" = "$group" ] || rmdir "$memory" || true
    [ -z "$group" ] || rmdir "$group" || true
}

# What the device has completed: reads, sectors read, writes.
completed() { awk '{ print $1, $3, $5 }' "/sys/block/${device#/dev/}/stat"; }

# A modelled disk under the data of a server. Sourced, beside common.sh, after IOLANE (the program) and $folder are set.

device='' disk=''

# make_volume MODEL: a file system on the modelled disk, with a copy of $folder/data, of which $data is the place. "here" is the
# folder itself.
make_volume() {
    data=$folder/data
    [ "$1" != here ] || return 0
    mkdir -p "$folder/disk"
    "$IOLANE" disk serve --model "$1" --size 4g --backing "$folder/image" --mount "$folder/disk" >"$folder/disk.log" 2>&1 &
    disk=$!
    local tries=0
    until [ -e "$folder/disk/disk" ]; do
        kill -0 "$disk" 2>/dev/null || { cat "$folder/disk.log" >&2; complain "the disk is not served"; }
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || complain "the disk does not come"
        sleep 0.1
    done
    device=$(losetup --direct-io=on --sector-size 512 --find --show "$folder/disk/disk")
    echo 0 >"/sys/block/${device##*/}/queue/rotational"
    fill_volume
}

# fill_volume: a file system on $device, with a copy of $folder/data, of which $data is the place.
fill_volume() {
    mkdir -p "$folder/mounted"
    make_file_system "$device" -m 0
    mount -o noatime "$device" "$folder/mounted"
    cp -r "$folder/data" "$folder/mounted/data"
    sync --file-system "$folder/mounted"
    data=$folder/mounted/data
}

end_volume() {
    ! mountpoint -q "$folder/mounted" || umount "$folder/mounted" || true
    [ -z "$device" ] || losetup --detach "$device" || true
    if [ -n "$disk" ]; then
        kill "$disk" 2>/dev/null || true
        wait "$disk" 2>/dev/null || true
    fi
    device='' disk=''
    rm -f "$folder/image"
}

# InnoDB and the engine of this repository in turn, on one server with the same memory: what scripts that measure them share.
# Sourced, with `set -euo pipefail`, beside common.sh, limit.sh and engine.sh, after HERE is set.
#
# Data are FACTOR times the pool, POOL_MIB, and are loaded on the disk of DIRECTORY. They are measured there, or as a copy on a
# volume (root). VOLUME=3000 is one of so many reads, and as many writes, a second: a loop device with direct I/O under the
# kernel's throttle. VOLUME=cloud-1ms is a modelled one, by a name of `iolane disk list`; IOLANE is the program that serves it.
# With KEEP, a folder, what was loaded there is kept and used again: a long measurement can be made in parts.

readonly DIRECTORY=${DIRECTORY:-/var/tmp} KEEP=${KEEP:-} POOL_MIB=${POOL_MIB:-64} FACTOR=${FACTOR:-4} VOLUME=${VOLUME:-0}
readonly IOLANE=${IOLANE:-"$HERE/../target/release/iolane"}
# What a row of sysbench takes in InnoDB, with its secondary index.
readonly ROW_BYTES=250 TABLES=4
ROWS_IN_ALL=$(awk -v pool="$POOL_MIB" -v factor="$FACTOR" -v row="$ROW_BYTES" 'BEGIN { print int(pool * 1048576 * factor / row) }')
readonly ROWS_IN_ALL
group=''
# shellcheck source=scripts/lib/modelled.sh
. "$HERE/lib/modelled.sh"

# open_bench NAME: sets $folder.
open_bench() {
    [ "$VOLUME" = 0 ] || needs_root
    ! is_modelled || needs_iolane
    if [ -n "$KEEP" ]; then
        mkdir -p "$KEEP"
        folder=$KEEP
        trap clean_up EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM
    else
        scratch "$DIRECTORY" "$1"
    fi
    # shellcheck source=scripts/lib/mariadb.sh
    . "$HERE/lib/mariadb.sh"
    engine_options
}

clean_up() {
    stop_server
    end_volume
    [ -z "$group" ] || rmdir "$group" || true
    [ -n "$KEEP" ] || rm -rf "$folder"
}

# is_modelled: whether VOLUME is the name of a model.
is_modelled() { [[ $VOLUME = *[!0-9]* ]]; }

# make_limited_volume: it holds both engines' data and logs.
make_limited_volume() {
    dd if=/dev/zero of="$folder/image" bs=1M count=$((1024 + POOL_MIB * 16)) conv=fsync status=none
    device=$(losetup --find --show --direct-io=on "$folder/image")
    fill_volume
    make_group bench
    limit "$device" "riops=$VOLUME" "wiops=$VOLUME"
}

# With them a server has nothing in memory when it has started.
# shellcheck disable=SC2034 # whoever sources this uses it
readonly COLD=(--innodb-buffer-pool-load-at-startup=OFF --innodb-buffer-pool-dump-at-shutdown=OFF
    --loose-iolane-buffer-pool-load-at-startup=OFF)

# start_server ENGINE OPTION...: all memory to the one that is measured.
start_server() {
    local innodb=$POOL_MIB iolane=$POOL_MIB
    if [ "$1" = InnoDB ]; then iolane=16; else innodb=16; fi
    (
        [ -z "$group" ] || echo "$BASHPID" >"$group/cgroup.procs"
        exec mariadbd "${engine_options[@]}" --datadir="$data" --socket="$folder/socket" --skip-networking \
            --skip-log-bin --performance-schema=OFF --max-connections=200 \
            --innodb-buffer-pool-size="${innodb}M" --innodb-log-file-size=256M --innodb-flush-method=O_DIRECT \
            --innodb-flush-log-at-trx-commit=1 --innodb-flush-neighbors=0 --innodb-io-capacity=10000 \
            --innodb-io-capacity-max=20000 --loose-iolane-buffer-pool-size="${iolane}M" --loose-iolane-log-file-size=256M \
            "${@:2}"
    ) >>"$folder/server.log" 2>&1 &
    server=$!
    await_server
}

# load_engines LOADER: a database sbtest_ENGINE for each engine, into which the function LOADER brings the tables of its
# argument; then the volume. Nothing is loaded again.
load_engines() {
    local loader=$1 engine
    data=$folder/data
    if [ ! -e "$folder/loaded" ]; then
        rm -rf "$data"
        install_engine_database "$data"
        for engine in $(printf '%s\n' InnoDB "$ENGINE" | sort -u); do
            start_server "$engine"
            client --execute "CREATE DATABASE sbtest_${engine,,}"
            "$loader" "$engine"
            stop_server
        done
        touch "$folder/loaded"
    fi
    if is_modelled; then
        make_volume "$VOLUME"
    elif [ "$VOLUME" != 0 ]; then
        make_limited_volume
    fi
}

# bench ENGINE WORKLOAD ARGUMENT...
bench() {
    local engine=$1 workload=$2
    shift 2
    sysbench "$workload" --mysql-socket="$folder/socket" --mysql-user=root --mysql-db="sbtest_${engine,,}" \
        --mysql-storage-engine="$engine" --tables="$TABLES" --table-size="$ROWS" --rand-type=uniform "$@"
}

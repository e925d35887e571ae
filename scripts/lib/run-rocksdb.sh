# What scripts/bench-alone measures of RocksDB: db_bench, a program with the database in it. Sourced
# by it.

# Keys, with 100 bytes each.
readonly KEYS=${KEYS:-1000000}
readonly VOLUME_MEGABYTES=1500
needs rocksdb-tools db_bench

server=
data=$folder/mounted/data
# What db_bench is run under, by its database.
declare -A wrapper_of
second_server() { data=$folder/mounted/second; }
install_server() { mkdir "$data"; }
start_server() { wrapper_of[$data]=$*; }
stop_server() { :; }

# The block cache is small, so that most reads go through the page cache.
bench=(db_bench --num="$KEYS" --compression_type=none --cache_size=8388608 --seed=1)

load() { "${bench[@]}" --db="$data" --benchmarks=fillrandom,compact >"$folder/load.log" 2>&1; }

# throughput THREADS SECONDS: operations a second, nine of ten read, the others are durable. Each is
# a process of its own, whose start counts in the processor time.
throughput() {
    local wrapper
    read -ra wrapper <<<"${wrapper_of[$data]}"
    (
        enter_groups
        exec "${wrapper[@]}" "${bench[@]}" --db="$data" --use_existing_db=1 --benchmarks=readrandomwriterandom --readwritepercent=90 \
            --sync=1 --threads="$1" --duration="$2" "${OPTIONS[@]}"
    ) 2>/dev/null | awk '/^readrandomwriterandom/ { for (at = 2; at <= NF; at++) if ($at == "ops/sec") print $(at - 1) }'
}

# What scripts/bench-run and bench-alone measure of MariaDB: sysbench's point selects and
# updates, beside two table checks and a dump. Sourced by them.

readonly ROWS=${ROWS:-600000}
PORT=${PORT:-33406}
readonly LOADS=(select update)
readonly VOLUME_MEGABYTES=2048
readonly MEMORY_MEGABYTES=0
# Binlogs of nobody, memory for a quarter of the data, and the log's default durability.
readonly SERVER=(--no-defaults --user=root --innodb-buffer-pool-size="${POOL:-128M}" --innodb-log-file-size=256M
    --innodb-flush-method=O_DIRECT --skip-log-bin --bind-address=127.0.0.1 --performance-schema=OFF)
needs "mariadb-server and sysbench" mariadbd mariadb-install-db mariadb mariadb-dump sysbench
# shellcheck source=scripts/lib/mariadb.sh
. "$HERE/lib/mariadb.sh"

# second_server: what follows is about another server, on a copy of the first one's files.
data=$folder/mounted/data
second_server() {
    data=$folder/mounted/second
    PORT=$((PORT + 1))
    answers_at "$folder/second"
}

install_server() { install_database "$data"; }

# start_server WRAPPER...: as a member of the groups, if there are any yet.
start_server() {
    (
        enter_groups
        exec "$@" mariadbd "${SERVER[@]}" "${OPTIONS[@]}" --datadir="$data" \
            --socket="$socket" --port="$PORT"
    ) >>"$folder/server.log" 2>&1 &
    server=$!
    await_server
}

load() {
    client --execute 'CREATE DATABASE sbtest'
    bench oltp_read_write prepare >/dev/null
}

# bench TEST ACTION OPTION...
bench() {
    local test=$1 action=$2
    shift 2
    sysbench "$test" --mysql-socket="$socket" --mysql-user=root --tables=4 --table-size="$ROWS" "$@" "$action"
}

start_beside() {
    again check "${CLIENT[@]}" sbtest --execute 'CHECK TABLE sbtest3 EXTENDED'
    again check "${CLIENT[@]}" sbtest --execute 'CHECK TABLE sbtest4 EXTENDED'
    again dump mariadb-dump --no-defaults --socket="$socket" --user=root --single-transaction --quick sbtest
}

# Prints the threads of the server that work for what stands beside.
threads_beside() {
    client --execute "SELECT tid FROM information_schema.processlist WHERE info LIKE 'CHECK%' OR info LIKE 'SELECT /*!40001%'"
}

# both SECONDS: updates and selects at once.
both() {
    local options=(run --percentile=99 --threads=16 --time="$1")
    bench oltp_update_non_index "${options[@]}" --rate="${UPDATES:-200}" >"$folder/update.txt" &
    local updates=$!
    bench oltp_point_select "${options[@]}" --rate="${SELECTS:-400}" >"$folder/select.txt" || true
    wait "$updates" || true
}

# result LOAD: transactions a second, their mean and 99th percentile in milliseconds.
result() {
    awk '/transactions:/ { gsub(/[(]/, "", $3); rate = $3 }
        / avg:/ { mean = $2 } /99th percentile:/ { p99 = $3 }
        END { print rate, mean, p99 }' "$folder/$1.txt"
}

# throughput CONNECTIONS SECONDS: transactions a second, as many as the server does.
throughput() {
    bench oltp_read_write run --threads="$1" --time="$2" | awk '/transactions:/ { gsub(/[(]/, "", $3); print $3 }'
}

# What scripts/bench-run and bench-alone measure of PostgreSQL: pgbench beside VACUUM, pg_dump
# and checkpoints. Sourced by them.

readonly SCALE=${SCALE:-100}
PORT=${PORT:-33432}
readonly LOADS=(transaction)
# 15 MB for each unit of the scale, twice for what VACUUM has not taken back yet, and the log.
readonly VOLUME_MEGABYTES=$((SCALE * 30 + 1500))
# Half of the data, for all processes and the page cache.
readonly MEMORY_MEGABYTES=${MEMORY_MEGABYTES:-$((SCALE * 15 / 2))}
readonly CHECKPOINT_SECONDS=10
version=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 2>/dev/null | sort -V | tail -1)
[ -n "$version" ] || complain "PostgreSQL is missing: install postgresql"
readonly PROGRAMS=$version/bin
needs "postgresql and postgresql-contrib" "$PROGRAMS/pgbench" "$PROGRAMS/pg_dump"
readonly AS_USER=(setpriv --reuid=postgres --regid=postgres --clear-groups)

server=
# Whether a server finds in memory what one before has left there.
KEEPS_PAGE_CACHE=${KEEPS_PAGE_CACHE:-}
data=$folder/mounted/data
answers_at() { CLIENT=("$PROGRAMS/psql" --no-psqlrc -qAt -U postgres -h "$folder" -p "$1" -d postgres -c); }
answers_at "$PORT"
# second_server: what follows is about another server, on a copy of the first one's files.
second_server() {
    data=$folder/mounted/second
    PORT=$((PORT + 1))
    answers_at "$PORT"
}
ask() { "${CLIENT[@]}" "$1"; }

install_server() {
    # The server's user cannot read what lies in a home.
    install -m 644 "$(interposer)" "$folder/library.so"
    RUN_OPTIONS+=(--library "$folder/library.so")
    chown postgres: "$folder" "$folder/mounted"
    "${AS_USER[@]}" "$PROGRAMS/initdb" --auth=trust --username=postgres -D "$data" >/dev/null
}

# start_server WRAPPER...
start_server() {
    [ -n "$KEEPS_PAGE_CACHE" ] || empty_page_cache
    (
        enter_groups
        exec "$@" "${AS_USER[@]}" "$PROGRAMS/postgres" -D "$data" -k "$folder" -p "$PORT" \
            -c listen_addresses= -c shared_buffers="$((MEMORY_MEGABYTES / 6))MB" -c max_wal_size=1GB \
            -c checkpoint_timeout=1h -c autovacuum=off "${OPTIONS[@]}"
    ) >>"$folder/server.log" 2>&1 </dev/null &
    server=$!
    local tries=0
    until ask 'SELECT 1' >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || { tail -20 "$folder/server.log" >&2; complain "the server does not start"; }
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || complain "the server does not answer"
        sleep 0.1
    done
}

stop_server() {
    [ -n "$server" ] || return 0
    kill -INT "$(head -1 "$data/postmaster.pid" 2>/dev/null || echo "$server")" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}

load() {
    "$PROGRAMS/pgbench" -i -q -s "$SCALE" -U postgres -h "$folder" -p "$PORT" postgres >"$folder/load.log" 2>&1
    ask CHECKPOINT
}

start_beside() {
    again dump "$PROGRAMS/pg_dump" -U postgres -h "$folder" -p "$PORT" postgres
    # All pages, also those in which nothing has changed since the last one.
    again vacuum "${CLIENT[@]}" 'VACUUM (DISABLE_PAGE_SKIPPING) pgbench_accounts'
    again checkpoint "${CLIENT[@]}" CHECKPOINT -c "SELECT pg_sleep($CHECKPOINT_SECONDS)"
}

# Prints the processes of the server that work for what stands beside.
threads_beside() {
    ask "SELECT pid FROM pg_stat_activity WHERE application_name = 'pg_dump' OR query LIKE 'VACUUM%'
        OR backend_type IN ('checkpointer', 'background writer')"
}

# both SECONDS
both() {
    rm -f "$folder"/log.*
    "$PROGRAMS/pgbench" -n -c 16 -j 2 --rate="${RATE:-150}" -T "$1" -l --log-prefix="$folder/log" \
        -U postgres -h "$folder" -p "$PORT" postgres >"$folder/transaction.txt" 2>&1 || true
}

# result LOAD: transactions a second, their mean and 99th percentile in milliseconds, from the
# moment at which they should have begun.
result() {
    cat "$folder"/log.* | awk '{ print $3 }' | sort -n | awk '
        { time[NR] = $1; sum += $1; }
        END { if (NR) printf "%.1f %.3f %.3f\n", NR / '"$SECONDS_EACH"', sum / NR / 1000, time[int(NR * 0.99 + 0.999)] / 1000
              else print "0 0 0" }'
}

# throughput CONNECTIONS SECONDS: transactions a second, as many as the server does.
throughput() {
    "$PROGRAMS/pgbench" -n -c "$1" -j 2 -T "$2" -U postgres -h "$folder" -p "$PORT" postgres 2>/dev/null | awk '/^tps/ { print $3 }'
}

# One MariaDB server for a measurement, over a Unix socket, $socket. Sourced, beside common.sh.

server=
# A server that starts removes what others have in its folder for temporary tables.
export TMPDIR=$folder

# answers_at SOCKET: where the server is that the functions below are about.
answers_at() {
    socket=$1
    # As a client, also in the background.
    CLIENT=(mariadb --no-defaults --user=root --socket="$socket")
}
answers_at "$folder/socket"

client() { "${CLIENT[@]}" --skip-column-names "$@"; }

# install_database FOLDER
install_database() {
    mariadb-install-db --no-defaults --user=root --datadir="$1" --auth-root-authentication-method=normal \
        --skip-test-db >"$folder/install.log" 2>&1 || { cat "$folder/install.log" >&2; complain "no database"; }
}

# await_server: until the process $server, which was just started, answers. Its log is $folder/server.log.
await_server() {
    local tries=0
    until client --execute 'SELECT 1' >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || { tail -20 "$folder/server.log" >&2; complain "the server does not start"; }
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || complain "the server does not answer"
        sleep 0.1
    done
}

stop_server() {
    [ -n "$server" ] || return 0
    client --execute SHUTDOWN >/dev/null 2>&1 || kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}

# Tests of the server's own suite `main` with every table of theirs in the engine. Their results are older than the server and
# full of another engine's plans: what InnoDB gives on the same server is recorded, and what each statement gives is
# compared, the same rows in any order, the same errors. Plans, and what counts work, are left out. A statement that one engine
# refuses does not end a test: it differs. Sourced beside mtr.sh.

# The tests: joins, subqueries, types, collations, and what lies between.
readonly MAIN_TESTS=$ROOT/mariadb/mysql-test/main-tests

# record_main ENGINE PLUGIN TO TEST...: what the tests give, as TO/TEST.result, and TO/log. One that does not end leaves an
# empty file. The tree has the same path for each engine, as messages name files.
record_main() {
    local engine=$1 plugin=$2 to=$3 usr=$folder/main-usr main name
    shift 3
    main=$usr/share/mysql/mysql-test/main
    mkdir -p "$main" "$to"
    cp -R "$tree/server/usr/share/mysql/mysql-test/main/." "$main"
    make_tree "$usr" "$engine" "$plugin"
    for name in "$@"; do : >"$main/$name.result"; done
    printf '#!/bin/sh\nexec "%s" "$@" --continue-on-error\n' "$tree/server/usr/bin/mariadb-test" >"$folder/test-client"
    chmod +x "$folder/test-client"
    MYSQL_TEST=$folder/test-client run_suites "$usr" "$engine" "$to/log" main --record "${@/#/main.}" >&2
    for name in "$@"; do cp "$main/$name.result" "$to/"; done
    rm -rf "$usr"
}

# run_main LOG TEST...: all tests if none is named. What InnoDB gives is kept with the server.
run_main() {
    local log=$1 reference=$tree/main missing=() name
    shift
    [ $# -gt 0 ] || mapfile -t < <(sed '/^#/d' "$MAIN_TESTS")
    [ $# -gt 0 ] || set -- "${MAPFILE[@]}"
    for name in "$@"; do [ -e "$reference/$name.result" ] || missing+=("$name"); done
    if [ ${#missing[@]} -gt 0 ]; then
        echo "recording what InnoDB gives: ${#missing[@]} tests" >&2
        record_main InnoDB '' "$folder/recorded-main" "${missing[@]}"
        mkdir -p "$reference"
        mv "$folder"/recorded-main/*.result "$reference/"
    fi
    record_main "$ENGINE" "$plugin" "$folder/main" "$@"
    [ -z "${KEEP_LOGS:-}" ] || cp -R "$folder/main" "$KEEP_LOGS/"
    python3 -B "$ROOT/mariadb/rigs/main_tests.py" --reference "$reference" --engine "$folder/main" "$@" | tee "$log"
}

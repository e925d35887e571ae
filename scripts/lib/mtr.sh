# The server's own test program, on a tree of links to the server with the engine in it. Sourced, beside engine.sh, after ROOT
# (this repository), JOBS, and $folder are set.

readonly TEST_MINUTES_MAX=5 SUITE_MINUTES_MAX=120

# links FROM TO: what is in one folder, in another one, without what is there.
links() {
    local each
    mkdir -p "$2"
    for each in "$1"/*; do
        [ -e "$2/${each##*/}" ] || ln -s "$each" "$2/"
    done
}

# mysql-test-run finds the server, its plugins and the overlays of suites beside itself.
#
# make_tree FOLDER ENGINE PLUGIN
make_tree() {
    local to=$1 engine=$2 plugin=$3 usr=$tree/server/usr
    local tests=$to/share/mysql/mysql-test overlays=$to/share/mysql/mysql-test/plugin/iolane suite
    mkdir -p "$to/lib/mysql/plugin" "$overlays" "$tests/suite"
    cp -R "$ROOT/mariadb/mysql-test/overlay/." "$overlays"
    [ ! -e "$ROOT/mariadb/mysql-test/suite/iolane" ] || cp -R "$ROOT/mariadb/mysql-test/suite/iolane" "$overlays"
    sed -i "s/= IOLANE;/= $engine;/" "$overlays/storage_engine/define_engine.inc"
    # These are recorded.
    for suite in storage_engine engines; do cp -R "$usr/share/mysql/mysql-test/suite/$suite" "$tests/suite/"; done
    [ -z "$plugin" ] || ln -s "$plugin" "$to/lib/mysql/plugin/"
    links "$usr/share/mysql/mysql-test/suite" "$tests/suite"
    links "$usr/lib/mysql/plugin" "$to/lib/mysql/plugin"
    links "$usr/share/mysql/mysql-test" "$tests"
    links "$usr/share/mysql" "$to/share/mysql"
    links "$usr/share" "$to/share"
    links "$usr/lib" "$to/lib"
    links "$usr" "$to"
}

# run_suites TREE ENGINE LOG SUITE[,SUITE] OPTION...: its output to the log, too.
run_suites() {
    local usr=$1 engine=$2 log=$3 suites=$4 server=(--mysqld=--partition)
    shift 4
    [ "$engine" != IOLANE ] || server+=(--mysqld=--plugin-load-add=ha_iolane.so --mysqld=--plugin-maturity=experimental)
    [ "$engine" != InnoDB ] || server+=(--mysqld=--innodb)
    case $suites in
    engines/*) server+=(--combination="--default-storage-engine=$engine") ;;
    main) server+=(--mysqld=--innodb --mysqld=--default-storage-engine="$engine") ;;
    esac
    (
        cd "$usr/share/mysql/mysql-test"
        perl mysql-test-run.pl --suite="$suites" --vardir="$folder/var" --tmpdir="$folder/tmp" --force \
            --max-test-fail=0 --retry=1 --parallel="$JOBS" --testcase-timeout="$TEST_MINUTES_MAX" \
            --suite-timeout="$SUITE_MINUTES_MAX" --nowarnings "${server[@]}" "$@" 2>&1 || true
    ) | tee "$log"
    grep -q '^The servers were restarted\|^Completed: ' "$log" || echo "$suites did not end" >>"$folder/broken"
}

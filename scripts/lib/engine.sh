# A scratch MariaDB with the engine under test, for tests and measurements of ha_iolane. Sourced, with
# `set -euo pipefail`, beside common.sh, after HERE (the folder scripts/) is set.
#
# ENGINE is IOLANE, or another engine of the server, to try the test itself on. PLUGIN is a ha_iolane.so that was built
# before; without it, scripts/mariadb-build makes one.

# shellcheck disable=SC2034  # used by those that source this
ENGINE=${ENGINE:-IOLANE}

# find_engine: sets $tree, the server's, and $plugin, which is empty for an engine of the server's own. Puts the server's
# programs first in PATH. Exits as mariadb-build does where the machine lacks something.
find_engine() {
    plugin=${PLUGIN:-}
    [ "$ENGINE" = IOLANE ] || plugin=
    tree=$("$HERE/mariadb-build" tree) || exit $?
    [ "$ENGINE" != IOLANE ] || [ -n "$plugin" ] || plugin=$("$HERE/mariadb-build" plugin) || exit $?
    PATH=$tree/server/usr/bin:$tree/server/usr/sbin:$PATH
}

# engine_options: sets $engine_options, the server's options for the engine.
engine_options() {
    local usr=$tree/server/usr
    engine_options=(--no-defaults --user=root --tmpdir="$folder" --basedir="$usr" --lc-messages-dir="$usr/share/mysql"
        --character-sets-dir="$usr/share/mysql/charsets")
    [ -z "$plugin" ] || engine_options+=(--plugin-dir="$(dirname "$plugin")" --plugin-maturity=experimental
        --plugin-load-add=ha_iolane.so)
}

# install_engine_database FOLDER: an empty data directory.
install_engine_database() {
    mariadb-install-db --no-defaults --basedir="$tree/server/usr" --user=root --datadir="$1" --tmpdir="$folder" \
        --auth-root-authentication-method=normal --skip-test-db >"$folder/install.log" 2>&1 ||
        { cat "$folder/install.log" >&2; complain "no database"; }
}

# SPDX-License-Identifier: GPL-2.0-only
"""How much memory a server takes over many statements; scripts/mariadb-memory says how."""

import re
import subprocess
import sys

import protocol
import servers
from protocol import Failed, must

TABLES, ROWS, THREADS = 2, 5000, 4
# Of oltp_read_write, with BEGIN and COMMIT.
STATEMENTS_PER_EVENT = 20
PARTS = 10
# Pool, caches and the allocator's own are full after so many parts.
PARTS_OF_GROWTH = 3
# What the rest may add: more is a leak of a few bytes in each statement.
GROWTH_KIB_MAX = 8 << 10
FILL_ROWS = 3000


def sysbench(server, engine, *arguments):
    command = ["sysbench", "oltp_read_write", f"--mysql-socket={server.socket}", "--mysql-user=root", "--mysql-db=sbtest",
               f"--mysql-storage-engine={engine}", f"--tables={TABLES}", f"--table-size={ROWS}", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1))


def definitions(server, engine):
    """What sysbench does not do: tables that come and go, are filled, changed and refused; transactions undone, and in two phases."""
    connection = protocol.Connection(server.socket, "sbtest")
    fill = f"INSERT INTO d SELECT seq, seq, REPEAT('x', seq % 900) FROM seq_1_to_{FILL_ROWS}"
    statements = [f"CREATE TABLE d (id INT PRIMARY KEY, n INT, t TEXT, UNIQUE KEY (n), KEY (t(20))) ENGINE={engine}", fill,
                  "ALTER TABLE d ADD COLUMN m INT, ADD KEY (m)", "SELECT COUNT(*) FROM d a JOIN d b ON a.n = b.m + 1",
                  "BEGIN", "SAVEPOINT a", "DELETE FROM d WHERE n % 3 = 0", "ROLLBACK TO a", "UPDATE d SET t = 'y' WHERE n % 5 = 0", "ROLLBACK",
                  "XA START 'x'", "DELETE FROM d WHERE n = 1 OR m = 2", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'",
                  "CHECK TABLE d", "TRUNCATE TABLE d", "DROP TABLE d"]
    for statement in statements:
        must(connection, statement)
    connection.close()


def main():
    options = servers.options(statements=1000000)
    server = servers.Server(options.folder, options.command)
    events = max(1, options.statements // STATEMENTS_PER_EVENT // PARTS)
    sizes = []
    failure = None
    try:
        server.start()
        connection = protocol.Connection(server.socket)
        connection.query("CREATE DATABASE sbtest")
        connection.close()
        sysbench(server, options.engine, "prepare")
        for part in range(1, PARTS + 1):
            sysbench(server, options.engine, f"--threads={THREADS}", "--time=0", f"--events={events}", "--mysql-ignore-errors=1213,1205,1020", "run")
            definitions(server, options.engine)
            sizes.append(resident_kib(server))
            print(f"{part * events * STATEMENTS_PER_EVENT} statements: {sizes[-1]} KiB resident", flush=True)
        grown = sizes[-1] - sizes[PARTS_OF_GROWTH - 1]
        if grown > GROWTH_KIB_MAX:
            failure = f"{grown} KiB more than after part {PARTS_OF_GROWTH}"
    except (Failed, protocol.Lost, subprocess.CalledProcessError) as failed:
        failure = f"{failed}\n{server.tail()}"
    finally:
        server.stop()
    if failure:
        print(f"FAIL {failure}")
    print(f"{int(not failure)} passed, {int(bool(failure))} failed, 0 skipped")
    return 3 if failure else 0


if __name__ == "__main__":
    sys.exit(main())

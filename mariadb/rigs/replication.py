# SPDX-License-Identifier: GPL-2.0-only
"""A primary on one engine and its replica on another, under sysbench; scripts/mariadb-replication says how."""

import subprocess
import sys
import threading
import time

import protocol
import servers
from protocol import Failed

TABLES, ROWS, THREADS = 4, 1000, 4
# The replica may be so far behind when the load ends.
CATCH_UP_S_MAX = 300
KILL_S = (0.5, 3.0)
# Tables say no engine: each server makes them of its own default one.
ANY_ENGINE = "'DEFAULT'"
WHAT = "COUNT(*), BIT_XOR(CRC32(CONCAT_WS('|', id, k, c, pad)) << 8 | id % 256)"

# A replica that is killed behind such a statement, before it has noted that, executes it again.
DEFINITIONS = [
    "CREATE OR REPLACE TABLE defined (id INT PRIMARY KEY, v INT, KEY (v))",
    "INSERT INTO defined SELECT seq, seq % 9 FROM seq_1_to_300",
    "ALTER TABLE defined ADD COLUMN IF NOT EXISTS c INT DEFAULT 3",
    "ALTER TABLE defined ADD KEY IF NOT EXISTS c (c)",
    "UPDATE defined SET c = v WHERE v > 4",
    "ALTER TABLE defined PARTITION BY HASH (id) PARTITIONS 3",
    "DELETE FROM defined WHERE v = 2",
    "ALTER TABLE defined PARTITION BY HASH (id) PARTITIONS 2",
    "TRUNCATE TABLE defined",
    "INSERT INTO defined (id, v) SELECT seq, seq % 7 FROM seq_1_to_2000",
]


class Definer(threading.Thread):
    """Defines a table over and over, and ends with rows in it."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.stopped = threading.Event()
        self.count = 0
        self.error = None
        self.start()

    def run(self):
        try:
            connection = protocol.Connection(self.server.socket, "sbtest")
            while not self.stopped.is_set():
                for statement in DEFINITIONS:
                    protocol.must(connection, statement)
                    self.count += 1
        except (Failed, protocol.Lost) as failure:
            self.error = str(failure)

    def stop(self):
        self.stopped.set()
        self.join()
        if self.error:
            raise Failed(self.error)


def must(server, statement):
    connection = protocol.Connection(server.socket)
    try:
        return protocol.must(connection, statement)
    finally:
        connection.close()


def start(folder, name, number, port, engine, parallel, command):
    server = servers.Server(folder, command + [
        "--bind-address=127.0.0.1", f"--port={port}", f"--server-id={number}", "--log-bin=binlog", "--binlog-format=ROW",
        "--sync-binlog=1", "--log-slave-updates=ON", f"--default-storage-engine={engine}", f"--gtid-pos-auto-engines={engine}",
        f"--slave-parallel-threads={parallel}"], name)
    server.start()
    return server


def sysbench(server, *arguments):
    return ["sysbench", "oltp_write_only", f"--mysql-socket={server.socket}", "--mysql-user=root", "--mysql-db=sbtest",
            f"--mysql-storage-engine={ANY_ENGINE}", f"--tables={TABLES}", f"--table-size={ROWS}", *arguments]


def caught_up(primary, replica):
    position = must(primary, "SELECT @@gtid_binlog_pos").rows[0][0].decode()
    until = time.monotonic() + CATCH_UP_S_MAX
    while time.monotonic() < until:
        if must(replica, "SELECT @@gtid_slave_pos").rows[0][0].decode() == position:
            return
        error = [row for row in must(replica, "SHOW SLAVE STATUS").rows]
        # Last_SQL_Error is the 38th column.
        if error and error[0][37]:
            raise Failed(f"the replica stopped: {error[0][37].decode()}")
        time.sleep(0.2)
    raise Failed(f"the replica does not reach {position}")


def engine_of(server):
    return must(server, "SELECT engine FROM information_schema.tables WHERE table_schema = 'sbtest' LIMIT 1").rows[0][0].decode()


def direction(options, folder, engines, port):
    primary = start(folder, "primary", 1, port, engines[0], options.parallel, options.command)
    replica = None
    try:
        replica = start(folder, "replica", 2, port + 1, engines[1], options.parallel, options.command)
        must(primary, "CREATE USER repl@'127.0.0.1'")
        must(primary, "GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'")
        must(primary, "RESET MASTER")
        must(replica, f"CHANGE MASTER TO master_host='127.0.0.1', master_port={port}, master_user='repl', master_connect_retry=1,"
             " master_use_gtid=slave_pos")
        must(replica, "START SLAVE")
        must(primary, "CREATE DATABASE sbtest")
        subprocess.run(sysbench(primary, "prepare"), check=True, stdout=subprocess.DEVNULL)
        load = subprocess.Popen(sysbench(primary, f"--threads={THREADS}", "--time=0", f"--events={options.transactions}", "run"),
                                stdout=subprocess.DEVNULL)
        definer = Definer(primary)
        for number in range(options.kills):
            time.sleep(options.random.uniform(*KILL_S))
            replica.stop()
            replica.resume()
        failed = load.wait()
        definer.stop()
        if failed:
            raise Failed("sysbench failed")
        caught_up(primary, replica)
        if (engine_of(primary), engine_of(replica)) != engines:
            raise Failed(f"the tables are of {engine_of(primary)} and {engine_of(replica)}")
        sums = [must(server, "SELECT COUNT(*), SUM(id * (v + 1)), SUM(c) FROM sbtest.defined").rows for server in (primary, replica)]
        if sums[0] != sums[1]:
            raise Failed(f"defined: {sums[0]} in the primary, {sums[1]} in the replica")
        for number in range(1, TABLES + 1):
            rows = [must(server, f"SELECT {WHAT} FROM sbtest.sbtest{number}").rows for server in (primary, replica)]
            if rows[0] != rows[1]:
                raise Failed(f"sbtest{number}: {rows[0]} in the primary, {rows[1]} in the replica")
            for row in must(replica, f"CHECK TABLE sbtest.sbtest{number} EXTENDED").rows:
                if row[2] == b"error":
                    raise Failed(f"CHECK TABLE sbtest{number}: {row[3].decode()}")
        print(f"{engines[0]} to {engines[1]}: {options.transactions} transactions, {definer.count} definitions, the replica killed {options.kills} times: equal", flush=True)
    except protocol.Lost as lost:
        raise Failed(f"{lost}\n{primary.tail()}\n{replica.tail() if replica else ''}") from lost
    finally:
        primary.stop()
        if replica:
            replica.stop()


def main():
    options = servers.seeded_options(port=33480, transactions=10000, kills=3, parallel=4)
    failed = 0
    for engines in (("InnoDB", options.engine), (options.engine, "InnoDB")):
        try:
            direction(options, options.folder, engines, options.port)
        except Failed as failure:
            failed += 1
            print(f"FAIL {engines[0]} to {engines[1]}: {failure}", flush=True)
    return servers.result(2 - failed, failed)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-2.0-only
"""A server with the binary log on, killed in the middle of its work over and over; scripts/mariadb-crash says how.

After each restart:
- a transaction that was acknowledged is there, and each of three rows that a transaction changes is from the same one;
- all of a table's keys lead to the same rows, and CHECK TABLE finds nothing;
- what the binary log says, applied to a copy, gives the same rows;
- XA transactions whose PREPARE was acknowledged are prepared, or ended if that was asked for; then all are ended, and what they
  changed is there or not.
"""

import os
import re
import subprocess
import sys

import protocol
import servers
from protocol import Failed, must

ROWS = 300
SYSBENCH_TABLES, SYSBENCH_ROWS = 2, 2000
WORKERS = 3
# Long enough for some thousand transactions, and for the engine's own write-back.
WORK_S = (0.5, 4.0)
XA_LIMIT = 400
# What mariadb-binlog says of a file that ends within an event.
TORN = "Event truncated"
COLUMNS = {"acked.a": "id, version, body", **{f"sbtest.sbtest{n}": "id, k, c, pad" for n in range(1, SYSBENCH_TABLES + 1)}}
BIT_XOR = "COUNT(*), BIT_XOR(CRC32(CONCAT_WS('|', {columns})) << 8 | id % 256)"


def body(group, version):
    return f"{group}:{version} " * (1 + version % 20)


class Worker(servers.Worker):
    """Changes three rows a transaction, to the same version, until the server dies. What it was told is in `known`."""

    def __init__(self, server, number, known, seed):
        super().__init__(server, seed)
        self.number, self.known = number, known

    def work(self, connection):
        while True:
            self.step(connection)

    def step(self, connection):
        group = self.random.randrange(ROWS) * WORKERS + self.number
        acknowledged, _ = self.known.get(group, (0, 0))
        version = max(self.known.get(group, (0, 0))) + 1
        self.known[group] = (acknowledged, version)
        must(connection, "BEGIN")
        for row in range(3):
            text = body(group, version)
            must(connection, f"INSERT INTO acked.a VALUES ({group * 3 + row}, {version}, '{text}')"
                 f" ON DUPLICATE KEY UPDATE version = {version}, body = '{text}'")
        must(connection, "COMMIT")
        self.known[group] = (version, version)


class Preparer(servers.Worker):
    """XA transactions of one row each: some are committed, some rolled back, some left prepared."""

    def __init__(self, server, first, seed):
        super().__init__(server, seed)
        self.next = first
        # number -> what was acknowledged last: started, prepared, asked-COMMIT, asked-ROLLBACK, COMMIT, ROLLBACK
        self.states = {}

    def work(self, connection):
        while len(self.states) < XA_LIMIT:
            connection = self.step(connection)

    def step(self, connection):
        number, self.next = self.next, self.next + 1
        self.states[number] = "started"
        must(connection, f"XA START 'x{number}'")
        must(connection, f"INSERT INTO xa.x VALUES ({number}, {number % 7})")
        must(connection, f"XA END 'x{number}'")
        must(connection, f"XA PREPARE 'x{number}'")
        self.states[number] = "prepared"
        end = self.random.choice(["COMMIT", "ROLLBACK", None])
        if end:
            self.states[number] = "asked-" + end
            must(connection, f"XA {end} 'x{number}'")
            self.states[number] = end
            return connection
        # It stays prepared when its connection ends.
        connection.close()
        return protocol.Connection(self.socket)


class Rig:
    def __init__(self, server, options):
        self.server, self.options = server, options
        self.random = options.random
        self.known = {}
        self.next_xa = 1
        self.last = None

    def sysbench(self, *arguments):
        return ["sysbench", "oltp_write_only", f"--mysql-socket={self.server.socket}", "--mysql-user=root", "--mysql-db=sbtest",
                f"--mysql-storage-engine={self.options.engine}", f"--tables={SYSBENCH_TABLES}", f"--table-size={SYSBENCH_ROWS}", *arguments]

    def client(self, *arguments):
        return ["mariadb", "--no-defaults", "--user=root", f"--socket={self.server.socket}", *arguments]

    def set_up(self):
        self.server.start()
        admin = protocol.Connection(self.server.socket)
        for name in ("sbtest", "acked", "xa", "replay"):
            must(admin, f"CREATE DATABASE {name}")
        engine = self.options.engine
        must(admin, f"CREATE TABLE acked.a (id BIGINT PRIMARY KEY, version BIGINT NOT NULL, body TEXT NOT NULL, KEY (version), KEY (body(20)))"
             f" ENGINE={engine}")
        must(admin, f"CREATE TABLE xa.x (id BIGINT PRIMARY KEY, n INT, KEY (n)) ENGINE={engine}")
        subprocess.run(self.sysbench("prepare"), check=True, stdout=subprocess.DEVNULL)
        for table in COLUMNS:
            name = table.split(".")[1]
            must(admin, f"CREATE TABLE replay.{name} LIKE {table}")
            must(admin, f"ALTER TABLE replay.{name} ENGINE=InnoDB")
            must(admin, f"INSERT INTO replay.{name} SELECT * FROM {table}")
        must(admin, "RESET MASTER")
        admin.close()

    def work(self):
        """Until the server is killed."""
        workers = [Worker(self.server, number, self.known, self.random.random()) for number in range(WORKERS)]
        preparer = Preparer(self.server, self.next_xa, self.random.random())
        load = subprocess.Popen(self.sysbench("--threads=4", "--time=0", "--events=0", "--mysql-ignore-errors=all", "run"),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            servers.kill_beside(self.server, workers + [preparer], self.random.uniform(*WORK_S))
        finally:
            load.kill()
            load.wait()
        self.next_xa = preparer.next
        return preparer.states

    def check_acknowledged(self, admin):
        found = {}
        for group, low, high, rows, different in must(
                admin, "SELECT id DIV 3, MIN(version), MAX(version), COUNT(*), COUNT(DISTINCT body) FROM acked.a GROUP BY id DIV 3").rows:
            if low != high or rows != b"3" or different != b"1":
                raise Failed(f"acked.a: group {group.decode()} has versions {low.decode()} to {high.decode()}, {rows.decode()} rows: half a transaction")
            found[int(group)] = int(low)
        for group, (acknowledged, attempted) in self.known.items():
            version = found.get(group, 0)
            if not acknowledged <= version <= attempted:
                raise Failed(f"acked.a: group {group}: version {acknowledged} was acknowledged, {attempted} the last attempt, there is {version}")
            self.known[group] = (version, attempted)

    def check_tables(self, admin):
        for table in list(COLUMNS) + ["xa.x"]:
            for row in must(admin, f"CHECK TABLE {table} EXTENDED").rows:
                if row[2] == b"error" or (row[2] == b"status" and row[3] != b"OK"):
                    raise Failed(f"CHECK TABLE {table}: {row[3].decode()}")
            counts = {}
            for key in {row[2].decode() for row in must(admin, f"SHOW INDEX FROM {table}").rows}:
                counts[key] = must(admin, f"SELECT COUNT(*), BIT_XOR(id), SUM(id) FROM {table} FORCE INDEX ({key}) WHERE id >= 0").rows[0]
            if len(set(counts.values())) > 1:
                raise Failed(f"{table}: its keys disagree: {counts}")

    def apply_file(self, name, may_be_torn):
        """To the copy. A kill in the middle of a write leaves half a transaction at the end of the file that was written to: it is
        undone, with its client."""
        rewrites = [f"--rewrite-db={database}->replay" for database in ("sbtest", "acked")]
        with open(f"{self.options.folder}/binlog-errors", "w+") as errors:
            read = subprocess.Popen(["mariadb-binlog", "--no-defaults", "--disable-log-bin", *rewrites, f"{self.server.folder}/data/{name}"],
                                    stdout=subprocess.PIPE, stderr=errors)
            # XA transactions are in no database of the copy; what is left of them are their ends.
            kept = subprocess.Popen(["sed", "/^XA /d"], stdin=read.stdout, stdout=subprocess.PIPE)
            applied = subprocess.run(self.client(), stdin=kept.stdout, stderr=subprocess.PIPE)
            # Without this, who writes would wait for ever for a client that gave up.
            read.stdout.close()
            kept.stdout.close()
            kept.wait()
            unreadable = read.wait()
            errors.seek(0)
            said = errors.read()
        if applied.returncode or (unreadable and not (may_be_torn and TORN in said)):
            raise Failed(f"the binary log {name} cannot be applied: {said}{applied.stderr.decode()}")

    def apply_binary_log(self, admin, written):
        for row in must(admin, "SHOW BINARY LOGS").rows:
            name = row[0].decode()
            self.apply_file(name, may_be_torn=name == written)
        for table, columns in COLUMNS.items():
            what = BIT_XOR.format(columns=columns)
            here, there = (must(admin, f"SELECT {what} FROM {name}").rows[0] for name in (table, "replay." + table.split(".")[1]))
            if here != there:
                raise Failed(f"{table}: rows {here}, by the binary log {there}")

    def check_prepared(self, admin, states):
        prepared = {row[3].decode() for row in must(admin, "XA RECOVER").rows}
        rows = {int(row[0]) for row in must(admin, "SELECT id FROM xa.x").rows}
        for number, state in states.items():
            name = f"x{number}"
            if state == "prepared" and name not in prepared:
                raise Failed(f"XA transaction {name} was prepared, and is lost")
            if state in ("COMMIT", "ROLLBACK") and name in prepared:
                raise Failed(f"XA {state} of {name} was acknowledged, and it is prepared")
            if state == "COMMIT" and number not in rows:
                raise Failed(f"XA COMMIT of {name} was acknowledged, and its row is lost")
            if (state in ("ROLLBACK", "started") or name in prepared) and number in rows:
                raise Failed(f"XA transaction {name} ({state}) is visible")
        ended = {}
        for name in prepared:
            end = self.random.choice(["COMMIT", "ROLLBACK"])
            must(admin, f"XA {end} '{name}'")
            ended[int(name[1:])] = end
        rows = {int(row[0]) for row in must(admin, "SELECT id FROM xa.x").rows}
        for number, end in ended.items():
            if (number in rows) != (end == "COMMIT"):
                raise Failed(f"XA {end} of x{number} after the restart: its row is {'' if number in rows else 'not '}there")

    def written(self):
        """The file of the binary log that the server wrote to when it was killed; it begins another one when it starts."""
        return max(name for name in os.listdir(f"{self.server.folder}/data") if re.fullmatch(r"binlog\.\d{6}", name))

    def round(self):
        states = self.work()
        written = self.written()
        self.server.resume()
        admin = protocol.Connection(self.server.socket)
        self.check_prepared(admin, states)
        self.check_acknowledged(admin)
        self.check_tables(admin)
        self.apply_binary_log(admin, written)
        must(admin, "RESET MASTER")
        admin.close()
        return len(states)

    def rounds(self):
        self.set_up()
        for number in range(1, self.options.rounds + 1):
            prepared = self.round()
            versions = sum(version for version, _ in self.known.values())
            print(f"kill {number}: {versions} acknowledged transactions so far, {prepared} by XA in this round", flush=True)
            yield


def play(server, options):
    return Rig(server, options).rounds()


if __name__ == "__main__":
    sys.exit(servers.count_kills(play))

# SPDX-License-Identifier: GPL-2.0-only
"""Backups by a statement beside writers and definitions; scripts/mariadb-online-backup says how."""

import os
import random
import shutil
import subprocess
import sys
import threading
import time

import protocol
import servers
from protocol import Failed, must

ACCOUNTS, WRITERS, FILLED, BALANCE = 5000, 3, 5000, 1000
BACKUP_S_MAX, CATCH_UP_S_MAX = 600, 300
KILL_S = (0.0, 1.5)
INTERRUPTED, DISK_FAILED = 1317, 1296
# Of statements that meet each other: lock waits, deadlocks, tables that have gone or come meanwhile.
MET = {1205, 1213, 1146, 1412, 1050, 1051, 1020}
INFO = "iolane_backup_info"


def value(connection, statement):
    return must(connection, statement).rows[0][0]


def set_up(connection, engine):
    for statement in (
            "CREATE USER repl@'127.0.0.1'", "GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'", "CREATE DATABASE bank", "USE bank",
            f"CREATE TABLE bank.account (id INT PRIMARY KEY, balance INT NOT NULL, pad VARCHAR(400), KEY (balance)) ENGINE={engine}",
            f"CREATE TABLE bank.transfer (id INT PRIMARY KEY AUTO_INCREMENT, source INT, target INT, KEY (source), KEY (target)) ENGINE={engine}",
            f"CREATE TABLE bank.filled (id INT PRIMARY KEY, v INT, KEY (v)) ENGINE={engine}",
            f"CREATE TABLE bank.altered (id INT PRIMARY KEY, v INT) ENGINE={engine} PARTITION BY HASH (id) PARTITIONS 2",
            f"CREATE TABLE bank.parted (id INT PRIMARY KEY, v INT) ENGINE={engine} PARTITION BY RANGE (id)"
            " (PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN MAXVALUE)",
            f"CREATE TABLE bank.exchanged (id INT PRIMARY KEY, v INT) ENGINE={engine}",
            "INSERT INTO bank.parted SELECT seq, seq FROM seq_1_to_3000",
            f"INSERT INTO bank.account SELECT seq, {BALANCE}, REPEAT('x', seq % 400) FROM seq_1_to_{ACCOUNTS}",
            "INSERT INTO bank.altered SELECT seq, seq FROM seq_1_to_3000"):
        must(connection, statement)


# From the partitions of the beginning to these.
REPARTITIONS = [
    "ALTER TABLE parted REORGANIZE PARTITION p0 INTO (PARTITION p0 VALUES LESS THAN (300), PARTITION p2 VALUES LESS THAN (1000))",
    "ALTER TABLE parted EXCHANGE PARTITION p2 WITH TABLE exchanged",
    "ALTER TABLE parted REBUILD PARTITION p1",
    "ALTER TABLE parted EXCHANGE PARTITION p2 WITH TABLE exchanged",
    "RENAME TABLE parted TO moved_parts, moved_parts TO parted",
    "ALTER TABLE parted REORGANIZE PARTITION p0, p2 INTO (PARTITION p0 VALUES LESS THAN (1000))",
]


class Load:
    """Threads that write, each by a connection of its own, until it is stopped."""

    def __init__(self, socket, engine, seed):
        self.stopped = threading.Event()
        self.failures = []
        self.socket = socket
        self.transfers = 0
        works = [lambda c, r: self.transfer(c, r)] * WRITERS + [self.fill, lambda c, r: self.define(c, r, engine), self.repartition]
        self.threads = [threading.Thread(target=self.run, args=(work, seed + number)) for number, work in enumerate(works)]
        for thread in self.threads:
            thread.start()

    def run(self, work, seed):
        try:
            connection = protocol.Connection(self.socket, "bank")
            must(connection, "SET SESSION lock_wait_timeout = 30, iolane_lock_wait_timeout = 5")
            chance = random.Random(seed)
            while not self.stopped.is_set():
                work(connection, chance)
            connection.close()
        except (Failed, protocol.Lost) as failure:
            self.failures.append(str(failure))

    @staticmethod
    def tried(connection, statements):
        for statement in statements:
            reply = connection.query(statement)
            if reply.code in MET:
                connection.query("ROLLBACK")
                return False
            if reply.code:
                raise Failed(f"{statement}: {reply}")
        return True

    def transfer(self, connection, chance):
        source, target = chance.sample(range(1, ACCOUNTS + 1), 2)
        done = self.tried(connection, [
            "BEGIN", f"UPDATE account SET balance = balance - 1 WHERE id = {source}",
            f"UPDATE account SET balance = balance + 1 WHERE id = {target}",
            f"INSERT INTO transfer (source, target) VALUES ({source}, {target})", "COMMIT"])
        self.transfers += done

    def fill(self, connection, _):
        self.tried(connection, [f"INSERT INTO filled SELECT seq, seq FROM seq_1_to_{FILLED}"])
        time.sleep(0.1)
        self.tried(connection, ["TRUNCATE filled"])

    def define(self, connection, chance, engine):
        name = f"made_{chance.randrange(5)}"
        self.tried(connection, [f"CREATE TABLE IF NOT EXISTS {name} (id INT PRIMARY KEY) ENGINE={engine}",
                                f"REPLACE INTO {name} VALUES (1), (2)", "ALTER TABLE altered FORCE, ALGORITHM=COPY",
                                f"RENAME TABLE {name} TO moved", f"RENAME TABLE moved TO {name}"])
        if chance.random() < 0.5:
            self.tried(connection, [f"DROP TABLE {name}"])
        time.sleep(0.05)

    def repartition(self, connection, chance):
        self.tried(connection, REPARTITIONS)
        time.sleep(chance.uniform(0, 0.05))

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        if self.failures:
            raise Failed("; ".join(self.failures))


def back_up(server, path, kill_after_s=None):
    """Its reply, and how long it took."""
    connection = protocol.Connection(server.socket)
    connection.stream.settimeout(BACKUP_S_MAX)
    number = value(connection, "SELECT CONNECTION_ID()").decode()
    killer = None
    if kill_after_s is not None:
        other = protocol.Connection(server.socket)
        killer = threading.Timer(kill_after_s, lambda: other.query(f"KILL QUERY {number}"))
        killer.start()
    began = time.monotonic()
    try:
        return connection.query(f"SET GLOBAL iolane_backup = '{path}'"), time.monotonic() - began
    finally:
        if killer:
            killer.cancel()
            killer.join()
        connection.close()


def expect_nothing(path, why):
    for left in (path, path + ".part"):
        if os.path.lexists(left):
            raise Failed(f"{why}: {left} is left")


def info_of(path):
    with open(os.path.join(path, INFO)) as lines:
        return dict(line.rstrip("\n").split("=", 1) for line in lines)


def restore(folder, path, name, command):
    server = servers.Server(folder, command, name)
    data = os.path.join(server.folder, "data")
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(server.empty, data)
    # As the manual says it.
    subprocess.run(["cp", "-R", path + "/.", data], check=True)
    server.resume()
    return server


def tables_of(connection):
    return [row[0].decode() for row in must(connection, "SHOW TABLES FROM bank").rows]


def check(connection):
    """Everything is in order, and of one moment."""
    for name in tables_of(connection):
        for row in must(connection, f"CHECK TABLE bank.{name} EXTENDED").rows:
            if row[3] != b"OK":
                raise Failed(f"CHECK TABLE {name}: {row}")
    total = value(connection, "SELECT SUM(balance) FROM bank.account")
    if int(total) != ACCOUNTS * BALANCE:
        raise Failed(f"the balance is {total.decode()}")
    moved = value(connection, "SELECT COUNT(*) FROM (SELECT id, balance FROM bank.account a WHERE balance <> "
                  f"{BALANCE} + (SELECT COUNT(*) FROM bank.transfer WHERE target = a.id) - (SELECT COUNT(*) FROM bank.transfer"
                  " WHERE source = a.id)) differing")
    if int(moved):
        raise Failed(f"{moved.decode()} balances are not what was transferred")
    filled = int(value(connection, "SELECT COUNT(*) FROM bank.filled"))
    if filled not in (0, FILLED):
        raise Failed(f"{filled} of {FILLED} rows of one statement")
    if int(value(connection, "SELECT COUNT(*) FROM bank.altered")) != 3000:
        raise Failed("rows of a table that is altered are missing")
    if int(value(connection, "SELECT (SELECT COUNT(*) FROM bank.parted) + (SELECT COUNT(*) FROM bank.exchanged)")) != 3000:
        raise Failed("rows of a table whose partitions change are missing")


def follow(primary, restored, port, info):
    """The restored server becomes a replica from the position that the backup names, and is like the primary then."""
    must(restored, f"CHANGE MASTER TO master_host='127.0.0.1', master_port={port}, master_user='repl', master_connect_retry=1,"
         f" master_use_gtid=no, master_log_file='{info['binlog_file']}', master_log_pos={info['binlog_position']}")
    must(restored, "START SLAVE")
    file, position = must(primary, "SHOW MASTER STATUS").rows[0][:2]
    restored.stream.settimeout(CATCH_UP_S_MAX + 10)
    waited = value(restored, f"SELECT MASTER_POS_WAIT('{file.decode()}', {position.decode()}, {CATCH_UP_S_MAX})")
    if waited is None or int(waited) < 0:
        raise Failed(f"the replica stopped: {must(restored, 'SHOW SLAVE STATUS').rows[0][37].decode()}")
    must(restored, "STOP SLAVE")
    if tables_of(primary) != tables_of(restored):
        raise Failed(f"tables {tables_of(primary)} and {tables_of(restored)}")
    for name in tables_of(primary):
        sums = [must(side, f"CHECKSUM TABLE bank.{name} EXTENDED").rows[0][1] for side in (primary, restored)]
        if sums[0] != sums[1]:
            raise Failed(f"{name} differs from the primary's")


def one_round(options, server, number):
    path = os.path.join(options.folder, f"backup-{number}")
    load = Load(server.socket, options.engine, options.random.randrange(1 << 31))
    killed = 0
    try:
        time.sleep(options.random.uniform(0.2, 1.0))
        for _ in range(options.kills):
            reply, _ = back_up(server, path, options.random.uniform(*KILL_S))
            if reply.code == INTERRUPTED:
                killed += 1
                expect_nothing(path, "a backup was killed")
            elif reply.code:
                raise Failed(f"a backup that was to be killed: {reply}")
            else:
                shutil.rmtree(path)
        reply, seconds = back_up(server, path)
        if reply.code:
            raise Failed(f"backup: {reply}")
    finally:
        load.stop()
    info = info_of(path)
    restored = restore(options.folder, path, "restored", options.command + [f"--port={options.port + 1}", "--server-id=2"])
    try:
        sides = [protocol.Connection(each.socket) for each in (server, restored)]
        check(sides[1])
        transfers = value(sides[1], "SELECT COUNT(*) FROM bank.transfer").decode()
        follow(*sides, options.port, info)
    except protocol.Lost as lost:
        raise Failed(f"{lost}\n{restored.tail()}") from lost
    finally:
        restored.stop()
    shutil.rmtree(path)
    print(f"round {number}: {info['rows']} rows, {transfers} transfers, backed up in {seconds:.1f} s beside {load.transfers} transfers, "
          f"{killed} backups killed; restored, followed from {info['binlog_file']} {info['binlog_position']}: equal", flush=True)


def fill_a_disk(server, place):
    path = os.path.join(place, "backup")
    reply, _ = back_up(server, path)
    if reply.code != DISK_FAILED or "space" not in reply.message:
        raise Failed(f"a full disk: {reply}")
    expect_nothing(path, "the disk was full")
    print(f"a full disk: {reply.message}", flush=True)


def main():
    options = servers.seeded_options(small_disk=None, rounds=5, kills=3, port=33490)
    server = servers.Server(options.folder, options.command + [
        f"--port={options.port}", "--server-id=1", "--log-bin=binlog", "--binlog-format=ROW"], "primary")
    server.start()
    passed, failed, skipped = 0, 0, 0
    try:
        set_up(protocol.Connection(server.socket), options.engine)
        works = [lambda number=number: one_round(options, server, number) for number in range(options.rounds)]
        if options.small_disk:
            works.append(lambda: fill_a_disk(server, options.small_disk))
        else:
            skipped += 1
            print("a full disk: skipped: it needs root")
        for work in works:
            try:
                work()
                passed += 1
            except (Failed, protocol.Lost) as failure:
                failed += 1
                print(f"FAIL {failure}\n{server.tail()}", flush=True)
                break
    finally:
        server.stop()
    return servers.result(passed, failed, skipped)


if __name__ == "__main__":
    sys.exit(main())

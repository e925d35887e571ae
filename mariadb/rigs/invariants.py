# SPDX-License-Identifier: GPL-2.0-only
"""Connections that move amounts between rows, and others that look whether any is missing; scripts/mariadb-concurrent says how."""

import collections
import random
import sys
import threading

import accounts
import protocol
import servers
import transfers

PAGE_BYTES = (4096, 16384)
POOL_MIB = (16, 16, 64)
READERS = 2


class Reader(threading.Thread):
    """Reads whole tables by each of their keys, in one view and in one statement."""

    def __init__(self, server, tables, seed, over):
        super().__init__()
        self.connection = protocol.Connection(server.socket, "test")
        self.tables, self.random, self.over = tables, random.Random(seed), over
        self.error = None
        self.looks = 0

    def run(self):
        try:
            protocol.must(self.connection, "SET lock_wait_timeout = 3")
            while not self.over.is_set():
                table = self.random.choice(self.tables)
                look = self.random.choice((self.view, self.view, self.statement, self.joined, self.check, self.alter))
                try:
                    look(table)
                    self.looks += 1
                except accounts.Altered:
                    pass
                protocol.must(self.connection, "COMMIT")
        except (protocol.Failed, protocol.Lost) as failure:
            self.error = str(failure)
            self.over.set()

    def view(self, table):
        protocol.must(self.connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        protocol.must(self.connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        compare_keys(self.connection, table, self.random.sample(table.keys, 4))
        for _ in range(4):
            group = self.random.randrange(table.groups)
            for hint, condition in self.random.sample(table.ways(group), 3):
                found = table.total(self.connection, hint, condition)
                if found != (table.size, table.size * accounts.AMOUNT):
                    raise protocol.Failed(f"a view of {table.name} {hint} WHERE {condition} has {found[0]} rows of {table.size}, "
                                          f"with {found[1]} together")

    def statement(self, table):
        """At READ COMMITTED a statement has a view of its own."""
        protocol.must(self.connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        hints = [f"FORCE INDEX ({key}) WHERE {accounts.LEAST[key]}" for key in self.random.sample(table.keys, 2)]
        sums = ", ".join(f"(SELECT CONCAT(COUNT(*), ' ', SUM(amount)) FROM {table.name} {hint})" for hint in hints)
        found = accounts.ask(self.connection, f"SELECT {sums}").rows[0]
        wanted = f"{table.rows} {table.rows * accounts.AMOUNT}".encode()
        if set(found) != {wanted}:
            raise protocol.Failed(f"a statement finds {found} by {hints} of {table.name}, and not {wanted}")

    def joined(self, table):
        """The rows of many keys, looked for together."""
        protocol.must(self.connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        protocol.must(self.connection, f"SET join_cache_level = {self.random.choice((2, 6, 8))}")
        key, on = self.random.choice((("by_tag", "tag = s.seq"), ("by_grp", "grp = s.seq"), ("by_amount", "grp = s.seq")))
        found = table.total(self.connection, f"FORCE INDEX ({key}) JOIN seq_0_to_{table.groups - 1} s", on)
        if found != (table.rows, table.rows * accounts.AMOUNT):
            raise protocol.Failed(f"a join of {table.name} by {key} has {found[0]} rows of {table.rows}, with {found[1]} together")

    def check(self, table):
        check(self.connection, table)

    def alter(self, table):
        """Now and then a table gets another key beside the others' work."""
        if self.random.random() < 0.3:
            change = self.random.choice(("DROP KEY by_par, ADD KEY by_par (par)", "DROP KEY by_d, ADD KEY by_d (grp, d DESC)", "FORCE"))
            reply = self.connection.query(f"ALTER TABLE {table.name} {change}")
            if reply.code not in (0, *transfers.REFUSALS):
                raise protocol.Failed(f"ALTER TABLE {table.name} {change}: {reply}")


def check(connection, table):
    reply = accounts.ask(connection, f"CHECK TABLE {table.name} EXTENDED")
    # InnoDB warns of what is not purged yet.
    if [row[3] for row in reply.rows if not row[3].startswith(b"InnoDB: ")] != [b"OK"]:
        raise protocol.Failed(f"CHECK TABLE {table.name}: {reply.rows}")


def key_columns(key):
    columns = accounts.KEYS.get(key, {"by_u": "u", "by_claim": "claim"}.get(key, "id"))
    return [column.split()[0] for column in columns.replace("(8)", "").split(", ")]


def digest(connection, columns, source):
    """How many rows there are, and a number that tells whether they are others."""
    text = ", ".join(f"IFNULL({column}, 'none')" for column in columns)
    return accounts.ask(connection, f"SELECT COUNT(*), SUM(CRC32(CONCAT_WS(',', {text}))) FROM {source}").rows[0]


def compare_keys(connection, table, keys):
    """In one view: each key leads to the rows of the table, forwards and backwards, and has their values."""
    name = table.name
    found = table.total(connection, "USE INDEX ()", "TRUE")
    if found != (table.rows, table.rows * accounts.AMOUNT):
        raise protocol.Failed(f"a view of {name} has {found[0]} rows of {table.rows}, with {found[1]} together")
    for column in ("u", "id", "claim"):
        if table.has_unique or column != "claim":
            values = accounts.ask(connection, f"SELECT COUNT({column}), COUNT(DISTINCT {column}) FROM {name} USE INDEX ()").rows[0]
            if values[0] != values[1]:
                raise protocol.Failed(f"a view of {name} has a value of {column} twice: {values}")
    every = digest(connection, accounts.COMPARED, f"{name} USE INDEX ()")
    for key in keys:
        condition, named = accounts.LEAST[key], key_columns(key)
        alone = digest(connection, named, f"{name} USE INDEX ()")
        for columns, wanted in ((accounts.COMPARED, every), (named, alone)):
            by_key = f"{name} FORCE INDEX ({key}) WHERE {condition}"
            # With a limit the rows come in that order before they are counted.
            backwards = ", ".join(f"{column} DESC" for column in named)
            for source in (by_key, f"(SELECT {', '.join(columns)} FROM {by_key} ORDER BY {backwards} LIMIT 1000000) ordered"):
                found = digest(connection, columns, source)
                if found != wanted:
                    raise protocol.Failed(f"{', '.join(columns)} of {source}: {found}, and not {wanted}")


def some_tables(chance):
    """Small ones for which many wait, and one that does not fit in memory."""
    kinds = list(accounts.KINDS)
    tables = []
    for number in range(4):
        kind = chance.choice(kinds)
        groups, size = chance.choice(((4, 10), (4, 10), (10, 40)))
        tables.append(accounts.Table(f"{kind}{number}", kind, groups, size, chance.random() < 0.6, chance.choice((20, 300))))
    kind = chance.choice(kinds)
    tables.append(accounts.Table("large", kind, 40, 50, chance.random() < 0.5, chance.choice((300, 4000, 20000))))
    return tables


def final(connection, tables, hits):
    sizes = " ".join(f"WHEN '{table.name}' THEN {table.size}" for table in tables)
    wrong = protocol.must(connection, f"SELECT * FROM totals WHERE rows_of <> CASE name {sizes} END OR total <> rows_of * {accounts.AMOUNT}").rows
    if wrong:
        raise protocol.Failed(f"another table was told wrong totals: {wrong[:3]}")
    for table in tables:
        check(connection, table)
        compare_keys(connection, table, table.keys)
        found = int(protocol.must(connection, f"SELECT SUM(hits) FROM {table.name}").rows[0][0])
        if found != hits[table.name]:
            raise protocol.Failed(f"{table.name} has {found} increments of {hits[table.name]} that were acknowledged")


def play(options, seed):
    """A server, and what happens on it; counts of what was done."""
    chance = random.Random(seed)
    extra = [f"--iolane-page-size={chance.choice(PAGE_BYTES)}", f"--iolane-buffer-pool-size={chance.choice(POOL_MIB)}M"]
    tables = some_tables(chance)
    server = servers.Server(options.folder, options.command + (extra if options.engine == "IOLANE" else []))
    over, counts = threading.Event(), {}
    try:
        server.start()
        connection = protocol.Connection(server.socket)
        for statement in ("CREATE DATABASE IF NOT EXISTS test", "USE test"):
            protocol.must(connection, statement)
        protocol.must(connection, f"""CREATE TABLE totals (name VARCHAR(20), grp INT, rows_of INT, total BIGINT, level VARCHAR(20))
            ENGINE={options.engine}""")
        for table in tables:
            table.make(connection, options.engine)
        workers = [
            transfers.Worker(server, tables, number, random.Random(chance.random()), over, options.strict) for number in range(options.connections)
        ]
        readers = [Reader(server, tables, chance.random(), over) for _ in range(READERS)]
        for one in workers + readers:
            one.start()
        over.wait(options.seconds)
        over.set()
        for one in workers + readers:
            one.join()
        for one in workers + readers:
            if one.error:
                said = "".join(f"\n    {line}" for line in getattr(one, "said", ()))
                raise protocol.Failed(f"{one.error}{said}")
        hits = sum((worker.hits for worker in workers), collections.Counter())
        final(connection, tables, hits)
        counts = sum((worker.counts for worker in workers), collections.Counter())
        counts["looks"] = sum(reader.looks for reader in readers)
    except protocol.Lost as lost:
        raise protocol.Failed(f"{lost}\n{server.tail()}") from lost
    finally:
        over.set()
        server.stop()
    return [f"{table.name} {table.rows}" for table in tables], extra, counts


def main():
    options = servers.seeded_options(seconds=5, rounds=4, connections=6, always=0)
    # What may be missed by a statement that locks rows while others move them in the key that it goes by: InnoDB locks an entry, which is
    # left behind, unless it locks what lies between entries, too.
    options.strict = lambda level: options.engine == "IOLANE" or options.always or level == "REPEATABLE READ"
    passed = failed = 0
    for _ in range(options.rounds):
        seed = options.random.randrange(1 << 31) if options.rounds > 1 else options.seed
        try:
            tables, extra, counts = play(options, seed)
            passed += 1
            print(f"seed {seed}: {', '.join(tables)}; {' '.join(extra)}; {counts['transactions']} transactions, {counts['looks']} looks, "
                  f"{counts[transfers.ER_LOCK_DEADLOCK]} deadlocks, {counts[accounts.ER_LOCK_WAIT_TIMEOUT]} timeouts, "
                  f"{counts[transfers.ER_DUP_ENTRY]} duplicates", flush=True)
        except protocol.Failed as failure:
            failed += 1
            print(f"FAIL seed {seed}: {failure}", flush=True)
    return servers.result(passed, failed)


if __name__ == "__main__":
    sys.exit(main())

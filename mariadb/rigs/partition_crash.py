# SPDX-License-Identifier: GPL-2.0-only
"""A server that is killed while tables with partitions come, change and go, over and over; scripts/mariadb-crash --partitions runs it.

After each restart each table has the partitions and the rows of before the last statement, or those behind it, CHECK TABLE finds
nothing, the store has one table for each partition and no other, and the statements go on: no name is taken by what a statement
left.
"""

import os
import re
import sys

import protocol
import servers
from protocol import Failed, must

WORKERS = 2
ROWS, STEP = 600, 200
PARTITIONS_MAX = 5
TABLES_MIN, TABLES_MAX = 3, 5
# Some statements.
WORK_S = (0.1, 1.2)
TABLE_FILE = re.compile(r"table-\d+")


class Table:
    """Its ids, and which partitions it has: names with their bounds by RANGE, names alone by HASH, none."""

    def __init__(self, ids, ranges=None, hashes=0):
        self.ids, self.ranges, self.hashes = frozenset(ids), ranges, hashes

    def names(self):
        if self.ranges:
            return [name for name, _ in self.ranges]
        return [f"p{number}" for number in range(self.hashes)] or [None]

    def ids_of(self, number):
        low = self.ranges[number - 1][1] if number else 0
        return {each for each in self.ids if low <= each < self.ranges[number][1]}

    def clause(self):
        if self.ranges:
            return f"PARTITION BY RANGE (id) ({', '.join(partition(*each) for each in self.ranges)})"
        return f"PARTITION BY HASH (id) PARTITIONS {self.hashes}" if self.hashes else ""


def partition(name, bound):
    return f"PARTITION {name} VALUES LESS THAN ({bound})"


class Worker(servers.Worker):
    """Defines tables until the server dies. `before` is what was acknowledged, `behind` what was asked for."""

    def __init__(self, server, engine, number, tables, count, seed):
        super().__init__(server, seed, "parts")
        self.engine, self.number = engine, number
        self.before = self.behind = tables
        self.count = count
        self.statement = None

    def work(self, connection):
        while True:
            self.behind = dict(self.before)
            self.statement = self.choose()
            must(connection, self.statement)
            self.before = self.behind
            self.refill(connection)

    def refill(self, connection):
        """Rows that a statement took."""
        for name, table in self.before.items():
            top = table.ranges[-1][1] if table.ranges else ROWS
            if len(table.ids) * 2 > min(top, ROWS):
                continue
            self.statement = f"INSERT IGNORE INTO {name} SELECT seq, seq * 7 FROM seq_0_to_{min(top, ROWS) - 1}"
            self.behind = {**self.before, name: Table(range(min(top, ROWS)), table.ranges, table.hashes)}
            must(connection, self.statement)
            self.before = self.behind

    def fresh(self, what):
        self.count += 1
        return f"{what}{self.count}"

    def free_name(self):
        """A name comes again, as what is left of one is in the way of the next. Every other one is written otherwise in a path."""
        names = (f"`t{self.number}{'_ '[place % 2]}{place}`" for place in range(TABLES_MAX + 2))
        return next(name for name in names if name not in self.before)

    def choose(self):
        """A statement; what it does is in `behind`."""
        if len(self.before) < TABLES_MIN:
            return self.create()
        name = self.random.choice(list(self.before))
        table = self.before[name]
        if len(self.before) > TABLES_MAX:
            return self.drop(name, table)
        ways = [self.drop, self.rename, self.truncate, self.redefine]
        if table.ranges:
            ways += [self.add, self.drop_partition, self.reorganize, self.truncate_partition, self.rebuild, self.exchange, self.convert] * 2
        elif table.hashes:
            ways += [self.add_hash, self.coalesce] * 3
        return self.random.choice(ways)(name, table) or self.create()

    def random_table(self, ids=()):
        choice = self.random.random()
        if choice < 0.6:
            names = [self.fresh("r") for _ in range(self.random.randint(2, 4))]
            return Table(ids, [(each, STEP * (place + 1)) for place, each in enumerate(names[:-1])] + [(names[-1], 100000)])
        return Table(ids, hashes=self.random.randint(1, 4)) if choice < 0.85 else Table(ids)

    def create(self):
        name = self.free_name()
        table = self.random_table()
        self.behind[name] = table
        return f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, KEY (v)) ENGINE={self.engine} {table.clause()}"

    def drop(self, name, _):
        del self.behind[name]
        return f"DROP TABLE {name}"

    def rename(self, name, table):
        to = self.free_name()
        del self.behind[name]
        self.behind[to] = table
        return f"RENAME TABLE {name} TO {to}"

    def truncate(self, name, table):
        self.behind[name] = Table((), table.ranges, table.hashes)
        return f"TRUNCATE TABLE {name}"

    def redefine(self, name, table):
        new = self.random_table(table.ids)
        self.behind[name] = new
        return f"ALTER TABLE {name} {new.clause() or ('FORCE' if not (table.ranges or table.hashes) else 'REMOVE PARTITIONING')}"

    def add(self, name, table):
        if len(table.ranges) >= PARTITIONS_MAX:
            return None
        new = (self.fresh("r"), table.ranges[-1][1] + STEP)
        self.behind[name] = Table(table.ids, table.ranges + [new])
        return f"ALTER TABLE {name} ADD PARTITION ({partition(*new)})"

    def drop_partition(self, name, table):
        if len(table.ranges) < 3:
            return None
        place = self.random.randrange(len(table.ranges) - 1)
        self.behind[name] = Table(table.ids - table.ids_of(place), table.ranges[:place] + table.ranges[place + 1:])
        return f"ALTER TABLE {name} DROP PARTITION {table.ranges[place][0]}"

    def reorganize(self, name, table):
        place = self.random.randrange(len(table.ranges))
        low, high = table.ranges[place - 1][1] if place else 0, table.ranges[place][1]
        if self.random.random() < 0.5 and len(table.ranges) < PARTITIONS_MAX and high - low > 2:
            new, old = [(self.fresh("r"), (low + high) // 2), (table.ranges[place][0], high)], table.ranges[place:place + 1]
        elif place + 1 < len(table.ranges):
            old = table.ranges[place:place + 2]
            new = [(self.random.choice([old[0][0], old[1][0], self.fresh("r")]), old[1][1])]
        else:
            return None
        self.behind[name] = Table(table.ids, table.ranges[:place] + new + table.ranges[place + len(old):])
        return (f"ALTER TABLE {name} REORGANIZE PARTITION {', '.join(each for each, _ in old)} INTO"
                f" ({', '.join(partition(*each) for each in new)})")

    def truncate_partition(self, name, table):
        place = self.random.randrange(len(table.ranges))
        self.behind[name] = Table(table.ids - table.ids_of(place), table.ranges)
        return f"ALTER TABLE {name} TRUNCATE PARTITION {table.ranges[place][0]}"

    def rebuild(self, name, table):
        return f"ALTER TABLE {name} REBUILD PARTITION {self.random.choice(table.names())}"

    def exchange(self, name, table):
        plain = [each for each, other in self.before.items() if not other.ranges and not other.hashes]
        if not plain:
            return None
        other, place = plain[0], self.random.randrange(len(table.ranges))
        low, high = table.ranges[place - 1][1] if place else 0, table.ranges[place][1]
        ids = self.before[other].ids
        if any(not low <= each < high for each in ids):
            return self.truncate(other, self.before[other])
        there = table.ids_of(place)
        self.behind[name] = Table(table.ids - there | ids, table.ranges)
        self.behind[other] = Table(there)
        return f"ALTER TABLE {name} EXCHANGE PARTITION {table.ranges[place][0]} WITH TABLE {other}"

    def convert(self, name, table):
        if len(table.ranges) < 3:
            return None
        place = self.random.randrange(len(table.ranges) - 1)
        to = self.free_name()
        self.behind[to] = Table(table.ids_of(place))
        self.behind[name] = Table(table.ids - table.ids_of(place), table.ranges[:place] + table.ranges[place + 1:])
        return f"ALTER TABLE {name} CONVERT PARTITION {table.ranges[place][0]} TO TABLE {to}"

    def add_hash(self, name, table):
        if table.hashes >= PARTITIONS_MAX:
            return None
        self.behind[name] = Table(table.ids, hashes=table.hashes + 1)
        return f"ALTER TABLE {name} ADD PARTITION PARTITIONS 1"

    def coalesce(self, name, table):
        if table.hashes < 2:
            return None
        self.behind[name] = Table(table.ids, hashes=table.hashes - 1)
        return f"ALTER TABLE {name} COALESCE PARTITION 1"


def found_tables(admin, number):
    tables = {}
    for name, part, bound in must(admin, "SELECT table_name, partition_name, partition_description FROM information_schema.partitions"
                                  f" WHERE table_schema = 'parts' AND table_name LIKE 't{number}%'"
                                  " ORDER BY table_name, partition_ordinal_position").rows:
        tables.setdefault(f"`{name.decode()}`", []).append((part and part.decode(), bound and int(bound)))
    return {name: (parts, *contents(admin, name)) for name, parts in tables.items()}


def contents(admin, name):
    for row in must(admin, f"CHECK TABLE parts.{name} EXTENDED").rows:
        if row[2] in (b"error", b"Error") or (row[2] == b"status" and row[3] != b"OK"):
            raise Failed(f"CHECK TABLE {name}: {row[3].decode()}")
    ids = frozenset(int(row[0]) for row in must(admin, f"SELECT id FROM parts.{name} WHERE v = id * 7").rows)
    by_key = must(admin, f"SELECT COUNT(*) FROM parts.{name} FORCE INDEX (v) WHERE v >= 0").rows[0][0]
    if int(by_key) != len(ids):
        raise Failed(f"{name}: {len(ids)} rows, {by_key.decode()} by a key")
    return (ids,)


def is_as(found, model):
    if found.keys() != model.keys():
        return False
    for name, table in model.items():
        parts, ids = found[name]
        if [each for each, _ in parts] != table.names() or ids != table.ids:
            return False
        if table.ranges and parts != table.ranges:
            return False
    return True


def is_partly_empty(found, worker):
    """TRUNCATE of a table with partitions empties one after the other, and is no transaction."""
    if not worker.statement.startswith("TRUNCATE"):
        return False
    name = worker.statement.removeprefix("TRUNCATE TABLE ")
    table = worker.before[name]
    ids = found.get(name, ((), None))[1]
    if ids is None or not ids <= table.ids:
        return False
    if table.ranges and any(table.ids_of(place) & ids not in (table.ids_of(place), set()) for place in range(len(table.ranges))):
        return False
    return is_as(found, {**worker.before, name: Table(ids, table.ranges, table.hashes)})


def shown(model):
    return {name: (table.ranges or table.hashes, len(table.ids)) for name, table in model.items()}


def check(admin, server, worker):
    """Returns the tables that are there."""
    found = found_tables(admin, worker.number)
    for model in (worker.behind, worker.before):
        if is_as(found, model):
            return model
    if is_partly_empty(found, worker):
        name = worker.statement.removeprefix("TRUNCATE TABLE ")
        table = worker.before[name]
        return {**worker.before, name: Table(found[name][1], table.ranges, table.hashes)}
    raise Failed(f"{worker.statement}: there are { {name: (parts, len(ids)) for name, (parts, ids) in found.items()} }; "
                 f"before {shown(worker.before)}, asked for {shown(worker.behind)}; files "
                 f"{sorted(os.listdir(os.path.join(server.folder, 'data', 'parts')))}\n{server.tail()}")


def tables_of_store(server):
    store = os.path.join(server.folder, "data", "#iolane")
    return sum(bool(TABLE_FILE.match(name)) for name in os.listdir(store)) if os.path.isdir(store) else None


def check_store(server, workers, own):
    """One file for each partition, beside the store's own: nothing is left of a half-done statement."""
    statements = [each.statement for each in workers]
    left = [name for name in os.listdir(os.path.join(server.folder, "data", "parts")) if name.startswith("#")]
    if left:
        raise Failed(f"{statements}: of a half-done statement there is left: {left}")
    expected = sum(len(table.names()) for worker in workers for table in worker.before.values())
    if own is not None and tables_of_store(server) != own + expected:
        raise Failed(f"{statements}: the store has {tables_of_store(server) - own} tables, the server {expected}\n{server.tail()}")


def play(server, options):
    chance = options.random
    server.start()
    admin = protocol.Connection(server.socket)
    must(admin, "CREATE DATABASE parts")
    admin.close()
    own = tables_of_store(server)
    tables, counts = [{} for _ in range(WORKERS)], [0] * WORKERS
    for kill in range(1, options.rounds + 1):
        workers = [Worker(server, options.engine, number, tables[number], counts[number], chance.random()) for number in range(WORKERS)]
        servers.kill_beside(server, workers, chance.uniform(*WORK_S))
        server.resume()
        admin = protocol.Connection(server.socket)
        for number, worker in enumerate(workers):
            tables[number] = worker.before = check(admin, server, worker)
            counts[number] = worker.count
        # What was in use when it was dropped goes with the next table.
        must(admin, f"CREATE TABLE parts.next (id INT) ENGINE={options.engine}")
        must(admin, "DROP TABLE parts.next")
        admin.close()
        check_store(server, workers, own)
        print(f"kill {kill}: {counts} names of partitions so far", flush=True)
        yield


if __name__ == "__main__":
    sys.exit(servers.count_kills(play))

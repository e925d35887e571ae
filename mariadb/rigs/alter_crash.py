# SPDX-License-Identifier: GPL-2.0-only
"""A server that is killed while it alters a table, over and over; scripts/mariadb-crash --alter runs it.

Columns are added behind the others, keys come and go in place, columns go by a copy. After each restart the table has the
definition of before the last statement, or that behind it; each column has the values that it should have, all keys lead to
the same rows, CHECK TABLE finds nothing, and no table of a half-done statement is left.
"""

import os
import sys

import protocol
import servers
from protocol import Failed, must

ROWS = 5000
COLUMNS_MAX, KEYS_MAX = 6, 3
# Some statements.
WORK_S = (0.1, 1.5)


class Definition:
    """Which columns beside id, n and pad a table has, by their defaults, and which keys, by their columns."""

    def __init__(self, columns=(), keys=()):
        self.columns, self.keys = dict(columns), dict(keys)

    def copy(self):
        return Definition(self.columns, self.keys)

    def __eq__(self, other):
        return self.columns.keys() == other.columns.keys() and self.keys == other.keys


class Alterer(servers.Worker):
    """Alters the table until the server dies. `before` is what was acknowledged, `behind` what was asked for."""

    def __init__(self, server, definition, number, seed):
        super().__init__(server, seed)
        self.number = number
        self.before = self.behind = definition
        self.count = 0

    def work(self, connection):
        while True:
            statement, self.behind = self.choose()
            must(connection, statement)
            self.before = self.behind
            self.count += 1
            must(connection, f"UPDATE alters.t SET n = -n WHERE id % 50 = {self.number % 50}")

    def choose(self):
        behind = self.before.copy()
        self.number += 1
        columns, keys = list(behind.columns), list(behind.keys)
        choice = self.random.random()
        if choice < 0.4 and len(columns) < COLUMNS_MAX:
            behind.columns[f"c{self.number}"] = self.number
            return (f"ALTER TABLE alters.t ADD COLUMN c{self.number} {self.random.choice(['INT', 'VARCHAR(20)', 'BIGINT NOT NULL'])}"
                    f" DEFAULT '{self.number}', ALGORITHM=INSTANT", behind)
        if choice < 0.7 and len(keys) < KEYS_MAX:
            column = self.random.choice(["n", *columns])
            behind.keys[f"k{self.number}"] = column
            return f"ALTER TABLE alters.t ADD KEY k{self.number} ({column}), ALGORITHM=INPLACE", behind
        if choice < 0.85 and keys:
            key = self.random.choice(keys)
            del behind.keys[key]
            return f"ALTER TABLE alters.t DROP KEY {key}, ALGORITHM=INPLACE", behind
        free = [column for column in columns if column not in behind.keys.values()]
        if free:
            column = self.random.choice(free)
            del behind.columns[column]
            return f"ALTER TABLE alters.t DROP COLUMN {column}", behind
        return "ALTER TABLE alters.t COMMENT 'again', ALGORITHM=INSTANT", behind


def check(admin, server, alterer):
    """Returns the definition that is there."""
    columns = [row[0].decode() for row in must(admin, "SHOW COLUMNS FROM alters.t").rows if row[0] not in (b"id", b"n", b"pad")]
    keys = {row[2].decode(): row[4].decode() for row in must(admin, "SHOW INDEX FROM alters.t").rows if row[2] != b"PRIMARY"}
    found = Definition({column: int(column[1:]) for column in columns}, keys)
    if found not in (alterer.before, alterer.behind):
        raise Failed(f"columns {columns}, keys {keys}; before {vars(alterer.before)}, asked for {vars(alterer.behind)}")
    for column, value in found.columns.items():
        rows, low, high = must(admin, f"SELECT COUNT({column}), MIN({column}), MAX({column}) FROM alters.t").rows[0]
        if int(rows) != ROWS or int(low) != value or int(high) != value:
            raise Failed(f"{column} has {rows} values from {low} to {high}")
    counts = {key: must(admin, f"SELECT COUNT(*), SUM(id), SUM(n) FROM alters.t FORCE INDEX ({key}) WHERE id >= 0").rows[0]
              for key in ["PRIMARY", *keys]}
    if len(set(counts.values())) > 1 or int(counts["PRIMARY"][0]) != ROWS:
        raise Failed(f"keys disagree: {counts}")
    for row in must(admin, "CHECK TABLE alters.t EXTENDED").rows:
        if row[2] == b"error" or (row[2] == b"status" and row[3] != b"OK"):
            raise Failed(f"CHECK TABLE: {row[3].decode()}")
    left = [name for name in os.listdir(os.path.join(server.folder, "data", "alters")) if name.startswith("#sql")]
    if left:
        raise Failed(f"of a half-done statement there is left: {left}")
    return found


def play(server, options):
    chance = options.random
    server.start()
    admin = protocol.Connection(server.socket)
    must(admin, "CREATE DATABASE alters")
    must(admin, f"CREATE TABLE alters.t (id INT PRIMARY KEY, n INT, pad VARCHAR(20) DEFAULT 'x') ENGINE={options.engine}")
    must(admin, f"INSERT INTO alters.t (id, n) SELECT seq, seq * 7919 % 10007 FROM alters.seq_1_to_{ROWS}")
    admin.close()
    definition, number, altered = Definition(), 0, 0
    for kill in range(1, options.rounds + 1):
        alterer = Alterer(server, definition, number, chance.random())
        servers.kill_beside(server, [alterer], chance.uniform(*WORK_S))
        server.resume()
        admin = protocol.Connection(server.socket)
        definition, number = check(admin, server, alterer), alterer.number
        admin.close()
        altered += alterer.count
        print(f"kill {kill}: {altered} definitions so far", flush=True)
        yield


if __name__ == "__main__":
    sys.exit(servers.count_kills(play))

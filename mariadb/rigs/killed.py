# SPDX-License-Identifier: GPL-2.0-only
"""Kills of statements that come upon deadlocks; scripts/mariadb-killed says how."""

import collections
import random
import sys
import threading
import time

import protocol
import servers

CONNECTIONS = 4
ROWS = 40
ER_QUERY_INTERRUPTED = 1317
ER_LOCK_DEADLOCK = 1213
# Longest time between two kills, in seconds.
PAUSE_MAX = 3e-3


class Client(threading.Thread):
    """Changes a row of its own, and then those of all others."""

    def __init__(self, place, number, over):
        super().__init__()
        self.connection = protocol.Connection(place, "test")
        answer = protocol.must(self.connection, "SELECT CONNECTION_ID()")
        self.connection_id = int(answer.rows[0][0])
        self.number, self.over = number, over
        self.random = random.Random(number)
        self.counts = collections.Counter()
        self.mark = 0

    def insist(self, statement):
        """The answer, once it is not that a kill came."""
        while True:
            answer = self.connection.query(statement)
            if answer.code != ER_QUERY_INTERRUPTED:
                return answer

    def run(self):
        while not self.over.is_set():
            self.transaction()
            while self.connection.query("ROLLBACK").code:
                pass

    def transaction(self):
        self.insist("BEGIN")
        self.mark += 1
        marked = self.connection.query(f"UPDATE marks SET mark = {self.mark} WHERE id = {self.number}")
        if marked.code:
            return
        first = self.random.randrange(ROWS)
        self.connection.query(f"UPDATE rows_of_all SET n = n + 1 WHERE id = {first}")
        code = self.connection.query("UPDATE rows_of_all SET n = n + 1").code
        self.counts[code] += 1
        if code == ER_QUERY_INTERRUPTED:
            found = self.insist(f"SELECT mark FROM marks WHERE id = {self.number}")
            if not found.code and int(found.rows[0][0]) != self.mark:
                self.counts["lost"] += 1
        if self.random.random() < 0.5:
            self.insist("COMMIT")


def main():
    options = servers.options(seconds=10)
    server = servers.Server(options.folder, options.command)
    server.start()
    try:
        connection = protocol.Connection(server.socket)
        for statement in (
            "CREATE DATABASE IF NOT EXISTS test",
            "USE test",
            f"CREATE TABLE rows_of_all (id INT PRIMARY KEY, n INT NOT NULL) ENGINE={options.engine}",
            f"INSERT INTO rows_of_all SELECT seq, 0 FROM seq_0_to_{ROWS - 1}",
            f"CREATE TABLE marks (id INT PRIMARY KEY, mark INT NOT NULL) ENGINE={options.engine}",
            f"INSERT INTO marks SELECT seq, 0 FROM seq_0_to_{CONNECTIONS - 1}",
        ):
            protocol.must(connection, statement)
        over = threading.Event()
        clients = [Client(server.socket, number, over) for number in range(CONNECTIONS)]
        for client in clients:
            client.start()
        until = time.monotonic() + options.seconds
        while time.monotonic() < until:
            victim = random.choice(clients)
            connection.query(f"KILL QUERY {victim.connection_id}")
            time.sleep(random.random() * PAUSE_MAX)
        over.set()
        for client in clients:
            client.join()
    finally:
        server.stop()
    counts = sum((client.counts for client in clients), collections.Counter())
    killed, deadlocks = counts[ER_QUERY_INTERRUPTED], counts[ER_LOCK_DEADLOCK]
    print(f"{killed} statements were killed, {deadlocks} met a deadlock; {counts['lost']} of the former had lost their transaction")
    if not killed or not deadlocks:
        print("nothing was tested: more --seconds are needed", file=sys.stderr)
        sys.exit(2)
    sys.exit(1 if counts["lost"] else 0)


if __name__ == "__main__":
    main()

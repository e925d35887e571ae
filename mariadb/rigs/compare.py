# SPDX-License-Identifier: GPL-2.0-only
"""The same statements on two engines of one server, and what differs."""

import collections
import glob
import os
import time

import protocol

LOCK_WAIT, DEADLOCK, CHANGED_SINCE = 1205, 1213, 1020
# A table, or with InnoDB a key, is newer than the view: the second is the handler's code, where a join finds it.
DEFINITION_CHANGED = {1412, 159}
# What one engine alone may refuse: InnoDB locks gaps, and rows that it looks at in vain; it dates keys, others tables.
REFUSALS = {LOCK_WAIT, DEADLOCK, CHANGED_SINCE} | DEFINITION_CHANGED
UNKNOWN_VARIABLE = 1193
# Each is set where the server has it. Nothing waits for a lock: all statements come from one thread.
SETTINGS = [
    "SET SESSION lock_wait_timeout = 0",
    "SET SESSION innodb_lock_wait_timeout = 0",
    "SET SESSION iolane_lock_wait_timeout = 0",
    "SET SESSION timestamp = 1700000000",
    "SET SESSION time_zone = '+00:00'",
]
CHANGES = ("SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD")
DEFINITIONS = ("CREATE", "DROP", "ALTER", "RENAME", "TRUNCATE", "OPTIMIZE")
COUNTERS = ("SELECT TABLE_NAME, AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND AUTO_INCREMENT IS NOT NULL"
            " ORDER BY TABLE_NAME")
DEFINITION_WAIT_S = 10
DEFINITION_TRIES, DEFINITION_PAUSE_S = 10, 0.1
LOCK_WAIT_TEXT = b"Lock wait timeout exceeded"
MAINTENANCE = ("CHECK", "ANALYZE", "OPTIMIZE", "REPAIR")
# Files of SELECT ... INTO OUTFILE, in the server's data directory.
OUTFILE = "random-"
# What a connection is in, besides no transaction (False) and one that COMMIT ends (True).
XID = "'x{connection}-{{SIDE}}'"
XA_ACTIVE, XA_IDLE, XA_PREPARED = "active", "idle", "prepared"


class Difference(Exception):
    def __init__(self, kind, text, at):
        super().__init__(text)
        self.kind = kind
        self.at = at


class Side:
    def __init__(self, socket, number, engine, connections, level):
        self.engine = engine
        self.number = str(number)
        database = f"side_{number}"
        admin = protocol.Connection(socket)
        for statement in (f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database} CHARACTER SET utf8mb4"):
            reply = admin.query(statement)
            if reply.code:
                raise Difference("drop", f"{engine}: {statement}: {reply}", 0)
        admin.close()
        self.connections = [protocol.Connection(socket, database) for _ in range(connections)]
        for connection in self.connections:
            for setting in SETTINGS + [f"SET SESSION TRANSACTION ISOLATION LEVEL {level}"]:
                reply = connection.query(setting)
                if reply.code not in (0, UNKNOWN_VARIABLE):
                    raise SystemExit(f"{setting}: {reply}")

    def query(self, connection, statement):
        reply = self.connections[connection].query(statement.replace("{ENGINE}", self.engine).replace("{SIDE}", self.number))
        # OPTIMIZE tells of a lock that it did not get in a row.
        if statement.startswith(MAINTENANCE) and any(LOCK_WAIT_TEXT in (row[3] or b"") for row in reply.rows or []):
            return protocol.Reply(code=LOCK_WAIT, message=LOCK_WAIT_TEXT.decode())
        return reply

    def close(self):
        for connection in self.connections:
            connection.close()


def show(row):
    return "(" + ", ".join("NULL" if value is None else repr(value.decode("utf8", "replace"))[:60] for value in row) + ")"


def sortable(row):
    return tuple((value is not None, value or b"") for value in row)


def differing_rows(sides, left, right, ordered):
    """What differs, in words; None if nothing does."""
    if not ordered:
        left, right = sorted(left, key=sortable), sorted(right, key=sortable)
    if left == right:
        return None
    if len(left) != len(right):
        text = f"{len(left)} rows from {sides[0].engine}, {len(right)} from {sides[1].engine}"
    else:
        text = "rows differ"
    for one, other in zip(left + [()] * len(right), right + [()] * len(left)):
        if one != other:
            return f"{text}; first {show(one)} and {show(other)}"
    return text


class Pair:
    def __init__(self, server, engines, connections, levels):
        """With a level of isolation for each engine."""
        self.server = server
        self.count = 0
        # (engine, code): how many statements that engine alone refused by it.
        self.refusals = collections.Counter()
        # How many times the engines' AUTO_INCREMENT of a table was made equal after such a statement.
        self.levelled = 0
        self.open = [False] * connections
        for path in glob.glob(f"{server.folder}/data/*/{OUTFILE}*"):
            os.unlink(path)
        try:
            self.sides = [Side(server.socket, number, engine, connections, level)
                          for number, (engine, level) in enumerate(zip(engines, levels))]
        except protocol.Lost as lost:
            raise Difference("lost", f"the server died: {lost}\n{server.tail()}", 0) from lost

    def close(self):
        for side in self.sides:
            side.close()

    def differ(self, kind, text):
        raise Difference(kind, text, self.count)

    def both(self, connection, statement):
        replies = []
        for side in self.sides:
            try:
                replies.append(side.query(connection, statement))
            except protocol.Lost as lost:
                self.differ("lost", f"{side.engine}: the server died at: {statement}: {lost}\n{self.server.tail()}")
        return replies

    def run(self, connection, statement):
        """Runs a statement on both; whether it succeeded. Raises Difference."""
        self.count += 1
        # What only one engine has done must be undone: no statement commits by itself while another connection may hold locks.
        wrapped = statement.startswith(CHANGES) and any(self.open) and not self.open[connection]
        if wrapped:
            self.both(connection, "BEGIN")
        defines = statement.startswith(DEFINITIONS)
        if defines:
            # It may have to wait for a thread of InnoDB's own.
            self.both(connection, f"SET SESSION innodb_lock_wait_timeout = {DEFINITION_WAIT_S}")
        done = self.compare(connection, statement)
        if defines:
            self.both(connection, "SET SESSION innodb_lock_wait_timeout = 0")
        if wrapped and not self.open[connection]:
            self.both(connection, "COMMIT")
        return done

    def settle(self, connection, statement, replies):
        """A definition that one engine refuses is tried again: threads of InnoDB's own (purge) use tables for moments, and what it
        locks beside rows that are changed, it locks until transactions end."""
        for number in range(DEFINITION_TRIES):
            codes = [reply.code for reply in replies]
            if codes.count(LOCK_WAIT) != 1 or not all(code in (0, LOCK_WAIT) for code in codes):
                break
            at = codes.index(LOCK_WAIT)
            if number == DEFINITION_TRIES // 2:
                self.refusals[self.sides[at].engine, LOCK_WAIT] += 1
                for other in range(len(self.open)):
                    self.end(other)
            time.sleep(DEFINITION_PAUSE_S)
            replies[at] = self.sides[at].query(connection, statement)
        return replies

    def level_counters(self):
        """A statement that one engine has refused, or sooner than the other, has raised AUTO_INCREMENT less there, which stays when it
        is undone: both go on from the greater value. Nobody may use the table then, so all transactions are undone where values differ."""
        counters = [{row[0].decode(): int(row[1]) for row in reply.rows} for reply in self.both(0, COUNTERS)]
        differing = [name for name in counters[0] if counters[0][name] != counters[1][name]]
        for connection in range(len(self.open) if differing else 0):
            self.end(connection)
        for name in differing:
            statement = f"ALTER TABLE {name} AUTO_INCREMENT = {max(counter[name] for counter in counters)}"
            for side, reply in zip(self.sides, self.settle(0, statement, self.both(0, statement))):
                if reply.code:
                    self.differ("code", f"{side.engine}: {statement}: {reply}")
            self.levelled += 1

    def compare(self, connection, statement):
        replies = self.both(connection, statement)
        if statement.startswith(DEFINITIONS):
            replies = self.settle(connection, statement, replies)
        done = self.judge(connection, statement, *replies)
        if any(reply.code in REFUSALS for reply in replies):
            self.level_counters()
        return done

    def judge(self, connection, statement, left, right):
        if left.code in DEFINITION_CHANGED and right.code in DEFINITION_CHANGED:
            # How much that undoes is the engine's choice: all of it here. After InnoDB's, the server uses an open table with partitions
            # wrongly (in the choice of an index, with the one that was refused), and dies: it is opened anew.
            self.end(connection)
            self.both(connection, "FLUSH TABLES")
            return False
        if left.code != right.code:
            if statement.startswith(DEFINITIONS) and left.code and right.code and LOCK_WAIT in (left.code, right.code):
                # Whether a copy fails first, or the wait for the table's other users, depends on how ALTER does it.
                self.note_refusals(left, right)
                self.open[connection] = False
                return False
            # A definition cannot be undone.
            if not statement.startswith(DEFINITIONS) and (left.code in REFUSALS or right.code in REFUSALS):
                return self.undo(connection, left, right)
            self.differ("code", f"{self.sides[0].engine}: {left}; {self.sides[1].engine}: {right}")
        self.follow(connection, statement, left.code)
        if left.code:
            return False
        if (left.rows is None) != (right.rows is None):
            self.differ("rows", f"{left} and {right}")
        if left.rows is None:
            # ALTER counts the rows that it copies; an engine need not copy them.
            if not statement.startswith("ALTER") and left.affected != right.affected:
                self.differ("affected", f"{left.affected} rows affected in {self.sides[0].engine}, {right.affected} in {self.sides[1].engine}")
        elif statement.startswith(MAINTENANCE):
            self.compare_messages(left, right)
        else:
            found = differing_rows(self.sides, left.rows, right.rows, statement.endswith("/*ordered*/"))
            if found:
                self.differ("rows", found)
        return True

    def follow(self, connection, statement, code):
        """Whether the connection is in a transaction."""
        first = statement.split(None, 1)[0]
        if first == "XA" and code == 0:
            self.open[connection] = {"START": XA_ACTIVE, "END": XA_IDLE, "PREPARE": XA_PREPARED}.get(statement.split()[1], False)
        elif self.open[connection] in (XA_ACTIVE, XA_IDLE, XA_PREPARED) and code and code != DEADLOCK:
            # What begins or ends others is refused in an XA transaction, which goes on.
            pass
        elif first in ("BEGIN", "START"):
            self.open[connection] = code == 0 or self.open[connection]
        elif first == "COMMIT" or statement == "ROLLBACK" or (first in MAINTENANCE + DEFINITIONS and self.open[connection] is True):
            self.open[connection] = False
        elif code == DEADLOCK:
            self.open[connection] = False

    def end(self, connection):
        """Undoes what the connection has not committed."""
        xid = XID.format(connection=connection)
        if self.open[connection] == XA_ACTIVE:
            self.both(connection, f"XA END {xid}")
        if self.open[connection] in (XA_ACTIVE, XA_IDLE, XA_PREPARED):
            self.both(connection, f"XA ROLLBACK {xid}")
        self.both(connection, "ROLLBACK")
        self.open[connection] = False

    def note_refusals(self, *replies):
        for side, reply in zip(self.sides, replies):
            if reply.code in REFUSALS:
                self.refusals[side.engine, reply.code] += 1

    def undo(self, connection, left, right):
        """One engine has refused what the other has done: neither shall have."""
        self.note_refusals(left, right)
        self.end(connection)
        return False

    def compare_messages(self, left, right):
        """Engines say other things about a table; what is wrong must be wrong with both."""
        wrong = [[show(row) for row in reply.rows if row[2] and row[2].lower() == b"error"] for reply in (left, right)]
        if bool(wrong[0]) != bool(wrong[1]):
            self.differ("check", f"{wrong[0]} and {wrong[1]}")

    def compare_contents(self):
        for number, is_open in enumerate(self.open):
            if is_open is True:
                self.run(number, "COMMIT")
            elif is_open:
                self.end(number)
        names = [sorted(row[0].decode() for row in reply.rows) for reply in self.both(0, "SHOW TABLES")]
        if names[0] != names[1]:
            self.differ("contents", f"tables {names[0]} and {names[1]}")
        for name in names[0]:
            self.run(0, f"CHECK TABLE {name} EXTENDED")
            self.run(0, f"SELECT * FROM {name}")
            keys = {row[2].decode() for row in self.both(0, f"SHOW INDEX FROM {name}")[0].rows}
            for key in sorted(keys):
                self.run(0, f"SELECT COUNT(*) FROM {name} FORCE INDEX ({key})")
                self.run(0, f"SELECT id FROM {name} FORCE INDEX ({key}) WHERE id >= 0")


def play(server, engines, connections, levels, operations):
    """Runs (connection, statement)s and compares what is left. Raises Difference."""
    pair = Pair(server, engines, connections, levels)
    try:
        for connection, statement in operations:
            pair.run(connection, statement)
        pair.compare_contents()
    finally:
        pair.close()

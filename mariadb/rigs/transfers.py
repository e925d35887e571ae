# SPDX-License-Identifier: GPL-2.0-only
"""Transactions of a connection that move amounts between accounts of a group, and count what they have done."""

import collections
import threading

import accounts
import protocol

ER_DUP_ENTRY = 1062
ER_LOCK_DEADLOCK = 1213
# A key was there, a lock was not to be had, or a table was altered after the view.
REFUSALS = (ER_DUP_ENTRY, accounts.ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK, *accounts.ER_TABLE_DEF_CHANGED)
STEPS_MAX = 4
LEVELS = ("READ COMMITTED", "REPEATABLE READ")
STATEMENTS_KEPT = 30


class Refused(Exception):
    """A statement did not get a lock, or a key was there: it is undone, or all of its transaction."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Worker(threading.Thread):
    def __init__(self, server, tables, number, random, over, strict):
        super().__init__()
        self.connection = protocol.Connection(server.socket, "test")
        self.tables, self.number, self.random, self.over, self.strict = tables, number, random, over, strict
        self.error = None
        self.said = collections.deque(maxlen=STATEMENTS_KEPT)
        self.counts = collections.Counter()
        # Increments of hits by table: of the transaction, and acknowledged.
        self.made, self.hits = collections.Counter(), collections.Counter()
        self.ids = 0
        self.level = None

    def run(self):
        try:
            self.do("SET lock_wait_timeout = 3")
            self.do("SET innodb_lock_wait_timeout = 3")
            while not self.over.is_set():
                self.transaction()
        except (protocol.Failed, protocol.Lost) as failure:
            self.error = str(failure)
        except Refused as refused:
            self.error = f"error {refused.code} where there can be none"
        if self.error:
            self.over.set()

    def fail(self, text):
        raise protocol.Failed(f"connection {self.number}, {self.level}: {text}")

    def do(self, statement):
        reply = self.connection.query(statement)
        shown = reply if reply.rows is None or len(reply.rows) > 3 else reply.rows
        self.said.append(f"{' '.join(statement.split())[:400]} -> {shown}")
        if reply.code in REFUSALS:
            self.counts[reply.code] += 1
            raise Refused(reply.code)
        if reply.code:
            self.fail(f"{reply}")
        return reply

    def affected(self, statement, wanted):
        found = self.do(statement).affected
        if found != wanted:
            self.fail(f"{found} rows were changed, and not {wanted}")

    def affected_in_place(self, table, statement, wanted):
        """The same of rows that are not locked yet, which others may give another primary key meanwhile."""
        found = self.do(statement).affected
        if found != wanted:
            if table.keeps_key or table.keeps_tree and self.strict(self.level):
                self.fail(f"{found} rows were changed, and not {wanted}")
            raise Refused(0)

    def transaction(self):
        random = self.random
        self.level = random.choice(LEVELS)
        self.made.clear()
        self.do(f"SET SESSION TRANSACTION ISOLATION LEVEL {self.level}")
        if random.random() < 0.3:
            try:
                self.alone(random.choice(self.tables))
                self.acknowledged()
            except Refused:
                pass
            return
        begin = random.choice(("BEGIN", "BEGIN", "SET autocommit = 0", "START TRANSACTION WITH CONSISTENT SNAPSHOT"))
        self.do(begin)
        try:
            for number in range(random.randrange(1, STEPS_MAX + 1)):
                self.step_within(number)
            if random.random() < 0.15:
                self.do("ROLLBACK")
            else:
                self.do("COMMIT")
                self.acknowledged()
        except Refused:
            self.do("ROLLBACK")
        if begin.startswith("SET"):
            self.do("SET autocommit = 1")

    def acknowledged(self):
        self.hits.update(self.made)
        self.counts["transactions"] += 1

    def step_within(self, number):
        """A step, perhaps undone, and what can be said after it."""
        random = self.random
        table = random.choice(self.tables)
        step = random.choice(self.steps(table))
        group = random.randrange(table.groups)
        way = random.random()
        if way < 0.25:
            made = self.made.copy()
            self.do(f"SAVEPOINT s{number}")
            try:
                step(table, group)
                is_undone = way < 0.12
            except Refused as refused:
                if refused.code == ER_LOCK_DEADLOCK:
                    raise
                is_undone = True
            if is_undone:
                self.do(f"ROLLBACK TO s{number}")
                self.made = made
            else:
                self.do(f"RELEASE SAVEPOINT s{number}")
        else:
            step(table, group)
        self.counts[step.__name__] += 1
        if random.random() < 0.3:
            self.look(table, group)

    def steps(self, table):
        steps = [self.add, self.add, self.first_ones, self.absolute, self.absolute, self.pair, self.upsert, self.ignored, self.half, self.claim,
                 self.claims, self.joined]
        if table.keeps_tree:
            steps.append(self.totalled)
        if table.fixed:
            steps += [self.balance, self.balance, self.locked, self.two_tables]
            if table.rows <= 100:
                steps += [self.everywhere, self.locked_everywhere]
        if table.churns:
            steps += [self.come_and_go, self.come_and_go, self.replaced, self.deleted_by_join]
        return steps

    # What a locking statement must find of a group of a table: all, where rows neither come nor go.
    def must_find(self, table, found, wanted):
        if table.fixed and self.strict(self.level) and found != wanted:
            self.fail(f"{found} rows came of {wanted}")

    def must_change(self, found, wanted):
        """The same of a statement that keeps sums only if it finds all: it is undone where it may miss some."""
        if found != wanted:
            if self.strict(self.level):
                self.fail(f"{found} rows were changed of {wanted}")
            raise Refused(0)

    def note(self, table, changes, rows):
        if any(text.startswith("hits") for text in changes):
            self.made[table.name] += rows

    def changes(self, table):
        return table.moves(self.random)

    def pivot_gets(self, table, group, amount):
        """Gives what is left to an account that is always there."""
        if amount:
            pivot = table.pivot(self.random, group)
            self.affected_in_place(table, f"UPDATE {table.name} SET amount = amount + {amount} WHERE id = {pivot}", 1)

    # Steps: each keeps the sum of its group.

    def alone(self, table):
        """One statement, which commits by itself."""
        random = self.random
        group = random.randrange(table.groups)
        if random.random() < 0.3:
            return self.look(table, group)
        if table.fixed and self.strict(self.level) and random.random() < 0.5:
            return self.balance(table, group)
        if table.keeps_key and random.random() < 0.5:
            return self.pair(table, group)
        hint, condition = table.way(random, group)
        changes = [text for text in self.changes(table) if not text.startswith("hits")] + ["hits = hits + 1"]
        reply = self.do(f"UPDATE {table.name} {hint} SET {', '.join(changes)} WHERE {condition}")
        self.must_find(table, reply.affected, table.size)
        self.made[table.name] += reply.affected

    def add(self, table, group):
        x = self.random.choice((-3, -1, 1, 2, 5))
        hint, condition = table.way(self.random, group)
        changes = [*self.changes(table), f"amount = amount + {x}"]
        found = self.do(f"UPDATE {table.name} {hint} SET {', '.join(changes)} WHERE {condition}").affected
        self.must_find(table, found, table.size)
        self.note(table, changes, found)
        self.pivot_gets(table, group, -x * found)

    def first_ones(self, table, group):
        """The first rows in an order."""
        random = self.random
        x, count = random.choice((-2, 1, 4)), random.randrange(1, table.size + 1)
        hint, condition = table.way(random, group)
        order = random.choice(("k", "k DESC", "d", "amount DESC", "id", "id DESC", "name", "u", "u DESC", "v"))
        changes = [*self.changes(table), f"amount = amount + {x}"]
        found = self.do(f"UPDATE {table.name} {hint} SET {', '.join(changes)} WHERE {condition} ORDER BY {order} LIMIT {count}").affected
        self.must_find(table, found, count)
        self.note(table, changes, found)
        self.pivot_gets(table, group, -x * found)

    def balance(self, table, group):
        """What half of a group gets, the other half gives, in one statement."""
        hint, condition = table.way(self.random, group)
        x = self.random.choice((-7, 3, 10))
        changes = [*self.changes(table), f"amount = amount + IF(par = 0, {x}, {-x})"]
        found = self.do(f"UPDATE {table.name} {hint} SET {', '.join(changes)} WHERE {condition}").affected
        self.must_change(found, table.size)
        self.note(table, changes, found)

    def everywhere(self, table, _group):
        """The same in all groups."""
        key = self.random.choice(table.keys)
        changes = [*self.changes(table), "amount = amount + IF(par = 0, 1, -1)"]
        found = self.do(f"UPDATE {table.name} FORCE INDEX ({key}) SET {', '.join(changes)} WHERE {accounts.LEAST[key]}").affected
        self.must_change(found, table.rows)
        self.note(table, changes, found)

    def pair(self, table, group):
        """From one account to another, both of which are there."""
        random = self.random
        one, two = table.pivot(random, group), table.pivot(random, group)
        if one != two:
            changes = [*self.changes(table), f"amount = amount + IF(id = {one}, 7, -7)"]
            self.affected_in_place(table, f"UPDATE {table.name} SET {', '.join(changes)} WHERE id IN ({one}, {two})", 2)
            self.note(table, changes, 2)

    def joined(self, table, group):
        """The same by a join of the table with itself."""
        random = self.random
        one, two = table.pivot(random, group), table.pivot(random, group)
        if one != two:
            # Columns of the primary key and of partitions cannot be changed so.
            move = f"a.k = (a.k + 11) % {accounts.PLACES}" if table.keeps_key else "a.d = (a.d + 11) % 1000"
            self.affected_in_place(table, f"""UPDATE {table.name} a JOIN {table.name} b ON b.grp = a.grp
                SET a.amount = a.amount - 9, b.amount = b.amount + 9, {move}, b.hits = b.hits + 1
                WHERE a.id = {one} AND b.id = {two}""", 2)
            self.made[table.name] += 1

    def two_tables(self, table, group):
        """Rows of two tables, joined."""
        others = [other for other in self.tables if other.fixed and other is not table and (other.groups, other.size) == (table.groups, table.size)]
        if not others:
            return
        other = self.random.choice(others)
        hint, condition = table.way(self.random, group, "a.")
        found = self.do(f"""UPDATE {table.name} a {hint} JOIN {other.name} b ON b.id = a.id
            SET a.amount = a.amount + IF(a.par = 0, 2, -2), b.amount = b.amount + IF(b.par = 0, 3, -3), b.k = (b.k + 77) % {accounts.PLACES},
            a.hits = a.hits + 1 WHERE {condition}""").affected
        self.must_change(found, 2 * table.size)
        self.made[table.name] += table.size

    def locked(self, table, group):
        """All rows of a group, locked: nobody is in the middle of a transfer then."""
        hint, condition = table.way(self.random, group)
        how = self.random.choice(("FOR UPDATE", "LOCK IN SHARE MODE", "FOR UPDATE NOWAIT"))
        order = self.random.choice(("", "ORDER BY k", "ORDER BY k DESC", "ORDER BY d", "ORDER BY id DESC", "ORDER BY u DESC"))
        rows = self.do(f"SELECT id, amount FROM {table.name} {hint} WHERE {condition} {order} {how}").rows
        if self.strict(self.level):
            self.must_be(table, rows, table.size)

    def locked_everywhere(self, table, _group):
        key = self.random.choice(table.keys)
        how = self.random.choice(("FOR UPDATE", "LOCK IN SHARE MODE"))
        source = f"{table.name} FORCE INDEX ({key}) WHERE {accounts.LEAST[key]}"
        if self.random.random() < 0.3:
            source = f"seq_0_to_{table.groups - 1} s JOIN {table.name} FORCE INDEX (by_tag) ON tag = s.seq"
        rows = self.do(f"SELECT id, amount FROM {source} {how}").rows
        if self.strict(self.level):
            self.must_be(table, rows, table.rows)

    def must_be(self, table, rows, count):
        total, ids = sum(int(row[1]) for row in rows), len({row[0] for row in rows})
        if (len(rows), ids, total) != (count, count, count * accounts.AMOUNT):
            self.fail(f"{len(rows)} rows with {ids} ids came of {count}, with {total} together instead of {count * accounts.AMOUNT}")

    def absolute(self, table, group):
        """Amounts that were read and locked are written as numbers."""
        random = self.random
        hint, condition = table.way(random, group)
        how = random.choice(("FOR UPDATE", "FOR UPDATE", "FOR UPDATE SKIP LOCKED", "FOR UPDATE NOWAIT"))
        limit = random.choice(("", "", "LIMIT 3", "ORDER BY k LIMIT 5", "ORDER BY d DESC LIMIT 5"))
        rows = self.do(f"SELECT id, amount, k FROM {table.name} {hint} WHERE {condition} {limit} {how}").rows
        if not limit and "SKIP" not in how:
            self.must_find(table, len(rows), table.size)
        if len({row[0] for row in rows}) != len(rows):
            self.fail("a row came twice")
        if len(rows) < 2:
            return
        (one, has, _), (two, had, _) = random.sample(rows, 2)
        x = random.randrange(1, 20)
        for number, amount in ((one, int(has) - x), (two, int(had) + x)):
            changes = [text for text in self.changes(table) if not text.startswith("hits")]
            self.affected(f"UPDATE {table.name} SET {', '.join([*changes, f'amount = {amount}'])} WHERE id = {int(number)}", 1)

    def new_id(self, table, group):
        self.ids += 1
        return group * accounts.IDS + table.size + (self.ids * 16 + self.number) % (accounts.IDS - table.size)

    def values(self, table, group, number, amount, hits):
        random = self.random
        c = random.randrange(1000)
        return (f"({number}, {group}, 0, {group}, {amount}, {random.randrange(accounts.PLACES)}, "
                f"{group * accounts.UNIQUES + number % accounts.IDS * 1000 + c}, 'g{group:04}{chr(97 + c % 26)}n', {c}, NULL, {hits}, "
                f"REPEAT('n', {random.randrange(table.pad)}))")

    COLUMNS = "(id, grp, par, tag, amount, k, u, name, d, claim, hits, pad)"

    def come_and_go(self, table, group):
        """Some rows go, and as many others come, with as much together."""
        random = self.random
        # DELETE takes no hints.
        _, condition = table.way(random, group)
        order = random.choice(("", "ORDER BY k", "ORDER BY k DESC", "ORDER BY id DESC"))
        gone = self.do(f"""DELETE FROM {table.name} WHERE {condition} AND NOT ({table.is_pivot()}) {order} LIMIT {random.randrange(1, 4)}
            RETURNING id, amount, hits""").rows
        self.come(table, group, gone)

    def come(self, table, group, gone):
        if not gone:
            return
        random = self.random
        amounts, hits = [int(row[1]) for row in gone], [int(row[2]) for row in gone]
        x = random.randrange(5)
        amounts[0] -= x
        amounts[-1] += x
        numbers = [int(row[0]) if random.random() < 0.4 and table.has_unique_id else self.new_id(table, group) for row in gone]
        rows = [self.values(table, group, *one) for one in zip(numbers, amounts, hits)]
        if random.random() < 0.5:
            self.affected(f"INSERT INTO {table.name} {self.COLUMNS} VALUES {', '.join(rows)}", len(rows))
        else:
            for row in rows:
                self.affected(f"INSERT INTO {table.name} {self.COLUMNS} VALUES {row}", 1)

    def deleted_by_join(self, table, group):
        hint, condition = table.way(self.random, group)
        rows = self.do(f"SELECT id, amount, hits FROM {table.name} {hint} WHERE {condition} AND NOT ({table.is_pivot()}) LIMIT 3 FOR UPDATE").rows
        if not rows:
            return
        pivot = table.pivot(self.random, group)
        numbers = ", ".join(row[0].decode() for row in rows)
        self.affected_in_place(
            table, f"DELETE a FROM {table.name} a JOIN {table.name} b ON b.grp = a.grp WHERE a.id IN ({numbers}) AND b.id = {pivot}", len(rows))
        self.come(table, group, rows)

    def replaced(self, table, group):
        if not table.has_unique_id:
            return
        rows = self.do(f"""SELECT id, amount, hits FROM {table.name} WHERE grp = {group} AND NOT ({table.is_pivot()}) LIMIT 1
            FOR UPDATE""").rows
        if rows:
            number, amount, hits = (int(value) for value in rows[0])
            row = self.values(table, group, number, amount + 3, hits)
            self.affected(f"REPLACE INTO {table.name} {self.COLUMNS} VALUES {row}", 2)
            self.pivot_gets(table, group, -3)

    def upsert(self, table, group):
        if not table.has_unique_id:
            return
        number = table.pivot(self.random, group)
        if table.churns and self.random.random() < 0.5:
            number = self.new_id(table, group) - 16
        changes = self.changes(table)
        row = self.values(table, group, number, 6, 0)
        found = self.do(f"""INSERT INTO {table.name} {self.COLUMNS} VALUES {row}
            ON DUPLICATE KEY UPDATE {', '.join([*changes, 'amount = amount + 6'])}""").affected
        if found == 2:
            self.note(table, changes, 1)
            self.pivot_gets(table, group, -6)
        elif found == 1:
            self.affected(f"DELETE FROM {table.name} WHERE id = {number}", 1)
        else:
            self.fail(f"{found} rows were changed")

    def ignored(self, table, group):
        if not table.has_unique_id:
            return
        number = table.pivot(self.random, group)
        self.affected(f"INSERT IGNORE INTO {table.name} {self.COLUMNS} VALUES {self.values(table, group, number, 1000, 0)}", 0)

    def half(self, table, group):
        """Rows, of which the last one is there: none comes."""
        if not table.has_unique_id:
            return
        numbers = [self.new_id(table, group), self.new_id(table, group), table.pivot(self.random, group)]
        rows = ", ".join(self.values(table, group, number, 1000, 0) for number in numbers)
        try:
            self.do(f"INSERT INTO {table.name} {self.COLUMNS} VALUES {rows}")
        except Refused as refused:
            if refused.code != ER_DUP_ENTRY:
                raise
            return
        self.fail("a key was there, and was inserted")

    def totalled(self, table, group):
        """What another table is told of a group."""
        hint, condition = table.way(self.random, group)
        self.affected(f"""INSERT INTO totals SELECT '{table.name}', {group}, COUNT(*), SUM(amount), '{self.level}' FROM {table.name} {hint}
            WHERE {condition}""", 1)

    def claims(self, table, group):
        """A value that one row of a group can have."""
        hint, condition = table.way(self.random, group)
        if table.has_unique:
            self.do(f"UPDATE IGNORE {table.name} {hint} SET claim = {self.random.randrange(6)} WHERE {condition}")

    def claim(self, table, group):
        """A value of a unique key that others want, too."""
        random = self.random
        if not table.has_unique:
            return
        value = random.choice(("NULL", "NULL", *range(6)))
        pivot = table.pivot(random, group)
        try:
            self.do(f"UPDATE {table.name} SET claim = {value} WHERE id = {pivot}")
        except Refused as refused:
            if refused.code != ER_DUP_ENTRY:
                raise
            self.counts["claims refused"] += 1

    def look(self, table, group):
        """A statement of a transaction that has kept all sums: at READ COMMITTED it sees exact ones."""
        if self.level != "READ COMMITTED":
            return
        hint, condition = table.way(self.random, group)
        count, total = self.do(f"SELECT COUNT(*), SUM(amount) FROM {table.name} {hint} WHERE {condition}").rows[0]
        if (int(count), int(total)) != (table.size, table.size * accounts.AMOUNT):
            self.fail(f"{int(count)} rows with {int(total)} together came of {table.size} with {table.size * accounts.AMOUNT}")

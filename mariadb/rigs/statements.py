# SPDX-License-Identifier: GPL-2.0-only
"""Statements at random on tables at random, whose results follow from the contents alone.

No result depends on the order in which an engine finds rows, and no statement on statistics: what changes several
rows under a unique key does so in the order of `id`, and LIMIT comes with that order. `{ENGINE}` stands for the engine.
"""

import compare
import schema

TABLES_MAX = 4
# A statement with more rows than this, into an empty table, fills it page by page.
FILL_ROWS = [900, 1100, 1500]
LEVELS = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]


class Generator:
    def __init__(self, random, connections, level):
        self.random = random
        self.level = level
        self.connections = connections
        self.tables = {}
        self.next_id = 1
        self.next_table = 0
        self.savepoints = {number: [] for number in range(connections)}
        self.open = set()
        # Statements that a connection comes to without a choice.
        self.ahead = {number: [] for number in range(connections)}
        self.next_file = 0

    def table(self):
        return self.random.choice(list(self.tables.values()))

    def column(self, table, stored=False):
        return self.random.choice(table.stored() if stored else table.columns)

    def fresh_id(self):
        self.next_id += self.random.choice([1, 1, 1, 2, 5])
        return self.next_id - 1

    def some_id(self):
        return self.random.randint(0, self.next_id + 2)

    # Conditions

    def condition(self, table, prefix=""):
        random = self.random
        column = self.column(table)
        name = prefix + column.name
        choice = random.random()
        if choice < 0.25:
            return f"{prefix}id = {self.some_id()}"
        if choice < 0.35:
            low = self.some_id()
            return f"{prefix}id BETWEEN {low} AND {low + random.choice([0, 3, 20])}"
        if choice < 0.45:
            return f"{prefix}id IN ({', '.join(str(self.some_id()) for _ in range(random.randint(1, 6)))})"
        if column.kind.sql == "JSON":
            return f"{name} IS NOT NULL"
        if choice < 0.65:
            return f"{name} {random.choice(['=', '=', '<', '<=', '>', '>=', '<>', '<=>'])} {column.kind.value(random)}"
        # After a statement that no partition can have rows for, InnoDB's next UPDATE or DELETE by the primary key finds none. What is
        # said of the `id` of a table goes for one that is joined by it, too.
        may_prune_all = column.name == "id" and any(each.options for each in self.tables.values())
        if choice < 0.72 and not may_prune_all:
            return f"{name} BETWEEN {column.kind.value(random)} AND {column.kind.value(random)}"
        if choice < 0.79 and not may_prune_all:
            return f"{name} IS {random.choice(['', 'NOT '])}NULL"
        if choice < 0.86 and column.kind.like:
            return f"{name} LIKE '{random.choice(['a', 'A', 'ä', 's', '', '0'])}%'"
        # Two conditions of `id` may contradict each other, also for a table that is joined by it.
        if choice < 0.93 and not any(each.options for each in self.tables.values()):
            return f"({self.condition(table, prefix)} AND {self.condition(table, prefix)})"
        return f"({self.condition(table, prefix)} OR {self.condition(table, prefix)})"

    # Reading

    def columns_of(self, table, prefix=""):
        return ", ".join(prefix + column.name for column in table.columns)

    def select(self):
        random = self.random
        table = self.table()
        choice = random.random()
        where = f" WHERE {self.condition(table)}" if random.random() < 0.85 else ""
        if choice < 0.4:
            order = ""
            if random.random() < 0.5:
                order = f" ORDER BY {self.column(table).name}{random.choice(['', ' DESC'])}, id"
                if table.id_is_unique() and random.random() < 0.6:
                    order += f" LIMIT {random.randint(0, 9)}"
            lock = random.choice(["", "", "", " FOR UPDATE", " LOCK IN SHARE MODE"])
            hint = self.hint(table)
            ordered = " /*ordered*/" if order and table.id_is_unique() else ""
            return f"SELECT {self.columns_of(table)} FROM {table.name}{hint}{where}{order}{lock}{ordered}"
        if choice < 0.55:
            column = self.column(table)
            return f"SELECT COUNT(*), COUNT({column.name}), COUNT(DISTINCT {column.name}), MIN(id), MAX(id) FROM {table.name}{self.hint(table)}{where}"
        if choice < 0.65:
            column = self.column(table)
            # Of values that are equal in a collation any may stand for the group.
            return f"SELECT COUNT(*), MIN(id), MAX(id) FROM {table.name}{where} GROUP BY {column.name}"
        other = self.table()
        if choice < 0.85:
            join = random.choice(["JOIN", "LEFT JOIN"])
            on = random.choice(["a.id = b.id", "a.id = b.id + 1", "a.id % 10 = b.id"])
            return (f"SELECT a.id, b.id, a.{self.column(table).name}, b.{self.column(other).name} FROM {table.name} a {join} {other.name} b"
                    f" ON {on} WHERE {self.condition(table, 'a.')}")
        if choice < 0.95:
            negation = random.choice(["", "NOT "])
            return f"SELECT id FROM {table.name} WHERE id {negation}IN (SELECT id FROM {other.name} WHERE {self.condition(other)})"
        return (f"SELECT id FROM {table.name} a WHERE EXISTS (SELECT 1 FROM {other.name} b WHERE b.id = a.id AND {self.condition(other, 'b.')})"
                f" UNION ALL SELECT id FROM {other.name} WHERE {self.condition(other)}")

    def hint(self, table):
        named = [name or "PRIMARY" for _, name, _ in table.keys]
        if not named or self.random.random() < 0.6:
            return ""
        return f" FORCE INDEX ({self.random.choice(named)})"

    # Changing

    def row(self, table, columns, id_value=None):
        values = []
        for column in columns:
            if column.name == "id":
                values.append(str(self.fresh_id() if id_value is None else id_value))
            else:
                values.append(column.value(self.random))
        return f"({', '.join(values)})"

    def insert(self):
        random = self.random
        table = self.table()
        columns = table.stored()
        if random.random() < 0.1:
            columns = [column for column in columns if column.name == "id" or random.random() < 0.7]
        repeats = random.random() < 0.15
        count = random.choice([1, 1, 1, 2, 5, 20])
        rows = ", ".join(self.row(table, columns, self.some_id() if repeats else None) for _ in range(count))
        verb = random.choice(["INSERT", "INSERT", "INSERT", "INSERT IGNORE", "REPLACE", "INSERT ODKU"])
        suffix = ""
        if verb == "INSERT ODKU":
            column = self.column(table, stored=True)
            if column.name != "id":
                suffix = f" ON DUPLICATE KEY UPDATE {column.name} = {column.value(random)}"
            verb = "INSERT"
        unique = [key for key in table.keys if key[0] != "INDEX"]
        # Which of two rows in the way is replaced depends on the order of the keys alone, which both engines share,
        # but a row in the way of itself does not.
        # After a failed INSERT and one that updates, InnoDB loses rows of a unique key over a virtual column.
        if (verb == "REPLACE" or suffix) and len(unique) > 1 or suffix and table.has_virtual_unique_key():
            verb, suffix = "INSERT IGNORE", ""
        return f"{verb} INTO {table.name} ({', '.join(column.name for column in columns)}) VALUES {rows}{suffix}"

    def insert_select(self):
        table = self.table()
        shared = [column for column in table.stored() if column.name != "id" and self.random.random() < 0.6]
        base = self.next_id
        self.next_id += 200
        names = ", ".join(["id"] + [column.name for column in shared])
        values = ", ".join([f"id % 200 + {base}"] + [column.name for column in shared])
        return (f"INSERT IGNORE INTO {table.name} ({names}) SELECT {values} FROM {table.name} WHERE {self.condition(table)}"
                f" ORDER BY id LIMIT {self.random.randint(1, 20)}") if table.id_is_unique() else self.insert()

    def update(self):
        random = self.random
        table = self.table()
        columns = [column for column in table.stored() if column.name != "id"]
        if not columns:
            return self.insert()
        changed = random.sample(columns, min(len(columns), random.choice([1, 1, 2])))
        sets = ", ".join(f"{column.name} = {column.value(random)}" for column in changed)
        if table.id_is_unique() and random.random() < 0.1:
            sets = f"id = id + {random.choice([1, 1000])}"
        tail = ""
        if table.id_is_unique():
            tail = f" ORDER BY id{random.choice(['', ' DESC'])}"
            if random.random() < 0.4:
                tail += f" LIMIT {random.randint(0, 7)}"
        # Without an order any of the rows may be the one that is in the way.
        ignore = " IGNORE" if tail and random.random() < 0.2 else ""
        if random.random() < 0.12 and table.id_is_unique():
            other = self.table()
            if other.id_is_unique() and other is not table:
                sets = f"a.{changed[0].name} = {changed[0].value(random)}"
                others = [column for column in other.stored() if column.name != "id"]
                if others and random.random() < 0.5:
                    column = random.choice(others)
                    sets += f", b.{column.name} = {column.value(random)}"
                return f"UPDATE {table.name} a JOIN {other.name} b ON a.id = b.id SET {sets} WHERE {self.condition(other, 'b.')}"
        return f"UPDATE{ignore} {table.name} SET {sets} WHERE {self.condition(table)}{tail}"

    def delete(self):
        random = self.random
        table = self.table()
        tail = ""
        if table.id_is_unique() and random.random() < 0.5:
            tail = f" ORDER BY id LIMIT {random.randint(0, 5)}"
        if random.random() < 0.15:
            other = self.table()
            if other is not table:
                return (f"DELETE {random.choice(['a', 'a', 'a, b'])} FROM {table.name} a JOIN {other.name} b ON a.id = b.id"
                        f" WHERE {self.condition(other, 'b.')}")
        return f"DELETE FROM {table.name} WHERE {self.condition(table)}{tail}"

    # Transactions

    def transaction(self, connection):
        random = self.random
        saved = self.savepoints[connection]
        if connection not in self.open:
            self.open.add(connection)
            # Which statement opens the view of a transaction, unless it says so itself, is the engine's choice.
            return "BEGIN" if self.level in ("READ UNCOMMITTED", "READ COMMITTED") else "START TRANSACTION WITH CONSISTENT SNAPSHOT"
        choice = random.random()
        if choice < 0.3:
            name = f"s{random.randint(0, 3)}"
            if name not in saved:
                saved.append(name)
            return f"SAVEPOINT {name}"
        if choice < 0.5 and saved:
            return f"{random.choice(['ROLLBACK TO', 'RELEASE'])} SAVEPOINT {random.choice(saved)}"
        self.ended(connection)
        return random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])

    def xa(self, connection):
        """A transaction in two phases, of a few changes; what it is named is the rig's."""
        random = self.random
        xid = compare.XID.format(connection=connection)
        ahead = [random.choice([self.insert, self.update, self.delete, self.select]) for _ in range(random.randint(1, 4))]
        ahead += [f"XA END {xid}"] + random.choice([[f"XA PREPARE {xid}", f"XA COMMIT {xid}"], [f"XA PREPARE {xid}", f"XA ROLLBACK {xid}"],
                                                    [f"XA COMMIT {xid} ONE PHASE"], [f"XA ROLLBACK {xid}"]])
        self.ahead[connection] = ahead
        return f"XA START {xid}"

    def ended(self, connection):
        self.open.discard(connection)
        self.savepoints[connection].clear()
        self.ahead[connection] = []

    # Many rows into an empty table

    def fill_newest(self):
        """With what a sequence gives."""
        random = self.random
        table = list(self.tables.values())[-1]
        columns = [column for column in table.stored() if column.name != "id"]
        base = self.next_id
        rows = random.choice(FILL_ROWS)
        self.next_id += rows + 1
        values = []
        for column in columns:
            choices = [column.value(random) for _ in range(3)]
            values.append(f"CASE seq % 3 WHEN 0 THEN {choices[0]} WHEN 1 THEN {choices[1]} ELSE {choices[2]} END")
        names = ", ".join(["id"] + [column.name for column in columns])
        verb = random.choice(["INSERT", "INSERT", "INSERT IGNORE", "REPLACE"])
        order = random.choice(["", " DESC"])
        return (f"{verb} INTO {table.name} ({names}) SELECT {', '.join([f'seq + {base}'] + values)} FROM seq_1_to_{rows}"
                f" ORDER BY seq{order}")

    def reload(self, table, connection):
        """Through a file, into the table without its rows."""
        random = self.random
        names = ", ".join(column.name for column in table.stored())
        path = f"{compare.OUTFILE}{{SIDE}}-{self.next_file}"
        self.next_file += 1
        duplicates = random.choice(["", "IGNORE ", "REPLACE "])
        self.ahead[connection] = [f"TRUNCATE TABLE {table.name}",
                                  f"LOAD DATA INFILE '{path}' {duplicates}INTO TABLE {table.name} CHARACTER SET binary ({names})"]
        return f"SELECT {names} INTO OUTFILE '{path}' CHARACTER SET binary FROM {table.name} ORDER BY id"

    # Definitions: the statement, and what becomes of the tables if it succeeds.

    def create(self):
        name = f"t{self.next_table}"
        self.next_table += 1
        table = schema.random_table(self.random, name)
        return table.sql("{ENGINE}"), lambda: self.tables.__setitem__(name, table)

    def definition(self):
        random = self.random
        if len(self.tables) < 2 or (len(self.tables) < TABLES_MAX and random.random() < 0.2):
            return self.create()
        table = self.table()
        choice = random.random()
        if choice < 0.08:
            return f"DROP TABLE {table.name}", lambda: self.tables.pop(table.name, None)
        if choice < 0.2:
            return f"TRUNCATE TABLE {table.name}", lambda: None
        if choice < 0.3:
            return self.rename(table)
        if choice < 0.4:
            return f"{random.choice(['OPTIMIZE', 'ANALYZE', 'CHECK'])} TABLE {table.name}", lambda: None
        if choice < 0.46 and len(self.tables) < TABLES_MAX:
            return self.create_select(table)
        return self.alter(table)

    def rename(self, table):
        name = f"t{self.next_table}"
        self.next_table += 1

        def renamed():
            self.tables.pop(table.name)
            table.name = name
            self.tables[name] = table

        return self.random.choice([f"RENAME TABLE {table.name} TO {name}", f"ALTER TABLE {table.name} RENAME TO {name}"]), renamed

    def create_select(self, table):
        name = f"t{self.next_table}"
        self.next_table += 1
        other = schema.Table(name, [schema.Column(column.name, column.kind, True) for column in table.columns], [("INDEX", "k0", ["id"])])
        return (f"CREATE TABLE {name} (INDEX k0 (id)) ENGINE={{ENGINE}} SELECT {self.columns_of(table)} FROM {table.name}",
                lambda: self.tables.__setitem__(name, other))

    def alter(self, table):
        random = self.random
        changed = table.copy(table.name)
        choice = random.random()
        removable = [column for column in changed.columns[1:] if not any(column.name in part for _, _, parts in changed.keys for part in parts)
                     and not any(column.name in other.extra for other in changed.columns)]
        if choice < 0.3:
            kind = random.choice(["INDEX", "INDEX", "UNIQUE"])
            key = schema.random_key(random, kind, f"k{changed.next_key + 10}", changed.columns)
            changed.next_key += 1
            changed.keys.append(key)
            if changed.options and schema.has_virtual_key(changed):
                return f"ALTER TABLE {table.name} FORCE", lambda: None
            action = f"ADD {schema.key_sql(key)}"
        elif choice < 0.4 and any(kind != "PRIMARY" for kind, _, _ in changed.keys):
            key = random.choice([key for key in changed.keys if key[0] != "PRIMARY"])
            changed.keys.remove(key)
            action = f"DROP INDEX {key[1]}"
        elif choice < 0.6:
            column = schema.random_column(random, f"c{changed.next_column + 10}")
            # What the rows there get is no JSON, which only a copy notices.
            column.null = column.null or column.kind.sql == "JSON"
            changed.next_column += 1
            place = random.choice(["", "", " FIRST", f" AFTER {random.choice(changed.columns).name}"])
            if column.kind.blob is False and random.random() < 0.5 and not column.null:
                column.extra = f" DEFAULT {column.kind.value(random)}"
            action = f"ADD COLUMN {column.sql()}{place}"
            changed.columns.append(column)
        elif choice < 0.7 and removable:
            column = random.choice(removable)
            changed.columns.remove(column)
            action = f"DROP COLUMN {column.name}"
        elif choice < 0.85 and removable:
            column = random.choice(removable)
            if column.generated:
                return f"ALTER TABLE {table.name} FORCE", lambda: None
            modified = schema.Column(column.name, schema.random_type(random), True)
            changed.columns[changed.columns.index(column)] = modified
            action = f"MODIFY COLUMN {modified.sql()}"
        elif choice < 0.9 and any(kind == "PRIMARY" for kind, _, _ in changed.keys) and "AUTO" not in changed.columns[0].extra:
            changed.keys = [key for key in changed.keys if key[0] != "PRIMARY"]
            action = "DROP PRIMARY KEY"
        else:
            action = "FORCE"
        algorithm = random.choice(["", "", "", ", ALGORITHM=COPY"])

        def altered():
            self.tables[table.name] = changed

        return f"ALTER TABLE {table.name} {action}{algorithm}", altered

    def next(self):
        """(connection, statement, what to do if it succeeds)"""
        random = self.random
        connection = random.randrange(self.connections)
        nothing = lambda: None
        if not self.tables:
            self.ended(connection)
            statement, done = self.create()
            return connection, statement, done
        if self.ahead[connection]:
            statement = self.ahead[connection].pop(0)
            return connection, statement() if callable(statement) else statement, nothing
        choice = random.random()
        if choice < 0.28:
            return connection, self.select(), nothing
        if choice < 0.50:
            return connection, self.insert(), nothing
        if choice < 0.53:
            return connection, self.insert_select(), nothing
        if choice < 0.70:
            return connection, self.update(), nothing
        if choice < 0.80:
            return connection, self.delete(), nothing
        if choice < 0.82 and connection not in self.open:
            return connection, self.xa(connection), nothing
        if choice < 0.92:
            return connection, self.transaction(connection), nothing
        self.ended(connection)
        if choice < 0.93:
            table = self.table()
            if table.id_is_unique():
                return connection, self.reload(table, connection), nothing
        statement, done = self.definition()
        if statement.startswith("CREATE TABLE") and random.random() < 0.25:
            self.ahead[connection] = [self.fill_newest]
        return connection, statement, done

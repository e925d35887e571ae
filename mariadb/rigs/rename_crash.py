# SPDX-License-Identifier: GPL-2.0-only
"""A server that is killed before each step of statements that rename tables with partitions; scripts/mariadb-crash --renames runs it.

gdb stops the server before its first, second, ... rename of a file or of a partition, and kills it there, until the statement
gets through. After each restart the tables have the names of before or those behind the statement, with all of their rows and their
triggers, nothing else is left, and the statement can be said again. Of the first statement, the server's recovery is killed before each
of its steps, too.

With --lost-names 1 the kill is a power cut: it takes, besides, what was renamed last and no directory was synced after, one step after
the other. What else was written stays. There are no triggers then, nor a statement that renames several tables: the server's own log, which
is ahead of the names, does not bring back the former, and puts a definition in the place of another one for the latter.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys

import protocol
import servers
from protocol import Failed, must

DATABASES = ("parts", "other")
ROWS = 50
GDB_S_MAX = 60
READY = "the steps are watched"
KILLED = "killed before "
NAMES = "names "
SYNCED = "names are durable"
# Whoever syncs a directory: all names are durable then, as if there were one directory.
SYNCS = ("my_sync_dir", "iolane::sync_directory")
# Renames of files, and the engine's of partitions: not where they are called, which would be a step of its own.
STEPS = ("-qualified -function rename", "-source iolane_dictionary_renames.cc -function iolane::Dictionary::rename")
SCRIPT = """
set pagination off
set confirm off
set breakpoint pending on
handle all nostop noprint pass
{breaks}
echo {ready}\\n
set $passed = 0
{go}
while $passed < {passes}
  {keep}
  set $passed = $passed + 1
  continue
end
printf "{killed}"
info symbol $pc
kill
"""


class Statement:
    """What tables there are before it and behind it: their first ids by their names."""

    def __init__(self, text, before, behind, has_trigger=False):
        self.text, self.before, self.behind, self.has_trigger = text, before, behind, has_trigger
        # Files of a copy's may stay, of which the server's log tells.
        self.may_leave = False


A, B, C = "parts.a", "parts.b", "parts.c"
ODD, ODDER = "parts.`a b`", "parts.`ä#P#-`"
STATEMENTS = (
    Statement(f"RENAME TABLE {A} TO {B}", {A: 0}, {B: 0}, has_trigger=True),
    Statement(f"RENAME TABLE {ODD} TO {ODDER}", {ODD: 0}, {ODDER: 0}),
    Statement(f"RENAME TABLE {A} TO other.b", {A: 0}, {"other.b": 0}),
    Statement(f"RENAME TABLE {A} TO {C}, {B} TO {A}, {C} TO {B}", {A: 0, B: 100}, {B: 0, A: 100}),
    Statement(f"ALTER TABLE {A} RENAME {B}", {A: 0}, {B: 0}, has_trigger=True),
    Statement(f"ALTER TABLE {ODD} FORCE, ALGORITHM=COPY", {ODD: 0}, {ODD: 0}),
    Statement(f"ALTER TABLE {A} RENAME {B}, ADD COLUMN w INT FIRST, ALGORITHM=COPY", {A: 0}, {B: 0}, has_trigger=True),
)


def names_at(folder, step):
    return os.path.join(folder, f"names-{step}")


def script(folder, passes, go):
    path = os.path.join(folder, "gdb-script")
    breaks = "\n".join([f"break {step}" for step in STEPS] + [f'dprintf {sync},"{SYNCED}\\n"' for sync in SYNCS])
    # Copies of the databases' folders, which hold definitions only.
    copies = "; ".join(f"cp -a {folder}/data/{database} {names_at(folder, '%d')}/" for database in DATABASES)
    keep = f"""printf "{NAMES}%d\\n", $passed
  eval "shell mkdir {names_at(folder, '%d')}; {copies}", $passed{", $passed" * len(DATABASES)}"""
    with open(path, "w") as file:
        file.write(SCRIPT.format(breaks=breaks, ready=READY, go=go, passes=passes, killed=KILLED, keep=keep))
    return path


class Watch:
    """gdb on a running server, which it kills before the step that comes behind so many others."""

    def __init__(self, server, passes):
        place = script(server.folder, passes, "continue")
        self.gdb = subprocess.Popen(["gdb", "-nx", "-batch", "-p", str(server.process.pid), "-x", place],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said = []
        for line in self.gdb.stdout:
            self.said.append(line)
            if READY in line:
                return
        raise SystemExit(f"gdb cannot watch the server:\n{''.join(self.said)}")

    def end(self):
        """Where it has killed the server, which is gone by now (None if nowhere), and the steps before which names were that may be back."""
        try:
            said, _ = self.gdb.communicate(timeout=GDB_S_MAX)
        finally:
            self.gdb.kill()
        return step_of(said), loose_names(said)


def loose_names(said):
    """The steps since names were synced last."""
    steps = []
    for line in said.splitlines():
        if line.startswith(SYNCED):
            steps.clear()
        elif line.startswith(NAMES):
            steps.append(int(line[len(NAMES):]))
    return steps


def step_of(said):
    found = re.search(KILLED + r"(.+?)(?:\(| \+ \d| in section)", said)
    return found and found.group(1)


def make(connection, statement, engine):
    for name, first in statement.before.items():
        must(connection, f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, KEY (v)) ENGINE={engine}"
             f" PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN ({first + ROWS // 2}), PARTITION `p-1` VALUES LESS THAN MAXVALUE)")
        must(connection, f"INSERT INTO {name} (id, v) SELECT seq, seq * 7 FROM parts.seq_{first}_to_{first + ROWS - 1}")
        if statement.has_trigger:
            must(connection, f"CREATE TRIGGER parts.sevenfold BEFORE INSERT ON {name} FOR EACH ROW SET NEW.v = NEW.id * 7")


def names(connection, table, schema, name):
    rows = must(connection, f"SELECT {schema}, {name} FROM information_schema.{table} WHERE {schema} IN {DATABASES}").rows
    return {quoted(database.decode(), table.decode()) for database, table in rows}


def quoted(database, table):
    return f"{database}.{table if table.isalnum() else f'`{table}`'}"


def first_of(connection, name):
    """Its first id, if it has all of its rows."""
    for row in must(connection, f"CHECK TABLE {name} EXTENDED").rows:
        if row[2] in (b"error", b"Error") or (row[2] == b"status" and row[3] != b"OK"):
            raise Failed(f"CHECK TABLE {name}: {row[3].decode()}")
    count, first, last, right = must(connection, f"SELECT COUNT(*), MIN(id), MAX(id), SUM(v = id * 7) FROM {name}").rows[0]
    if int(count) != ROWS or int(last) - int(first) != ROWS - 1 or int(right) != ROWS:
        raise Failed(f"{name} has {int(count)} rows")
    return int(first)


def check(server, connection, statement):
    """Returns whether the statement has been done, if there is what should be then, or what was before, and nothing else."""
    try:
        found = {name: first_of(connection, name) for name in names(connection, "tables", "table_schema", "table_name")}
        if found not in (statement.before, statement.behind):
            raise Failed(f"there are {found}")
        triggered = names(connection, "triggers", "event_object_schema", "event_object_table")
        if triggered != (set(found) if statement.has_trigger else set()):
            raise Failed(f"there are triggers of {triggered}")
        check_files(server, found, statement.may_leave)
    except Failed as failed:
        raise Failed(f"{failed}; files {files(server)}\n{server.tail()}") from failed
    return found == statement.behind != statement.before


def files(server):
    return sorted(name for database in DATABASES for name in os.listdir(os.path.join(server.folder, "data", database)))


def check_files(server, tables, may_leave):
    left = [name for name in files(server) if name.startswith("#")]
    others = [name for name in files(server) if name not in left]
    if may_leave:
        left = [name for name in left if not name.startswith("#sql-alter-")]
    for ending in (".frm", ".par"):
        if sum(name.endswith(ending) for name in others) != len(tables):
            left.append(f"*{ending}")
    if left:
        raise Failed(f"there is left {left}")


def clean(connection, statement):
    for name in {**statement.before, **statement.behind}:
        must(connection, f"DROP TABLE IF EXISTS {name}")


def killed_at(server, statement, passes):
    """Where the server was killed in the statement (None if that came to its end before), and the steps whose names may be back."""
    for name in os.listdir(server.folder):
        if name.startswith("names-"):
            shutil.rmtree(os.path.join(server.folder, name))
    connection = protocol.Connection(server.socket)
    watch = Watch(server, passes)
    try:
        must(connection, statement.text)
        # Nothing is left to stop it at.
        server.stop()
    except protocol.Lost:
        pass
    found = watch.end()
    server.stop()
    return found


def killed_in_recovery(server, passes):
    """The same when it starts again: None if it has started."""
    command = server.command
    try:
        server.command = ["gdb", "-nx", "-batch", "-x", script(server.folder, passes, "run"), "--args"] + command
        server.resume()
    except SystemExit:
        return step_of(server.tail())
    finally:
        server.command = command
    server.stop()
    return None


def settle(server, statement):
    """Starts the server, looks what there is, and says the statement, if it has not been done."""
    server.resume()
    connection = protocol.Connection(server.socket)
    if not check(server, connection, statement):
        must(connection, statement.text)
        if not check(server, connection, statement) and statement.before != statement.behind:
            raise Failed("the statement does nothing")
    clean(connection, statement)
    connection.close()


def lose_names(server, statement, steps):
    """Yields the steps, the last one first, when all was right with the names of before it."""
    data, kept = os.path.join(server.folder, "data"), os.path.join(server.folder, "kept")
    shutil.copytree(data, kept)
    for step in reversed(steps):
        for database in DATABASES:
            shutil.rmtree(os.path.join(data, database))
            shutil.copytree(os.path.join(names_at(server.folder, step), database), os.path.join(data, database))
        settle(server, statement)
        server.stop()
        shutil.rmtree(data)
        shutil.copytree(kept, data)
        yield step
    shutil.rmtree(kept)


def play(server, engine, cuts_power):
    """Yields what was done to the server when all was right after that."""
    server.start()
    connection = protocol.Connection(server.socket)
    for database in DATABASES:
        must(connection, f"CREATE DATABASE {database}")
    connection.close()
    for place, statement in enumerate(STATEMENTS):
        if cuts_power:
            if len(statement.before) > 1:
                continue
            statement.has_trigger, statement.may_leave = False, "COPY" in statement.text
        for passes in itertools.count():
            step, loose = prepare(server, statement, engine, passes)
            if cuts_power:
                for lost in lose_names(server, statement, loose):
                    yield f"{statement.text}: killed before step {passes + 1}, {step}, without the names since step {lost + 1}"
            settle(server, statement)
            if step is None:
                if passes == 0:
                    raise Failed(f"{statement.text}: no step was seen; has the server symbols, and the engine lines?")
                break
            yield f"{statement.text}: killed before step {passes + 1}, {step}"
            again = itertools.count() if place == 0 and not cuts_power else ()
            for more in again:
                prepare(server, statement, engine, passes)
                step_again = killed_in_recovery(server, more)
                settle(server, statement)
                if step_again is None:
                    break
                yield f"{statement.text}: killed before step {passes + 1}, {step}, and step {more + 1} of the recovery, {step_again}"


def prepare(server, statement, engine, passes):
    connection = protocol.Connection(server.socket)
    make(connection, statement, engine)
    connection.close()
    return killed_at(server, statement, passes)


def main():
    options = servers.options(lost_names=0)
    server = servers.Server(options.folder, options.command)
    passed = failed = 0
    try:
        for done in play(server, options.engine, options.lost_names):
            print(done, flush=True)
            passed += 1
    except (Failed, protocol.Lost) as failure:
        print(f"FAIL after {passed} kills: {failure}")
        failed = 1
    finally:
        server.stop()
    return servers.result(passed, failed)


if __name__ == "__main__":
    sys.exit(main())

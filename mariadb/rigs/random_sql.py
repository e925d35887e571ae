# SPDX-License-Identifier: GPL-2.0-only
"""Random SQL on two engines side by side; scripts/mariadb-random says how."""

import argparse
import collections
import random
import sys

import compare
import protocol
import servers
import statements

# A shorter script is sought in so many runs at most.
SHRINK_RUNS_MAX = 250


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--engines", nargs=2, default=["InnoDB", "IOLANE"])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--statements", type=int, default=10000)
    parser.add_argument("--length", type=int, default=250)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--failures", type=int, default=1)
    parser.add_argument("--replay")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.randrange(1 << 31)
    return options


class Episode:
    """Statements from one seed, on empty databases."""

    def __init__(self, options, seed):
        self.options = options
        self.seed = seed
        self.random = random.Random(seed)
        self.level = self.random.choice(list(options.levels))
        self.operations = []
        self.refusals = collections.Counter()
        self.levelled = 0

    def run(self, server):
        """Raises Difference."""
        generator = statements.Generator(self.random, self.options.connections, self.level)
        pair = compare.Pair(server, self.options.engines, self.options.connections, self.options.levels[self.level])
        try:
            for _ in range(self.options.length):
                connection, statement, done = generator.next()
                self.operations.append((connection, statement))
                if pair.run(connection, statement):
                    done()
                elif not pair.open[connection]:
                    generator.ended(connection)
            pair.compare_contents()
        finally:
            self.refusals = pair.refusals
            self.levelled = pair.levelled
            pair.close()


def outcome(server, options, level, operations):
    try:
        compare.play(server, options.engines, options.connections, options.levels[level], operations)
    except compare.Difference as difference:
        if difference.kind in ("lost", "drop"):
            server.restart()
        return difference
    return None


def shrink(server, options, level, operations, difference):
    """Fewer operations with a difference of the same kind: halves, quarters, and so on are left out."""
    operations = operations[: difference.at] or operations
    runs = 0
    size = max(1, len(operations) // 2)
    while runs < SHRINK_RUNS_MAX:
        at = 0
        smaller = False
        while at < len(operations) and runs < SHRINK_RUNS_MAX:
            fewer = operations[:at] + operations[at + size :]
            runs += 1
            found = outcome(server, options, level, fewer)
            if found is not None and found.kind == difference.kind:
                operations, difference, smaller = fewer[: found.at] or fewer, found, True
            else:
                at += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return operations, difference


def script(level, operations):
    lines = [f"level {level}"] + [f"{connection}> {statement}" for connection, statement in operations]
    return "\n".join(lines)


def replay(server, options):
    """A script as printed, from a file."""
    level = "REPEATABLE READ"
    operations = []
    with open(options.replay) as lines:
        for line in lines:
            line = line.rstrip("\n")
            if line.startswith("level "):
                level = line[len("level ") :]
            elif line[:1].isdigit() and "> " in line:
                connection, statement = line.split("> ", 1)
                operations.append((int(connection), statement))
    found = outcome(server, options, level, operations)
    print(f"statement {found.at}: {found}" if found else "no difference")
    return 3 if found else 0


def campaign(server, options):
    seeds = random.Random(options.seed)
    done = episodes = failures = levelled = 0
    refusals = collections.Counter()
    done_at = dict.fromkeys(options.levels, 0)
    print(f"seed {options.seed}", flush=True)
    while done < options.statements and failures < options.failures:
        episode = Episode(options, seeds.randrange(1 << 31))
        try:
            episode.run(server)
        except compare.Difference as difference:
            failures += 1
            print(f"FAIL seed {episode.seed}, statement {difference.at}: {difference}", flush=True)
            if difference.kind in ("lost", "drop"):
                server.restart()
            operations, found = shrink(server, options, episode.level, episode.operations, difference)
            print(f"{script(episode.level, operations)}\n-- {found}\n", flush=True)
        done += len(episode.operations)
        episodes += 1
        refusals += episode.refusals
        levelled += episode.levelled
        done_at[episode.level] += len(episode.operations)
    for level, count in done_at.items():
        print(f"{count} statements at {level}")
    print(f"{done} statements in {episodes} episodes; undone, as one engine alone refused them: {sum(refusals.values())}")
    for (engine, code), count in sorted(refusals.items()):
        print(f"  {engine}: error {code}: {count}")
    print(f"AUTO_INCREMENT made equal after that: {levelled} times")
    print(f"{episodes - failures} passed, {failures} failed, 0 skipped")
    return 3 if failures else 0


def refusal(connection, engine, number, level):
    """Why an engine does not have a level; None if it does."""
    for statement in (f"CREATE OR REPLACE TABLE levels.t{number} (id INT PRIMARY KEY) ENGINE={engine}",
                      f"SET SESSION TRANSACTION ISOLATION LEVEL {level}", f"SELECT * FROM levels.t{number}"):
        reply = connection.query(statement)
        if reply.code:
            return str(reply)
    return None


def reads_uncommitted(connection, other, number):
    """Whether the engine shows rows that are not committed, at the level that allows it."""
    other.query("BEGIN")
    other.query(f"INSERT INTO levels.t{number} VALUES (1)")
    reply = connection.query(f"SELECT * FROM levels.t{number}")
    other.query("ROLLBACK")
    return bool(reply.rows)


def levels(server, engines):
    """Levels that both engines have, as each must be told: one may refuse a level, or give a higher one."""
    connection, other = protocol.Connection(server.socket), protocol.Connection(server.socket)
    connection.query("CREATE DATABASE levels")
    kept = {}
    for level in statements.LEVELS:
        refused = [text for text in (refusal(connection, engine, number, level) for number, engine in enumerate(engines)) if text]
        if refused:
            print(f"not compared: {level}: {refused[0]}", flush=True)
            continue
        kept[level] = [level] * len(engines)
        if level == "READ UNCOMMITTED":
            shows = [reads_uncommitted(connection, other, number) for number in range(len(engines))]
            if len(set(shows)) > 1:
                kept[level] = ["READ COMMITTED" if shown else level for shown in shows]
                print(f"{level} of {engines[shows.index(False)]} is compared with READ COMMITTED: it shows what is committed only", flush=True)
    connection.close()
    other.close()
    return kept


def main():
    options = arguments()
    servers.end_in_order()
    server = servers.Server(options.folder, options.command)
    try:
        server.start()
        options.levels = levels(server, options.engines)
        if not options.levels:
            raise SystemExit("an engine refuses every level of isolation")
        return replay(server, options) if options.replay else campaign(server, options)
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())

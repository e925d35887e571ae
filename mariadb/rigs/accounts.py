# SPDX-License-Identifier: GPL-2.0-only
"""Tables of accounts, whose sums each transaction keeps, and the ways that lead to the rows of a group."""

import protocol

ER_LOCK_WAIT_TIMEOUT = 1205
# A table is newer than a view; InnoDB has a number of its own for it, too.
ER_TABLE_DEF_CHANGED = (1412, 159)

AMOUNT = 100
# Numbers of groups are the highest digits of what is kept apart by group.
IDS = 1_000_000
UNIQUES = 1_000_000_000
PLACES = 5000
VIRTUALS = 1000

COLUMNS = """id BIGINT NOT NULL, grp INT NOT NULL, par INT NOT NULL, tag INT NOT NULL, amount BIGINT NOT NULL, k INT NOT NULL,
    u BIGINT{not_null}, name VARCHAR(40) NOT NULL, d INT NOT NULL, claim INT, hits BIGINT NOT NULL, pad TEXT NOT NULL,
    v INT AS (grp * 1000 + k % 1000) VIRTUAL"""
# What of a row an index may have, and is there to be compared.
COMPARED = ("id", "grp", "par", "tag", "amount", "k", "u", "name", "d", "claim", "hits", "v")

KEYS = {
    "by_tag": "tag",
    "by_par": "par",
    "by_grp": "grp, k",
    "by_k": "k, grp",
    "by_name": "name(8)",
    "by_d": "grp, d DESC",
    "by_v": "v",
    "by_amount": "grp, amount",
}
# All rows have a value of the first column from here on.
LEAST = {"PRIMARY": "id >= 0", "by_id": "id >= 0", "by_tag": "tag >= 0", "by_par": "par >= 0", "by_grp": "grp >= 0", "by_k": "k >= 0",
         "by_name": "name > 'f'", "by_d": "grp >= 0", "by_v": "v >= 0", "by_amount": "grp >= 0", "by_u": "u >= 0",
         "by_claim": "(claim IS NULL OR claim >= 0)"}

# How tables differ: their first key, and what follows the definition.
KINDS = {
    "plain": ("PRIMARY KEY (id), UNIQUE KEY by_u (u), UNIQUE KEY by_claim (claim)", ""),
    "down": ("PRIMARY KEY (id DESC), UNIQUE KEY by_u (u DESC), UNIQUE KEY by_claim (claim)", ""),
    "keyless": ("KEY by_id (id), UNIQUE KEY by_u (u), UNIQUE KEY by_claim (claim)", ""),
    "nokey": ("KEY by_id (id), KEY by_u (u), KEY by_claim (claim)", ""),
    # Without another one, a unique key that has no NULL is the primary key.
    "promoted": ("KEY by_id (id), UNIQUE KEY by_u (u), UNIQUE KEY by_claim (claim)", ""),
    "parts": ("PRIMARY KEY (id), KEY by_u (u), KEY by_claim (claim)", "PARTITION BY HASH (id) PARTITIONS 3"),
    "moving": ("PRIMARY KEY (grp, k, id), UNIQUE KEY by_id (id), UNIQUE KEY by_u (u), UNIQUE KEY by_claim (claim)", ""),
    "spread": ("PRIMARY KEY (id, k), KEY by_u (u), KEY by_claim (claim)",
               "PARTITION BY RANGE (k) (PARTITION p0 VALUES LESS THAN (1500), PARTITION p1 VALUES LESS THAN (3000), PARTITION p2 VALUES LESS THAN MAXVALUE)"),
}


class Altered(Exception):
    """The table is newer than the view, or is being altered."""


def ask(connection, statement):
    reply = connection.query(statement)
    if reply.code in (*ER_TABLE_DEF_CHANGED, ER_LOCK_WAIT_TIMEOUT):
        raise Altered(reply.message)
    if reply.code:
        raise protocol.Failed(f"{statement[:200]}: {reply}")
    return reply


class Table:
    """`groups` of `size` accounts each. Where it is `fixed`, none comes or goes."""

    def __init__(self, name, kind, groups, size, fixed, pad):
        self.name, self.kind, self.groups, self.size, self.pad = name, kind, groups, size, pad
        # A row that goes to another partition is looked for in each of them but once.
        self.keeps_tree = kind != "spread"
        self.keeps_key = self.keeps_tree and kind not in ("moving", "promoted")
        self.fixed = fixed and self.keeps_tree
        self.churns = not fixed
        self.has_unique = "UNIQUE KEY by_u" in KINDS[kind][0]
        self.has_unique_id = kind not in ("keyless", "nokey", "promoted", "spread")
        self.keys = [*KEYS, "by_u", "by_claim"]
        self.keys.append("by_id" if "by_id" in KINDS[kind][0] else "PRIMARY")

    def definition(self, engine):
        first, last = KINDS[self.kind]
        keys = ", ".join(f"KEY {name} ({columns})" for name, columns in KEYS.items())
        columns = COLUMNS.format(not_null=" NOT NULL" if self.kind == "promoted" else "")
        return f"CREATE TABLE {self.name} ({columns}, {first}, {keys}) ENGINE={engine} {last}"

    def make(self, connection, engine):
        protocol.must(connection, self.definition(engine))
        protocol.must(connection, f"""INSERT INTO {self.name} (id, grp, par, tag, amount, k, u, name, d, claim, hits, pad)
            SELECT g.seq * {IDS} + s.seq, g.seq, s.seq % 2, g.seq, {AMOUNT}, (g.seq * 37 + s.seq * 101) % {PLACES},
            g.seq * {UNIQUES} + s.seq * 1000, CONCAT('g', LPAD(g.seq, 4, '0'), CHAR(97 + s.seq % 26), 'x'), s.seq, NULL, 0,
            REPEAT('p', (s.seq * 7919) % {self.pad})
            FROM seq_0_to_{self.groups - 1} g, seq_0_to_{self.size - 1} s""")

    @property
    def rows(self):
        return self.groups * self.size

    def pivot(self, random, group):
        """An account that is always there."""
        return group * IDS + 2 * random.randrange(self.size // 2) + 1

    def is_pivot(self):
        """Of accounts that are always there."""
        return f"par = 1 AND id % {IDS} < {self.size}"

    def ways(self, group, of=""):
        """Hints and conditions, each of which leads to all rows of a group; `of` is what columns are named with."""
        by_id = f"{of}id BETWEEN {group * IDS} AND {group * IDS + IDS - 1}"
        by_u = f"{of}u BETWEEN {group * UNIQUES} AND {group * UNIQUES + UNIQUES - 1}"
        by_name = f"{of}name LIKE 'g{group:04}%'"
        in_group, in_tag = f"{of}grp = {group}", f"{of}tag = {group}"

        def parts(column, *ends):
            """Ranges that have all values together, which the server takes for several."""
            return "(" + " OR ".join(f"{of}{column} BETWEEN {low} AND {high - 1}" for low, high in zip(ends, ends[1:])) + ")"

        first_id, first_u = group * IDS, group * UNIQUES
        return [
            (f"FORCE INDEX ({self.keys[-1]})", by_id),
            ("FORCE INDEX (by_tag)", in_tag),
            ("FORCE INDEX (by_grp)", in_group),
            ("FORCE INDEX (by_grp)", f"{in_group} AND {of}k >= 0"),
            ("FORCE INDEX (by_k)", f"{of}k BETWEEN 0 AND {PLACES} AND {in_group}"),
            ("FORCE INDEX (by_name)", by_name),
            ("FORCE INDEX (by_d)", f"{in_group} AND {of}d > -1000000"),
            ("FORCE INDEX (by_v)", f"{of}v BETWEEN {group * VIRTUALS} AND {group * VIRTUALS + VIRTUALS - 1}"),
            ("FORCE INDEX (by_u)", by_u),
            ("FORCE INDEX (by_amount)", f"{in_group} AND {of}amount > -1000000000000"),
            (f"FORCE INDEX ({self.keys[-1]})", parts("id", first_id, first_id + 2, first_id + 5, first_id + IDS)),
            ("FORCE INDEX (by_grp)", f"{in_group} AND {parts('k', 0, 1500, 2500, 4000, PLACES)}"),
            ("FORCE INDEX (by_k)", f"{parts('k', 0, 2500, PLACES)} AND {in_group}"),
            ("FORCE INDEX (by_d)", f"{in_group} AND {parts('d', -1000000, 300, 700, 1000000)}"),
            ("FORCE INDEX (by_u)", parts("u", first_u, first_u + 2500, first_u + 5500, first_u + UNIQUES)),
            ("FORCE INDEX (by_tag, by_u)", f"({in_tag} OR {by_u})"),
            ("FORCE INDEX (by_tag, by_name)", f"({in_tag} OR {by_name})"),
            ("FORCE INDEX (by_tag, by_par)", f"{in_tag} AND {of}par IN (0, 1)"),
            ("", in_group),
            ("USE INDEX ()", in_group),
        ]

    def way(self, random, group, of=""):
        return random.choice(self.ways(group, of))

    def moves(self, random):
        """Changes of columns that keys go by."""
        c = random.randrange(1, 1000)
        chosen = [
            text for text in (
                f"k = (k * 7 + {c}) % {PLACES}",
                f"u = grp * {UNIQUES} + (id % {IDS}) * 1000 + {c}",
                f"name = CONCAT('g', LPAD(grp, 4, '0'), CHAR(97 + (d + {c}) % 26), CHAR(97 + {c % 26}), {c})",
                f"d = (d * 3 + {c}) % 1000",
                f"pad = REPEAT('q', {random.randrange(self.pad)})",
                "hits = hits + 1",
            ) if random.random() < 0.4
        ]
        random.shuffle(chosen)
        return chosen

    def total(self, connection, hint, condition):
        """Rows and the sum of their amounts."""
        reply = ask(connection, f"SELECT COUNT(*), COALESCE(SUM(amount), 0) FROM {self.name} {hint} WHERE {condition}")
        return tuple(int(value) for value in reply.rows[0])

# SPDX-License-Identifier: GPL-2.0-only
"""Tables at random: columns of every type, keys of every kind, values with the edges of each type.

Every table has a column `id`, whose values are never repeated by a plain INSERT: it makes an order total.
"""

WORDS = [
    "", " ", "a", "A", "a ", "ab", "aB", "b", "z", "Zz", "ä", "Ä", "ae", "ß", "ss", "é", "e", "ø", "o", "Ω", "ω", "ñ", "ll",
    "ch", "0", "00", "-1", "1e3", "%", "_", "a\\\\b", "''", "\\0", "\\t", "日本", "한", "\U0001f600", "long" * 12,
]
UNICODE = ["utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_nopad_bin", "utf8mb4_unicode_520_ci",
           "utf8mb4_swedish_ci", "utf8mb3_czech_ci", "ucs2_general_ci", "utf16_unicode_ci", "utf32_bin"]
# Their greatest character, with which LIKE 'a%' ends, is not below others.
GREATEST_IS_LAST = ["utf8mb4_general_ci", "utf8mb4_unicode_520_ci"]
NARROW = ["latin1_swedish_ci", "latin1_german2_ci", "latin1_bin", "ascii_general_ci", "latin2_czech_cs", "cp1251_general_ci"]


class Type:
    """A column's type: its SQL, whether a key has to name a prefix, and its values as SQL. Those of text may be asked for by LIKE, if
    `like` says so."""

    def __init__(self, sql, value, blob=False, text=False, key=True, like=False):
        self.sql = sql
        self.value = value
        self.blob = blob
        self.text = text
        self.key = key
        self.like = like


def quoted(text):
    return "'" + text + "'"


def integers(sql, low, high):
    edges = [low, low + 1, 0 if low <= 0 else low, 1, 2, 3, 10, high - 1, high]
    return Type(sql, lambda random: str(random.choice(edges) if random.random() < 0.5 else random.randint(0, min(high, 40))))


def words(random):
    word = random.choice(WORDS)
    return quoted(word if random.random() < 0.8 else word + random.choice(WORDS))


def words_above_space(random):
    """For where keys and comparisons differ in characters less than a space."""
    return words(random).replace("\\0", "").replace("\\t", "")


def below_supplementary(value):
    """For LIKE, which by a key finds no such characters where they are above the greatest one of a collation."""
    return lambda random: value(random).replace("\U0001f600", "")


def ascii_words(random):
    return quoted(random.choice(["", "a", "A", "b ", "ab", "zz", "Z", "09", "x" * 9, "q w"]))


def hexadecimal(random, length_max):
    length = random.randint(0, length_max)
    return "x'" + "".join(f"{random.choice([0, 1, 32, 97, 65, 255]):02x}" for _ in range(length)) + "'"


def long_text(random):
    return words(random) if random.random() < 0.8 else f"REPEAT('{random.choice('abc')}', {random.choice([255, 767, 3000, 9000, 40000])})"


def date(random):
    return f"{random.choice([1000, 1970, 1999, 2000, 2024, 2038, 9999])}-{random.randint(1, 12):02}-{random.choice([1, 2, 15, 28]):02}"


def time(random):
    sign = random.choice(["", "", "", "-"])
    return f"{sign}{random.choice([0, 0, 1, 12, 23, 838])}:{random.randint(0, 59):02}:{random.randint(0, 59):02}.{random.randint(0, 999999):06}"


def moment(random):
    return f"{date(random)} {random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.choice([0, 1, 59]):02}.{random.choice([0, 1, 500000, 999999]):06}"


def stamp(random):
    return f"{random.choice([1971, 1999, 2024, 2037])}-{random.randint(1, 12):02}-15 {random.randint(0, 23):02}:00:{random.choice([0, 59]):02}.{random.choice([0, 1, 500000]):06}"


def member(random):
    return quoted(random.choice(["x", "Y", "zed", "", "a b"]))


def members(random):
    return quoted(",".join(random.sample(["x", "Y", "zed", "w"], random.randint(0, 4))))


def json(random):
    return quoted(random.choice(['{}', '[1, 2]', '{"a": "b"}', 'null', '"x"', '{"a": {"b": [1, null]}}']))


def random_type(random):
    """A column's type; types that break most engines, collations and lengths, come oftenest."""
    digits = random.choice([(1, 0), (5, 2), (9, 9), (10, 3), (18, 0), (30, 10), (65, 30)])
    fraction = random.choice([0, 1, 3, 4, 6])
    unsigned = random.random() < 0.4
    length = random.choice([1, 3, 10, 40, 200])
    kind = random.randrange(24)
    if kind < 5:
        sql, bits = random.choice([("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)])
        return integers(sql + " UNSIGNED", 0, 2**bits - 1) if unsigned else integers(sql, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if kind < 7:
        whole = "9" * (digits[0] - digits[1]) or "0"
        edges = ["0", "1", "-1", f"{whole}.{'9' * digits[1]}", f"-{whole}.{'9' * digits[1]}"]
        # Of a fraction that is too long, what a comparison finds depends on whether it goes by a key.
        edges += [edge for edge in ("0.5", "-0.25", "7.125") if len(edge.split(".")[1]) <= digits[1]]
        return Type(f"DECIMAL({digits[0]},{digits[1]})", lambda random: random.choice(edges))
    if kind == 7:
        return Type(random.choice(["FLOAT", "DOUBLE"]), lambda random: random.choice(["0", "-0.0", "1.5", "-1.5", "1e10", "-1e-10", "3.25"]))
    if kind < 14:
        collation = random.choice(UNICODE + NARROW)
        value = words if collation in UNICODE and not collation.startswith("utf8mb3") and not collation.startswith("ucs2") else ascii_words
        sql = random.choice([f"CHAR({min(length, 40)})", f"VARCHAR({length})", f"VARCHAR({length})", "TEXT", "TINYTEXT"])
        # Keys of InnoDB have spaces behind a CHAR that comparisons do not pad; and by a key of utf32_bin the server's LIKE 'a%'
        # begins at 'a' with spaces.
        if sql.startswith("CHAR") and "_nopad_" in collation or collation == "utf32_bin":
            value = words_above_space
        blob = sql.endswith("TEXT")
        if blob and value is words and sql == "TEXT":
            value = long_text
        like = value is ascii_words or collation in GREATEST_IS_LAST or random.random() < 0.7
        if like and value is not ascii_words and collation not in GREATEST_IS_LAST:
            value = below_supplementary(value)
        return Type(f"{sql} CHARACTER SET {collation.split('_')[0]} COLLATE {collation}", value, blob=blob, text=True, like=like)
    if kind < 16:
        sql = random.choice([f"BINARY({min(length, 40)})", f"VARBINARY({length})", "BLOB", "MEDIUMBLOB"])
        return Type(sql, lambda random: hexadecimal(random, min(length, 12)), blob=sql.endswith("BLOB"))
    if kind == 16:
        return Type("DATE", lambda random: quoted(date(random)))
    if kind == 17:
        return Type(f"TIME({fraction})", lambda random: quoted(time(random)))
    if kind == 18:
        return Type(f"DATETIME({fraction})", lambda random: quoted(moment(random)))
    if kind == 19:
        return Type(f"TIMESTAMP({fraction}) NULL", lambda random: quoted(stamp(random)))
    if kind == 20:
        return Type("YEAR", lambda random: random.choice(["1901", "1999", "2000", "2155"]))
    if kind == 21:
        return Type(*random.choice([("ENUM('x','Y','zed','','a b')", member), ("SET('x','Y','zed','w')", members)]))
    if kind == 22:
        bits = random.choice([1, 7, 8, 9, 33, 64])
        return Type(f"BIT({bits})", lambda random: str(random.choice([0, 1, 2**bits - 1, random.getrandbits(bits)])))
    return random.choice([
        Type("JSON", json, blob=True, key=False),
        Type("INET6", lambda random: quoted(random.choice(["::", "::1", "2001:db8::1", "ffff::"]))),
        Type("UUID", lambda random: quoted(random.choice(["00000000-0000-0000-0000-000000000000", "123e4567-e89b-12d3-a456-426655440000"]))),
    ])


class Column:
    def __init__(self, name, kind, null, extra="", generated=False):
        self.name = name
        self.kind = kind
        self.null = null
        self.extra = extra
        self.generated = generated

    def sql(self):
        if self.generated:
            return f"{self.name} {self.kind.sql} {self.extra}"
        # TIMESTAMP says itself whether it takes NULL.
        null = "" if "NULL" in self.kind.sql else "" if self.null else " NOT NULL"
        return f"{self.name} {self.kind.sql}{null}{self.extra}"

    def value(self, random):
        if self.null and random.random() < 0.15:
            return "NULL"
        return self.kind.value(random)


class Table:
    def __init__(self, name, columns, keys, options=""):
        self.name = name
        self.columns = columns
        # (kind, name, parts): kind is PRIMARY, UNIQUE or INDEX.
        self.keys = keys
        self.options = options
        self.next_column = len(columns)
        self.next_key = len(keys)

    def copy(self, name):
        other = Table(name, list(self.columns), list(self.keys), self.options)
        other.next_column, other.next_key = self.next_column, self.next_key
        return other

    def stored(self):
        return [column for column in self.columns if not column.generated]

    def id_is_unique(self):
        return any(kind != "INDEX" and parts in (["id"], ["id DESC"]) for kind, _, parts in self.keys)

    def has_virtual_unique_key(self):
        return has_virtual_key(self, ("UNIQUE",))

    def sql(self, engine):
        lines = [column.sql() for column in self.columns] + [key_sql(key) for key in self.keys]
        return f"CREATE TABLE {self.name} ({', '.join(lines)}) ENGINE={engine}{self.options}"


def key_sql(key):
    kind, name, parts = key
    head = "PRIMARY KEY" if kind == "PRIMARY" else f"{kind} {'KEY ' if kind == 'UNIQUE' else ''}{name}"
    return f"{head} ({', '.join(parts)})"


def key_part(random, column):
    length = ""
    # Its strings are compared by letters first, and by their cases then: 'zz' is more than 'Z', its beginning is less, and by a key of
    # beginnings the server does not find it.
    is_short = "latin2_czech_cs" not in column.kind.sql
    if column.kind.blob:
        length = f"({random.choice([1, 3, 20, 100] if is_short else [20, 100])})"
    elif column.kind.text and is_short and random.random() < 0.2:
        length = "(1)"
    return f"{column.name}{length}{' DESC' if random.random() < 0.2 else ''}"


def random_key(random, kind, name, columns):
    usable = [column for column in columns if column.kind.key and (kind != "PRIMARY" or not (column.null or column.generated))]
    if not usable:
        return None
    count = min(len(usable), random.choice([1, 1, 1, 2, 2, 3]))
    return kind, name, [key_part(random, column) for column in random.sample(usable, count)]


def random_column(random, name):
    return Column(name, random_type(random), random.random() < 0.6)


def generated_column(random, name, columns):
    """Of another column, stored or not; None if there is nothing to make it of."""
    sources = [column for column in columns[1:] if column.kind.sql.startswith(("INT", "SMALLINT", "TINYINT")) and not column.generated]
    how = random.choice(["STORED", "VIRTUAL"])
    if sources and random.random() < 0.7:
        source = random.choice(sources)
        return Column(name, integers("BIGINT", 0, 9), True, f"AS (CAST({source.name} AS SIGNED) % 7) {how}", generated=True)
    return Column(name, integers("BIGINT", 0, 9), True, f"AS (id % 5) {how}", generated=True)


def has_virtual_key(table, kinds=("PRIMARY", "UNIQUE", "INDEX")):
    """InnoDB gives the rows of partitions in a wrong order by such a key."""
    virtual = {column.name for column in table.columns if column.extra.endswith("VIRTUAL")}
    return any(part.split(" ")[0].split("(")[0] in virtual for kind, _, parts in table.keys if kind in kinds for part in parts)


def random_table(random, name):
    autoincrement = random.random() < 0.2
    columns = [Column("id", integers("INT", 0, 9), False, " AUTO_INCREMENT" if autoincrement else "")]
    columns += [random_column(random, f"c{number}") for number in range(1, random.randint(2, 7))]
    if random.random() < 0.25:
        columns.append(generated_column(random, f"c{len(columns)}", columns))
    keys = []
    first = random.random()
    descending = random.choice(["id", "id", "id DESC"])
    if autoincrement or first < 0.5:
        keys.append(("PRIMARY", "", [descending]))
    elif first < 0.8:
        # The column `id` makes most rows of such a key different.
        key = random_key(random, "PRIMARY", "", columns[1:])
        if key:
            keys.append((key[0], key[1], key[2] + ["id"]) if random.random() < 0.8 else key)
    if not keys and random.random() < 0.3:
        keys.append(("UNIQUE", "k0", [descending]))
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        kind = "UNIQUE" if random.random() < 0.25 else "INDEX"
        key = random_key(random, kind, f"k{len(keys)}", columns)
        if key:
            keys.append(key)
    table = Table(name, columns, keys)
    if random.random() < 0.1 and all(kind == "INDEX" or "id" in parts for kind, _, parts in keys) and not has_virtual_key(table):
        table.options = random.choice([
            " PARTITION BY HASH (id) PARTITIONS 3",
            " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (50), PARTITION p1 VALUES LESS THAN (200), PARTITION p2 VALUES LESS THAN MAXVALUE)",
        ])
    return table

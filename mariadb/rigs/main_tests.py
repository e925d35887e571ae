# SPDX-License-Identifier: GPL-2.0-only
"""What tests of the server's suite `main` gave on two engines, statement by statement; scripts/lib/main.sh records it.
Prints lines as the server's own test program does."""

import argparse
import difflib
import os
import re
import sys

# A line that begins a statement, as the test program echoes it, the end of its last line, and how many lines it may have.
STATEMENT = re.compile(
    rb"^\(*(select|insert|replace|update|delete|create|drop|alter|rename|truncate|set|show|explain|describe|desc|analyze|flush|prepare|execute"
    rb"|connect|connection|disconnect|deallocate|with|call|begin|start|commit|rollback|savepoint|release|lock|unlock|load|use|check|optimize|repair|checksum|handler|grant|revoke"
    rb"|values|table|do|xa|kill|reset|help)\b(?!\t)", re.IGNORECASE)
COMMENT = re.compile(rb"^(#|--)")
LAST_LINE = re.compile(rb"[;|/$]\s*$")
# An error that the test did not expect, with the statement in it, which may have more lines.
ERROR = re.compile(rb"^mysqltest: ")
ERROR_END = re.compile(rb"' (failed|succeeded)\b")
STATEMENT_LINES_MAX = 200
# What an engine is free in: plans, and counts of work; and who is connected. By the statement, or by the names of columns that it gives.
FREE = re.compile(
    rb"^\(*(explain|describe|desc|analyze|check|optimize|repair|show (session |global |local )?status|show (full )?table status|show engine"
    rb"|show profile)\b|optimizer_trace|@trace|information_schema|handler_|last_query_cost", re.IGNORECASE)
FREE_LINE = re.compile(rb"Handler_reads:")
# Which rows a LIMIT leaves is often an engine's choice: without ORDER BY, or among equal ones.
LIMIT = re.compile(rb"\b(limit|fetch)\b", re.IGNORECASE)
FREE_COLUMNS = (b"id\tselect_type\ttable\t", b"EXPLAIN", b"ANALYZE", b"Table\tNon_unique\t", b"Name\tEngine\tVersion\t", b"Table\tOp\tMsg_type\t",
                b"Id\tUser\tHost\tdb\tCommand\t")
# What one engine refuses, and what follows from it: there is no such table, or no such constraint.
REFUSED = re.compile(rb"\((1214|1464|1478)\)|FOREIGN KEY with ENGINE|\(1005\).*(incorrectly formed|Wrong create options)")
FOLLOWS = re.compile(
    rb"ER_NO_SUCH_TABLE|ER_BAD_TABLE_ERROR|ER_ROW_IS_REFERENCED|ER_NO_REFERENCED_ROW|ER_TABLE_EXISTS_ERROR|ER_BAD_FIELD_ERROR"
    rb"|ER_TRUNCATED_WRONG_VALUE_FOR_FIELD|ER_WRONG_VALUE_COUNT_ON_ROW|ER_UNKNOWN_SEQUENCES|ER_UNKNOWN_VIEW|Unknown table|ROW_FORMAT=")
NAMES = re.compile(rb"innodb|iolane", re.IGNORECASE)
# In messages, the folder in which a test ran.
SCRATCH = re.compile(rb"/\S*mariadb-test\.\w+")
# A test that does not end, in the log of the test program.
FAILED = re.compile(r"^main\.(\S+) .*\[ (?:retry-)?fail \]")
CAUSE = re.compile(r"^(mysqltest: |.*mysqltest.* (crashed|timed out))|^(Test case timeout|Server .* failed)")
SHOWN_DIFFERENCES = 3


def blocks(path):
    """(statement, lines that it gives) of a result."""
    with open(path, "rb") as file:
        lines = [NAMES.sub(b"ENGINE", SCRATCH.sub(b"SCRATCH", line)) for line in file.read().split(b"\n") if not FREE_LINE.search(line)]
    found, at = [(b"", [])], 0
    while at < len(lines):
        length = statement_lines(lines, at)
        if length:
            found.append((b"\n".join(lines[at:at + length]), []))
        else:
            length = lines_until(ERROR_END, lines, at) if ERROR.match(lines[at]) else 1
            found[-1][1].append(b" ".join(lines[at:at + length]))
        at += length
    return found


def lines_until(end, lines, at):
    """How many lines there are up to one with such an end; 1 if there is none."""
    for length in range(1, min(STATEMENT_LINES_MAX, len(lines) - at) + 1):
        if end.search(lines[at + length - 1]):
            return length
    return 1


def statement_lines(lines, at):
    """How many lines the statement has that begins here; 0 if none does. Comments count as what the one before gives."""
    if COMMENT.match(lines[at]):
        return 0
    # The name of the column in which EXPLAIN and ANALYZE give JSON.
    if lines[at + 1:at + 2] == [b"{"]:
        return 0
    return lines_until(LAST_LINE, lines, at) if STATEMENT.match(lines[at]) else 0


def is_free(statement, lines):
    return FREE.search(statement) or any(line.startswith(FREE_COLUMNS) for line in lines)


def same(statement, left, right):
    if is_free(statement, left) and is_free(statement, right):
        return True
    return sorted(left) == sorted(right) or (LIMIT.search(statement) is not None and len(left) == len(right))


def differences(reference, engine):
    """(statement, lines only here, lines only there) of each statement whose lines differ, and how many do because one engine refuses something."""
    here, there = blocks(reference), blocks(engine)
    statements = [[statement for statement, _ in found] for found in (here, there)]
    found, refused = [], 0
    # Where one engine has taken another way through the test, both are aligned.
    for kind, i, i_end, j, j_end in difflib.SequenceMatcher(None, *statements, autojunk=False).get_opcodes():
        if kind != "equal":
            found.append((b"", statements[0][i:i_end], statements[1][j:j_end]))
            continue
        for (statement, left), (_, right) in zip(here[i:i_end], there[j:j_end]):
            if same(statement, left, right):
                continue
            left, right = subtract(left, right), subtract(right, left)
            if any(REFUSED.search(line) or (refused and FOLLOWS.search(line)) for line in left + right):
                refused += 1
            else:
                found.append((statement, left, right))
    return found, refused


def subtract(lines, others):
    others = list(others)
    left = []
    for line in lines:
        if line in others:
            others.remove(line)
        else:
            left.append(line)
    return left


def causes(path):
    """Why tests did not end, by their names."""
    found, name = {}, None
    with open(path, errors="replace") as lines:
        for line in lines:
            failed = FAILED.match(line)
            if failed:
                name = failed.group(1)
            elif name and CAUSE.match(line):
                found.setdefault(name, line.strip())
    return found


def show(found):
    for statement, left, right in found[:SHOWN_DIFFERENCES]:
        print(f"    {statement.decode('utf8', 'replace')[:200]}")
        for mark, lines in (("-", left), ("+", right)):
            for line in lines[:SHOWN_DIFFERENCES]:
                print(f"        {mark} {line.decode('utf8', 'replace')[:200]}")


def result(folder, name):
    """The result's path, if the test has ended."""
    path = os.path.join(folder, name + ".result")
    return path if os.path.exists(path) and os.path.getsize(path) > 0 else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reference", required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("tests", nargs="+")
    options = parser.parse_args()
    ends = causes(os.path.join(options.engine, "log"))
    for name in options.tests:
        reference, engine = result(options.reference, name), result(options.engine, name)
        if not reference:
            print(f"main.{name} [ skipped ]  it does not end on InnoDB, either")
        elif not engine:
            print(f"main.{name} [ fail ]  it does not end: {ends.get(name, 'it is not said why')}")
        else:
            found, refused = differences(reference, engine)
            print(f"main.{name} [ {'fail' if found else 'pass'} ]  {len(found)} statements differ, {refused} by what one engine refuses")
            show(found)


if __name__ == "__main__":
    sys.exit(main())

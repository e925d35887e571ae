# SPDX-License-Identifier: GPL-2.0-only
"""What rigs begin and end with: options, and a scratch server, started from a copy of an empty data directory, or with what a dead one left."""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import protocol

START_S_MAX = 60
LOG_LINES = 60


def end_in_order():
    """A signal ends the program as an exception does, so that its servers are stopped."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def options(**more):
    """Those of every rig, and `more` with their defaults. From here on a signal ends the program in order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--engine", required=True)
    for name, default in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=str if default is None else type(default), default=default)
    parser.add_argument("command", nargs="+")
    end_in_order()
    return parser.parse_args()


def seeded_options(**more):
    """The same with `random`, of a seed that is printed."""
    chosen = options(seed=random.randrange(1 << 31), **more)
    print(f"seed {chosen.seed}", flush=True)
    chosen.random = random.Random(chosen.seed)
    return chosen


class Worker(threading.Thread):
    """Does `work` by a connection of its own until the server dies. What failed before that is its `error`."""

    def __init__(self, server, seed, database=""):
        super().__init__()
        self.socket, self.database = server.socket, database
        self.random = random.Random(seed)
        self.error = None

    def run(self):
        try:
            self.work(protocol.Connection(self.socket, self.database))
        except protocol.Lost:
            pass
        except protocol.Failed as failed:
            self.error = str(failed)


def kill_beside(server, workers, seconds):
    """Kills the server after so many seconds of these workers' work."""
    for worker in workers:
        worker.start()
    time.sleep(seconds)
    died = server.process.poll() is not None
    server.stop()
    for worker in workers:
        worker.join()
    errors = [worker.error for worker in workers if worker.error]
    if errors:
        raise protocol.Failed(f"before the kill: {'; '.join(errors)}")
    if died:
        raise protocol.Failed(f"the server died by itself:\n{server.tail()}")


def result(passed, failed, skipped=0):
    """The last line of a rig; the program's exit code."""
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 3 if failed else 0


def count_kills(play):
    """Goes through `play` of a server and the options, which kills it and yields when all is right after that; the program's exit code."""
    chosen = seeded_options(rounds=10)
    server, rounds = Server(chosen.folder, chosen.command), chosen.rounds
    passed = 0
    try:
        for _ in play(server, chosen):
            passed += 1
    except (protocol.Failed, protocol.Lost) as failure:
        print(f"FAIL kill {passed + 1}: {failure}")
        if isinstance(failure, protocol.Lost):
            print(server.tail())
    finally:
        server.stop()
    failed = 1 if passed < rounds else 0
    return result(passed, failed, rounds - passed - failed)


class Server:
    def __init__(self, folder, command, name="data"):
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder, exist_ok=True)
        self.empty = os.path.join(folder, "empty")
        self.socket = os.path.join(self.folder, "socket")
        self.log = os.path.join(self.folder, "server.log")
        self.command = command
        self.process = None

    def start(self):
        """With an empty data directory."""
        data = os.path.join(self.folder, "data")
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(self.empty, data)
        with open(self.log, "wb"):
            pass
        self.resume()

    def resume(self):
        """With the data that are there."""
        data = os.path.join(self.folder, "data")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command + [f"--datadir={data}", f"--socket={self.socket}", f"--pid-file={self.folder}/pid"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + START_S_MAX
        while time.monotonic() < until:
            try:
                protocol.Connection(self.socket).close()
                return
            except protocol.Lost:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise SystemExit(f"the server does not start:\n{self.tail()}")

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self):
        self.stop()
        self.start()

    def tail(self):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-LOG_LINES:])

# SPDX-License-Identifier: GPL-2.0-only
"""A scratch server, started from a copy of an empty data directory, or with what a dead one left."""

import os
import shutil
import signal
import subprocess
import sys
import time

import protocol

START_S_MAX = 60
LOG_LINES = 60


def end_in_order():
    """A signal ends the program as an exception does, so that its servers are stopped."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


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

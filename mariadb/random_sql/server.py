# SPDX-License-Identifier: GPL-2.0-only
"""A scratch server, started anew from a copy of an empty data directory when it dies."""

import os
import shutil
import subprocess
import time

import protocol

START_S_MAX = 60
LOG_LINES = 60


class Server:
    def __init__(self, folder, command):
        self.folder = folder
        self.socket = os.path.join(folder, "socket")
        self.log = os.path.join(folder, "server.log")
        self.command = command
        self.process = None

    def start(self):
        """With an empty data directory."""
        data = os.path.join(self.folder, "data")
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(os.path.join(self.folder, "empty"), data)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.command + [f"--datadir={data}", f"--socket={self.socket}", "--skip-networking"],
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

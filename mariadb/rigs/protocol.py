# SPDX-License-Identifier: GPL-2.0-only
"""A client of MariaDB over a Unix socket: text protocol, an account without a password.

The packets are those of https://mariadb.com/kb/en/clientserver-protocol/. Packets beyond 16 MiB are not read: no
statement here gives one.
"""

import socket
import struct

CAPABILITIES = (
    1  # long password
    | 1 << 3  # connect with database
    | 1 << 9  # protocol 4.1
    | 1 << 13  # transactions in status
    | 1 << 15  # secure connection
    | 1 << 19  # plugin auth
)
UTF8MB4_GENERAL_CI = 45
COM_QUERY = 3
PACKET_BYTES_MAX = (1 << 24) - 1
# A statement that takes longer hangs: the longest wait for a lock here is one second.
REPLY_S_MAX = 60


class Lost(Exception):
    """The server has gone, or does not answer."""


class Failed(Exception):
    """What a rig looks for is not so."""


class Reply:
    """What a statement gave: an error's code and text, or rows, or how many rows it affected."""

    def __init__(self, code=0, message="", rows=None, affected=0):
        self.code = code
        self.message = message
        self.rows = rows
        self.affected = affected

    def __str__(self):
        if self.code:
            return f"error {self.code}: {self.message}"
        if self.rows is None:
            return f"{self.affected} rows affected"
        return f"{len(self.rows)} rows"


class Reader:
    def __init__(self, packet):
        self.packet = packet
        self.at = 0

    def integer(self):
        """A length-encoded integer; None for NULL."""
        first = self.packet[self.at]
        self.at += 1
        if first < 251:
            return first
        if first == 251:
            return None
        size = {252: 2, 253: 3, 254: 8}[first]
        value = int.from_bytes(self.packet[self.at : self.at + size], "little")
        self.at += size
        return value

    def string(self):
        """A length-encoded string; None for NULL."""
        length = self.integer()
        if length is None:
            return None
        value = self.packet[self.at : self.at + length]
        self.at += length
        return value


class Connection:
    def __init__(self, path, database=""):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.settimeout(REPLY_S_MAX)
        try:
            self.stream.connect(path)
        except OSError as error:
            raise Lost(str(error)) from error
        self.sequence = 0
        greeting = self.receive()
        if greeting[0] == 0xFF:
            raise Lost(self.failure(greeting).message)
        self.send(
            struct.pack("<IIB23x", CAPABILITIES, PACKET_BYTES_MAX, UTF8MB4_GENERAL_CI)
            + b"root\0"
            + b"\0"
            + database.encode()
            + b"\0mysql_native_password\0"
        )
        answer = self.receive()
        if answer[0] == 0xFE:
            self.send(b"")
            answer = self.receive()
        if answer[0] == 0xFF:
            raise Lost(self.failure(answer).message)

    def close(self):
        self.stream.close()

    def send(self, payload):
        header = len(payload).to_bytes(3, "little") + bytes([self.sequence])
        self.sequence = (self.sequence + 1) & 0xFF
        try:
            self.stream.sendall(header + payload)
        except OSError as error:
            raise Lost(str(error)) from error

    def exactly(self, length):
        parts = bytearray()
        while len(parts) < length:
            try:
                part = self.stream.recv(length - len(parts))
            except OSError as error:
                raise Lost(str(error)) from error
            if not part:
                raise Lost("the server closed the connection")
            parts += part
        return bytes(parts)

    def receive(self):
        header = self.exactly(4)
        self.sequence = (header[3] + 1) & 0xFF
        return self.exactly(int.from_bytes(header[:3], "little"))

    @staticmethod
    def failure(packet):
        text = packet[9:] if packet[3:4] == b"#" else packet[3:]
        return Reply(code=struct.unpack_from("<H", packet, 1)[0], message=text.decode(errors="replace"))

    def query(self, statement):
        """Runs one statement, which gives one result."""
        self.sequence = 0
        self.send(bytes([COM_QUERY]) + statement.encode())
        return self.reply()

    def reply(self):
        packet = self.receive()
        if packet[0] == 0xFF:
            return self.failure(packet)
        if packet[0] == 0:
            reader = Reader(packet)
            reader.at = 1
            return Reply(affected=reader.integer())
        columns = Reader(packet).integer()
        for _ in range(columns + 1):
            self.receive()
        rows = []
        while True:
            packet = self.receive()
            if packet[0] == 0xFF:
                return self.failure(packet)
            if packet[0] == 0xFE and len(packet) < 9:
                return Reply(rows=rows)
            reader = Reader(packet)
            rows.append(tuple(reader.string() for _ in range(columns)))


def must(connection, statement):
    reply = connection.query(statement)
    if reply.code:
        raise Failed(f"{statement[:200]}: {reply}")
    return reply

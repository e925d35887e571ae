"""SETs over a Unix socket at a rate. Prints p50 and p99 in milliseconds, from the moment at which each should
have begun, and how many a second were done.

load-redis.py SOCKET RATE SECONDS
"""

import random
import socket
import sys
import threading
import time

CONNECTIONS = 4
VALUE = b"v" * 400


def run(path, interval, until, times):
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    due = time.monotonic() + random.random() * interval
    while due < until:
        time.sleep(max(0.0, due - time.monotonic()))
        key = b"set:%06d" % random.randrange(10_000)
        client.sendall(
            b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(VALUE), VALUE)
        )
        answer = client.recv(64)
        if answer != b"+OK\r\n":
            sys.exit(f"unexpected: {answer!r}")
        times.append(time.monotonic() - due)
        due += interval


def main():
    path, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    times = []
    until = time.monotonic() + seconds
    interval = CONNECTIONS / rate
    threads = [
        threading.Thread(target=run, args=(path, interval, until, times)) for _ in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times.sort()
    share = lambda part: 1000 * times[min(len(times) - 1, int(part * len(times)))]
    print(f"{share(0.5):.3f} {share(0.99):.3f} {len(times) / seconds:.1f}")


main()

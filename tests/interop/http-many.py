#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""http-many.py PORT PID: ten thousand connections at a time, or as many as this process
may have, three times, to the server PID at PORT, which has www/small.txt; each asks twice.
Prints what is wrong, and fails."""
import os
import resource
import socket
import sys
import time

port, pid = int(sys.argv[1]), int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
N = min(9900, hard - 200)


def status(key):
    with open(f'/proc/{pid}/status') as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key))


def descriptors():
    return len(os.listdir(f'/proc/{pid}/fd'))


def check(holds, what):
    if not holds:
        sys.exit(what)


# From addresses of its own each time: ports of connections that have ended stay in use.
def connect(n=0):
    return socket.create_connection(('127.0.0.1', port), 60,
                                    (f'127.1.{n}.{pid % 250 + 1}', 0))


def ask(clients):
    for s in clients:
        s.sendall(b'GET /small.txt HTTP/1.1\r\nHost: x\r\n\r\n')
    for s in clients:
        got = b''
        while not got.endswith(b'\r\n\r\nsmall\n'):
            more = s.recv(4096)
            check(more, f'an answer is cut: {got}')
            got += more


one = connect()
ask([one])
fds, memory, grown = descriptors(), status('VmRSS'), []
for n in range(3):
    clients = []
    while len(clients) < N:
        some = [connect(n) for _ in range(100)]
        ask(some)
        clients += some
    ask(clients)
    check(descriptors() >= N, 'they are not all there')
    check(status('Threads') <= 16, f'{status("Threads")} threads')
    grown.append(status('VmRSS') - memory)
    for s in clients:
        s.close()
    ask([one])
    for _ in range(2000):
        if descriptors() <= fds:
            break
        time.sleep(0.01)
    check(descriptors() <= fds, f'{descriptors()} descriptors, {fds} before')
check(grown[-1] <= N * 100, f'{grown[-1] / N} KiB for each')
check(grown[-1] <= grown[-2] * 1.1, f'{grown} KiB: it grows')

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients and targets of a proxy at once: many, slow, talkative, rude.

usage: weir-proxy.py talk|idle|slow|resets|queue FRONT-PORT BACK-PORT N
       weir-proxy.py ports

"ports" names two that are free.  All others listen at BACK-PORT themselves, and exit with
0 if everything came through as it was said.
"""
import os
import resource
import selectors
import socket
import struct
import sys
import threading
import time

HERE = "127.0.0.1"


class Fixture:
    """Where the proxy is, and who it goes to."""

    def __init__(self, front, back):
        self.front = (HERE, front)
        self.listener = socket.create_server((HERE, back), backlog=4096)

    def pair(self):
        """A client, and the end that the target has of it."""
        client = socket.create_connection(self.front, timeout=10)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = self.listener.accept()[0]
        server.settimeout(10)
        return client, server


def pass_on(a, b, data):
    """Say @data at @a; it must come out at @b."""
    a.sendall(data)
    got = b""
    while len(got) < len(data):
        more = b.recv(len(data) - len(got))
        assert more, "the end came early"
        got += more
    assert got == data, "other bytes came out"


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                    struct.pack("ii", 1, 0))
    sock.close()


def is_reset(sock):
    """Whatever was on its way comes first."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return False


def talk(fixture, n):
    """A person at a terminal: a key, its echo, the next key; many of them."""
    pairs = [fixture.pair() for _ in range(8)]
    begin = time.monotonic()
    for key in range(n):
        for client, server in pairs:
            pass_on(client, server, bytes([key % 256]))
            pass_on(server, client, bytes([key % 256]))
    took = (time.monotonic() - begin) / n / len(pairs)
    print(f"# {took * 1e6:.0f} us for a key and its echo")
    for client, server in pairs:
        client.shutdown(socket.SHUT_WR)
        assert server.recv(1) == b"", "the end did not come"
        pass_on(server, client, b"bye")


def idle(fixture, n):
    """Thousands who say nothing, and one in between who does."""
    pairs = [fixture.pair() for _ in range(n)]
    for at in (0, n // 2, n - 1):
        pass_on(*pairs[at], b"x" * 100000)
        pass_on(*reversed(pairs[at]), b"y" * 100000)
    for client, server in pairs[::2]:
        reset(client)
        assert is_reset(server), "a reset was not passed on"
    for client, server in pairs[1::2]:
        client.close()
        assert server.recv(1) == b"", "the end did not come"
        server.close()


def slow(fixture, n):
    """One reads a little at a time; the others notice nothing."""
    client, server = fixture.pair()
    data = os.urandom(n)
    sender = threading.Thread(target=server.sendall, args=(data,))
    server.settimeout(None)
    sender.start()
    others = [fixture.pair() for _ in range(4)]
    worst, got = 0, []
    while sum(map(len, got)) < n:
        got.append(client.recv(1 << 18))
        for pair in others:
            begin = time.monotonic()
            pass_on(*pair, b"z" * 1000)
            worst = max(worst, time.monotonic() - begin)
    sender.join()
    assert b"".join(got) == data, "other bytes came out"
    print(f"# at most {worst * 1e3:.1f} ms for the others")


def flood(sock, stop):
    """Say as much as is taken, until @stop."""
    sock.setblocking(False)
    poll = selectors.DefaultSelector()
    poll.register(sock, selectors.EVENT_WRITE)
    while not stop.is_set():
        if poll.select(0.05):
            try:
                sock.send(b"f" * 65536)
            except OSError:
                return


def resets(fixture, n):
    """In silence, after a word, in the middle of much, after half a close."""
    for turn in range(n):
        client, server = fixture.pair()
        if turn & 1:
            client, server = server, client
        phase = turn // 2 % 4
        if phase == 1:
            pass_on(client, server, b"a word")
        elif phase == 2:
            stop = threading.Event()
            writer = threading.Thread(target=flood, args=(server, stop))
            writer.start()
            client.recv(100000)
            reset(client)
            writer.join(10)
            assert not writer.is_alive(), "nobody was told"
            server.close()
            continue
        elif phase == 3:
            server.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b"", "the end did not come"
        reset(client)
        assert is_reset(server), f"phase {phase}: a reset was not passed on"
        server.close()


def serve_all(taken):
    for server in taken:
        server.settimeout(10)
        assert server.recv(1) == b"?", "another word"
        server.sendall(b"!")
        server.close()
    taken.clear()


def ask(client, answers):
    client.sendall(b"?")
    answers.append(client.recv(1))
    client.close()


def queue(fixture, n):
    """More than the proxy has descriptors for: who is too many waits."""
    answers = []
    clients = [threading.Thread(target=ask, args=(
        socket.create_connection(fixture.front, timeout=30), answers))
               for _ in range(n)]
    for client in clients:
        client.start()
    fixture.listener.settimeout(0.3)
    taken, most, tries = [], 0, 0
    for _ in range(n):
        while True:
            try:
                taken.append(fixture.listener.accept()[0])
                break
            except TimeoutError:
                tries += 1
                assert tries < 100, "nobody is served any more"
                most = max(most, len(taken))
                serve_all(taken)
    serve_all(taken)
    for client in clients:
        client.join()
    assert answers == [b"!"] * n, f"answers: {answers}"
    assert 0 < most < n, "all were served at a time"
    print(f"# {most} at a time")


def is_free(port):
    with socket.socket() as s:
        try:
            s.bind((HERE, port))
        except OSError:
            return False
    return True


def ports():
    # Not of those that are given to who connects: these begin at 32768.
    first = 10000 + os.getpid() % 2000 * 11
    print(*[p for p in range(first, first + 1000) if is_free(p)][:2])


def main():
    if sys.argv[1:] == ["ports"]:
        ports()
        return
    what, front, back = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    scenes = {"talk": talk, "idle": idle, "slow": slow, "resets": resets,
              "queue": queue}
    scenes[what](Fixture(front, back), int(sys.argv[4]))


if __name__ == "__main__":
    main()

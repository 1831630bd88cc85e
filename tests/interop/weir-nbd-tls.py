#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-nbd-tls.py PORT CASE [CA]: the handshake of NBD byte by byte, for what no client
does; prints why a case is wrong, and fails."""
import socket
import ssl
import struct
import sys

OPTION = 0x49484156454f5054
EXPORT_NAME, ABORT, LIST, STARTTLS, GO, STRUCTURED = 1, 2, 3, 5, 7, 8
ACK, ERR_INVALID, TLS_REQD = 1, 0x80000003, 0x80000005
port, case = int(sys.argv[1]), sys.argv[2]
ca = sys.argv[3] if len(sys.argv) > 3 else None


def exactly(s, n):
    got = b''
    while len(got) < n:
        more = s.recv(n - len(got))
        if not more:
            raise EOFError
        got += more
    return got


def connect():
    s = socket.create_connection(('127.0.0.1', port), timeout=20)
    exactly(s, 18)
    s.sendall(struct.pack('>I', 3))
    return s


def ask(s, option, data=b''):
    s.sendall(struct.pack('>QII', OPTION, option, len(data)) + data)


def answer(s):
    """The type of the next reply, and its data."""
    _, _, kind, n = struct.unpack('>QIII', exactly(s, 20))
    return kind, exactly(s, n)


def last(s):
    kind = 2
    while kind in (2, 3, 4):
        kind, _ = answer(s)
    return kind


def wrap(s):
    context = ssl.create_default_context(cafile=ca)
    return context.wrap_socket(s, server_hostname='localhost',
                               suppress_ragged_eofs=False)


def secure():
    s = connect()
    ask(s, STARTTLS)
    check(answer(s)[0] == ACK, 'STARTTLS is refused')
    return wrap(s)


def go(s, name):
    ask(s, GO, struct.pack('>I', len(name)) + name + struct.pack('>H', 0))
    return last(s)


def request(s, kind, off, n, data=b''):
    s.sendall(struct.pack('>IHHQQI', 0x25609513, 0, kind, 7, off, n) + data)


def check(holds, what):
    if not holds:
        sys.exit(what)


def is_cut(s):
    try:
        return not s.recv(1)
    except OSError:
        return True


def only_tls_is_allowed_before():
    s = connect()
    for option in LIST, GO, STRUCTURED, 77:
        ask(s, option)
        check(answer(s)[0] == TLS_REQD, f'option {option} is answered')
    ask(s, ABORT)
    check(answer(s)[0] == ACK, 'no ABORT')
    check(is_cut(s), 'it is not the end')
    s = connect()
    ask(s, EXPORT_NAME)
    check(is_cut(s), 'an export is served')


# What was sent plainly, perhaps by somebody on the way, is no part of what follows.
def bytes_behind_starttls_are_no_options():
    s = connect()
    s.sendall(struct.pack('>QII', OPTION, STARTTLS, 0) +
              struct.pack('>QII', OPTION, LIST, 0))
    check(answer(s)[0] == ACK, 'no STARTTLS')
    try:
        wrap(s)
    except (ssl.SSLError, OSError):
        return
    sys.exit('the handshake is done')


# A hello that does not wait for the answer is welcome.
def handshake_may_come_at_once():
    s = connect()
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    t = ssl.create_default_context(cafile=ca).wrap_bio(
        into, out, server_hostname='localhost')
    try:
        t.do_handshake()
    except ssl.SSLWantReadError:
        pass
    s.sendall(struct.pack('>QII', OPTION, STARTTLS, 0) + out.read())
    check(answer(s)[0] == ACK, 'no STARTTLS')
    while True:
        try:
            t.do_handshake()
            break
        except ssl.SSLWantReadError:
            into.write(s.recv(65536))
    # And it was not taken for an option.
    t.write(struct.pack('>QII', OPTION, LIST, 0))
    s.sendall(out.read())
    while True:
        try:
            check(t.read(20)[:8] == struct.pack('>Q', 0x3e889045565a9), 'no list')
            break
        except ssl.SSLWantReadError:
            into.write(s.recv(65536))


def choices_of_before_are_forgotten():
    s = connect()
    ask(s, STRUCTURED)
    check(answer(s)[0] == ACK, 'no structured replies')
    ask(s, STARTTLS)
    check(answer(s)[0] == ACK, 'no STARTTLS')
    s = wrap(s)
    check(go(s, b'file') == ACK, 'no export')
    request(s, 0, 0, 512)
    check(exactly(s, 4) == struct.pack('>I', 0x67446698), 'no simple reply')


def tls_is_not_begun_twice():
    s = secure()
    ask(s, STARTTLS)
    check(answer(s)[0] == ERR_INVALID, 'it is')
    check(go(s, b'file') == ACK, 'and nothing is served')


# Python would fail if it was a cut.
def end_is_said():
    s = secure()
    ask(s, ABORT)
    check(answer(s)[0] == ACK, 'no ABORT')
    check(s.recv(1) == b'', 'bytes behind the end')
    s = secure()
    check(go(s, b'file') == ACK, 'no export')
    request(s, 0, 0, 1 << 20)
    request(s, 2, 0, 0)
    check(len(exactly(s, 16 + (1 << 20))) == 16 + (1 << 20), 'no reply')
    check(s.recv(1) == b'', 'bytes behind the end')


def clients_that_are_cut_leave_nothing():
    for n in 0, 1, 5, 1000, 70000, 200000:
        s = secure()
        check(go(s, b'file') == ACK, 'no export')
        request(s, 1, 0, 256 << 10, bytes(n))
        s.close()
        s = secure()
        s.close()
        s = connect()
        ask(s, STARTTLS)
        s.close()


# A handshake of TLS that stops has its time with what was before it.
def slow_handshake_is_cut():
    s = connect()
    ask(s, STARTTLS)
    check(answer(s)[0] == ACK, 'no STARTTLS')
    s.sendall(b'\x16\x03\x01\x02')
    check(is_cut(s), 'it is not')


globals()[case]()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Both ends of connections through weir-proxy, for test-weir-proxy-tls.sh.

    serve                       prints a port, sends back what it gets, and prints
                                how each connection ends: "end" or "reset"
    talk PORT BYTES [OPTION...] sends random bytes, wants them back, and ends
    cut PORT [OPTION...]        the same with ten, then it resets the connection
    hold PORT [OPTION...]       says "ready", and waits for the end: "end" or "reset"
    break PORT --target PORT [OPTION...]
                                a target that does not read is reset after it has
                                sent, and its client gets "end" or "reset"

    --ca FILE                   speak TLS, with a server by this
    --name NAME                 which is called so (server.test)
    --cert FILE                 with this certificate and key
    --alpn NAME                 and have this protocol chosen
    --header TEXT               say that first, in the clear
"""
import argparse
import os
import socket
import ssl
import struct
import sys
import threading


def serve():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def echo(s):
        how = "end"
        try:
            while data := s.recv(1 << 16):
                s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            how = "reset"
        s.close()
        print(how, flush=True)

    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],),
                         daemon=True).start()


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def connect(o):
    s = socket.create_connection(("127.0.0.1", o.port), 20)
    s.settimeout(20)
    s.sendall(o.header.replace("\\r\\n", "\r\n").encode())
    if not o.ca:
        return s
    ctx = ssl.create_default_context(cafile=o.ca)
    if o.cert:
        ctx.load_cert_chain(o.cert)
    if o.alpn:
        ctx.set_alpn_protocols([o.alpn])
    s = ctx.wrap_socket(s, server_hostname=o.name, suppress_ragged_eofs=False)
    if s.selected_alpn_protocol() != o.alpn:
        sys.exit("another protocol was chosen")
    return s


def exchange(s, n):
    # By one thread: ssl does not take two.  Buffers on the way hold what is not read.
    data = os.urandom(n)
    got = bytearray()
    sent = 0
    while len(got) < n:
        if sent < n and sent - len(got) < 1 << 17:
            sent += s.send(data[sent:sent + (1 << 14)])
            continue
        more = s.recv(1 << 16)
        if not more:
            sys.exit("it ended after %d bytes" % len(got))
        got += more
    if got != data:
        sys.exit("other bytes came back")


def talk(o):
    s = connect(o)
    exchange(s, o.bytes)
    if o.ca:
        # Also waits for the close_notify of the other side.
        s = s.unwrap()
    else:
        s.shutdown(socket.SHUT_WR)
        if s.recv(1):
            sys.exit("more bytes came back")
    s.close()
    print("ok")


def cut(o):
    s = connect(o)
    exchange(s, 10)
    reset(socket.socket(fileno=s.detach()))


def hold(o):
    s = connect(o)
    exchange(s, 10)
    print("ready", flush=True)
    # Below TLS, for ssl tells a reset as an end.
    s = socket.socket(fileno=s.detach())
    s.settimeout(30)
    try:
        print("more" if s.recv(1) else "end")
    except OSError:
        print("reset")


def break_(o):
    listener = socket.create_server(("127.0.0.1", o.target))
    s = connect(o)
    target = listener.accept()[0]
    s.settimeout(0.2)
    try:
        while s.send(bytes(1 << 14)):
            pass
    except TimeoutError:
        pass
    target.sendall(b"x")
    reset(target)
    s.settimeout(20)
    try:
        while s.recv(1 << 16):
            pass
        print("end")
    except OSError:
        print("reset")


p = argparse.ArgumentParser()
p.add_argument("what", choices=["serve", "talk", "cut", "hold", "break"])
p.add_argument("port", type=int, nargs="?")
p.add_argument("bytes", type=int, nargs="?", default=10)
p.add_argument("--ca")
p.add_argument("--name", default="server.test")
p.add_argument("--cert")
p.add_argument("--alpn")
p.add_argument("--header", default="")
p.add_argument("--target", type=int)
options = p.parse_args()
try:
    {"serve": lambda o: serve(), "talk": talk, "cut": cut, "hold": hold,
     "break": break_}[options.what](options)
except (OSError, ssl.SSLError) as err:
    sys.exit("%s: %s" % (type(err).__name__, err))

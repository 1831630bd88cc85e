#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-proxy beside haproxy, nginx and socat: requests, bulk, idle memory.

Run it in the build directory.  wrk asks, through each proxy in turn, an nginx
that answers at once; iperf3 sends through it; and then clients connect and say
nothing.  The proxy has a CPU of its own and all others share the next, so what
compares proxies is the CPU that they take, as well as what comes through.
What is not installed is left out.
"""
import argparse
import multiprocessing
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time


def free_ports(n):
    """Ports that nobody has just now."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in taken]
    for s in taken:
        s.close()
    return ports


FRONT, HTTP, BULK = free_ports(3)
FDS_OTHER = 100  # Of a proxy, besides two for each connection.
TICK = os.sysconf("SC_CLK_TCK")

NGINX_HTTP = """
daemon off; worker_processes 1; pid {dir}/http.pid; error_log {dir}/http.err;
events {{ worker_connections 30000; }}
http {{
    access_log off;
    client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;
    fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    keepalive_requests 100000000;
    server {{
        listen 127.0.0.1:{http} backlog=4096;
        location / {{ return 200 "{body}"; }}
    }}
}}
"""

NGINX_STREAM = """
{module}
daemon off; worker_processes {cores}; pid {dir}/s.pid; error_log {dir}/s.err;
events {{ worker_connections 30000; }}
stream {{
    server {{
        listen 127.0.0.1:{front} backlog=4096;
        proxy_buffer_size {buffer}; tcp_nodelay on;
        proxy_pass 127.0.0.1:{to};
    }}
}}
"""

HAPROXY = """
global
    nbthread {cores}
    maxconn {conns}
defaults
    mode tcp
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    {splice}
listen l
    bind 127.0.0.1:{front} backlog 4096
    server s 127.0.0.1:{to}
"""


class Proxies:
    """How each is started; a method returns its command, or None."""

    def __init__(self, where, args):
        self.dir, self.cores = where, args.cores
        self.program = os.path.abspath(args.weir)
        self.conns = args.idle + 10

    def _file(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        return path

    def _weir(self, backend, to, *more):
        return ["env", "WEIR_BACKEND=" + backend, self.program, "-n",
                str(self.cores), "-s", f"connections {self.conns}", *more,
                f"127.0.0.1:{FRONT}", f"127.0.0.1:{to}"]

    def weir(self, to):
        return self._weir("uring", to)

    def weir_copies(self, to):
        return self._weir("uring", to, "-s", "splice 0")

    def weir_large(self, to):
        return self._weir("uring", to, "-s", "splice 0", "-s",
                          "buffer 1048576")

    def weir_ev(self, to):
        return self._weir("ev", to)

    def haproxy(self, to, splice=""):
        if not shutil.which("haproxy"):
            return None
        text = HAPROXY.format(cores=self.cores, front=FRONT, to=to,
                              splice=splice, conns=self.conns)
        return ["haproxy", "-q", "-db", "-f", self._file("haproxy", text)]

    def haproxy_splice(self, to):
        return self.haproxy(to, "option splice-request\n    option splice-response")

    def nginx(self, to, buffer="64k"):
        modules = ["/usr/lib/nginx/modules/ngx_stream_module.so"]
        if not shutil.which("nginx") or not os.path.exists(modules[0]):
            return None
        text = NGINX_STREAM.format(
            cores=self.cores, front=FRONT, to=to, dir=self.dir,
            buffer=buffer, module=f"load_module {modules[0]};")
        return ["nginx", "-c", self._file("stream", text)]

    def nginx_large(self, to):
        return self.nginx(to, "1m")

    def socat(self, to):
        if not shutil.which("socat"):
            return None
        return ["socat", "-b", "65536",
                f"TCP-LISTEN:{FRONT},bind=127.0.0.1,fork,reuseaddr,"
                "nodelay,backlog=4096", f"TCP:127.0.0.1:{to},nodelay"]


NAMES = ("weir", "weir_copies", "weir_large", "weir_ev", "haproxy",
         "haproxy_splice", "nginx", "nginx_large", "socat")


def await_port(port):
    """Without a connection, which a proxy would count."""
    listens = f"0100007F:{port:04X} 00000000:0000 0A"
    for _ in range(500):
        with open("/proc/net/tcp", encoding="ascii") as sockets:
            if listens in sockets.read():
                return
        time.sleep(0.01)
    raise SystemExit(f"nobody listens at {port}")


def spawn(command, cpus):
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: (os.sched_setaffinity(0, cpus), os.setsid()))


def end(child):
    os.killpg(child.pid, signal.SIGINT)
    time.sleep(0.1)
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def group_of(pid):
    """The processes of a session: a proxy may fork."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getsid(int(name)) == pid:
                found.append(name)
        except OSError:
            pass
    return found


def cpu_of(pid):
    """Seconds of CPU, children that have ended included."""
    ticks = 0
    for name in group_of(pid):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii") as stat:
                ticks += sum(map(int, stat.read().split()[13:17]))
        except OSError:
            pass
    return ticks / TICK


def memory_of(pid):
    """KiB that are its own, or its share of what is shared."""
    kib = 0
    for name in group_of(pid):
        try:
            with open(f"/proc/{name}/smaps_rollup", encoding="ascii") as maps:
                kib += int(re.search(r"Pss: +(\d+)", maps.read()).group(1))
        except OSError:
            pass
    return kib


UNIT = {"us": 1e-3, "ms": 1, "s": 1e3}


def refuse_errors(out):
    """A proxy that drops requests, or answers otherwise, has no rate."""
    wrong = re.search(r"(Socket errors|Non-2xx or 3xx responses): .*", out)
    if wrong:
        raise SystemExit(f"wrk: {wrong.group(0)}")


def requests(child, rest, args):
    before = cpu_of(child.pid)
    out = subprocess.run(
        ["taskset", "-c", ",".join(map(str, rest)), "wrk", "-t1",
         f"-c{args.connections}", f"-d{args.seconds}", "--latency",
         f"http://127.0.0.1:{FRONT}/"],
        capture_output=True, text=True, check=True).stdout
    cpu = cpu_of(child.pid) - before
    refuse_errors(out)
    done = int(re.search(r"(\d+) requests in", out).group(1)) or 1
    rate = float(re.search(r"Requests/sec: +([\d.]+)", out).group(1))
    p99 = re.search(r"99% +([\d.]+)(us|ms|s)", out)
    return (f"{rate:9.0f} requests/s  p99 "
            f"{float(p99.group(1)) * UNIT[p99.group(2)]:7.2f} ms  "
            f"{cpu / done * 1e6:6.2f} us of CPU each")


def bulk(child, rest, args):
    before = cpu_of(child.pid)
    out = subprocess.run(
        ["taskset", "-c", ",".join(map(str, rest)), "iperf3", "-c",
         "127.0.0.1", "-p", str(FRONT), "-t", str(args.seconds), "-f", "M",
         "-P", str(args.streams)],
        capture_output=True, text=True, check=True).stdout
    cpu = cpu_of(child.pid) - before
    rates = re.findall(r"([\d.]+) MBytes/sec .*receiver", out)
    gb = float(rates[-1]) * 1.048576e-3
    return (f"{gb:9.2f} GB/s  {cpu / (gb * args.seconds):6.3f} s of CPU "
            "for a GB")


def take(listener, n, taken):
    """The other ends, in a process of its own: so has each descriptors for all."""
    ends = [listener.accept()[0] for _ in range(n)]
    taken.set()
    signal.pause()
    del ends


def idle(child, rest, args):
    """Connections that say nothing."""
    del rest
    listener = socket.create_server(("127.0.0.1", BULK), backlog=4096)
    taken = multiprocessing.Event()
    target = multiprocessing.Process(target=take, daemon=True,
                                     args=(listener, args.idle, taken))
    before = memory_of(child.pid)
    target.start()
    listener.close()
    ends = [socket.create_connection(("127.0.0.1", FRONT))
            for _ in range(args.idle)]
    if not taken.wait(10):
        raise SystemExit("not all connections came through")
    time.sleep(0.5)
    kib = memory_of(child.pid) - before
    target.kill()
    target.join()
    for each in ends:
        each.close()
    return f"{kib / args.idle:9.2f} KiB for an idle connection, of {args.idle}"


# What is measured: the port of the target, and who is there.
WHAT = {"requests": (requests, HTTP), "bulk": (bulk, BULK),
        "idle": (idle, BULK)}


def target(what, where, rest):
    if what == "idle":
        return None
    if what == "bulk":
        return spawn(["iperf3", "-s", "-B", "127.0.0.1", "-p", str(BULK)],
                     rest)
    path = os.path.join(where, "http")
    with open(path, "w", encoding="ascii") as out:
        out.write(NGINX_HTTP.format(dir=where, http=HTTP, body="x" * 100))
    return spawn(["nginx", "-c", path], rest)


def measure(what, proxies, name, args):
    fn, port = WHAT[what]
    command = getattr(proxies, name)(port)
    if not command or (name == "socat" and what == "idle"):
        return
    cpus = sorted(os.sched_getaffinity(0))
    mine, rest = set(cpus[:args.cores]), set(cpus[1:] or cpus)
    server = target(what, proxies.dir, rest)
    child = spawn(command, mine)
    try:
        if server:
            await_port(port)
        await_port(FRONT)
        time.sleep(0.2)
        print(f"{what:9} {name:15}{fn(child, rest, args)}", flush=True)
    finally:
        end(child)
        if server:
            end(server)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("what", nargs="*", default=list(WHAT), help="requests, bulk, idle")
    add("--only", nargs="*", default=list(NAMES), help="these proxies")
    add("--cores", type=int, default=1, help="of the proxy")
    add("--connections", type=int, default=64)
    add("--streams", type=int, default=2)
    add("--seconds", type=int, default=3)
    add("--idle", type=int, default=5000)
    add("--times", type=int, default=1)
    add("--weir", default="programs/weir-proxy/weir-proxy")
    args = parser.parse_args()
    limit = 2 * args.idle + FDS_OTHER
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    os.environ["LC_ALL"] = "C"
    with tempfile.TemporaryDirectory() as where:
        proxies = Proxies(where, args)
        for what in args.what:
            for _ in range(args.times):
                for name in args.only:
                    measure(what, proxies, name, args)


if __name__ == "__main__":
    main()

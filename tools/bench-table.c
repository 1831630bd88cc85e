/* SPDX-License-Identifier: BSD-3-Clause */

/* The programs that weir bench runs, and what pictures of their figures show. */

#include <string.h>

#include "bench.h"

#define N_OF(a) (sizeof(a) / sizeof((a)[0]))

const struct program programs[] = {
	{
		.name = "nop",
		.measures = "an operation, submit to callback; a deferred "
			    "callback",
		.beside = "liburing, a bare list",
		.takes = "backend depth",
		.question = "What does an operation cost, from submit to "
			    "callback?",
		.bare = "liburing|bare list",
		.cases = "nop, batch 1|nop, batch 32|nop, batch 256|"
			 "defer, batch 256",
	}, {
		.name = "buf",
		.measures = "a buffer taken and given back, here and on "
			    "another core",
		.beside = "rte_mempool",
		.takes = "",
		.question = "What does it cost to take a buffer and give it "
			    "back?",
		.ours = "pool|inventory|store",
		.cases = "get+put, depth 1|get+put, depth 32|"
			 "get+put, depth 256",
	}, {
		.name = "bounce",
		.measures = "a transfer that goes through staging",
		.beside = "pull plus push",
		.takes = "",
		.question = "What does staging cost, beside a pull and a push "
			    "alone?",
		.ours = "bounce|pull",
	}, {
		.name = "copy",
		.measures = "jobs of the cpu engine, copy and CRC",
		.beside = "memcpy, ISA-L, streaming stores, dmadev",
		.takes = "size",
		.question = "How fast is a copy as a job, alone and with a "
			    "CRC?",
		.ours = "job|chain|copy alone",
		.bare = "bare|streamed",
		.omit = "copy alone",
		.cases = "copy 64 KiB|copy 4 KiB|copy 1 MiB|copy 64 MiB|"
			 "copy+crc32c 4 KiB|copy+crc32c 64 KiB|"
			 "copy+crc32c 64 MiB|memzero 64 KiB",
	}, {
		.name = "accel",
		.measures = "kinds of jobs: compression, encryption, checksums",
		.beside = "zlib, libzstd, OpenSSL",
		.takes = "",
		.question = "How fast are compression, encryption and "
			    "checksums as jobs?",
		.ours = "job|4 jobs",
		.cases = "gzip, level 1, 1 MiB|gunzip, 1 MiB|"
			 "zstd, level 3, 1 MiB|AES-256-XTS, 64 KiB|"
			 "CRC-64 NVMe, 64 KiB",
	}, {
		.name = "large",
		.measures = "how late a timer is beside copies of 1 GiB; two "
			    "workers",
		.beside = "one worker, two threads",
		.takes = "",
		.question = "Do large copies delay the loop, and are two "
			    "workers as fast as two threads?",
		.ours = "two workers|copying|worker|one worker|idle",
		.bare = "thread|one thread|two threads",
		.cases = "copies of 64 MiB|lateness, p99.9|lateness, p50",
	}, {
		.name = "timer",
		.measures = "timers set, moved, stopped and expired",
		.beside = "libev, libuv",
		.takes = "depth",
		.question = "What do timers cost, 100,000 and a million?",
		.cases = "re-arm, 100000 timers|insert, 100000 timers|"
			 "extend, 100000 timers|cancel, 100000 timers|"
			 "expire, 100000 timers|re-arm, 1000000 timers|"
			 "insert, 1000000 timers|expire, 1000000 timers",
	}, {
		.name = "pipe",
		.measures = "readiness of many pipes",
		.beside = "epoll, libev, libuv",
		.takes = "",
		.question = "What does an event of a pipe among many cost?",
		.ours = "weir uring|weir",
		.bare = "epoll",
		.cases = "1000 pipes, 100 active|100 pipes, 1 active|"
			 "100 pipes, 10 active|9900 pipes, 100 active",
	}, {
		.name = "echo",
		.measures = "TCP echo over loopback, on one core and two",
		.beside = "epoll, liburing, libev, libuv, libevent",
		.takes = "backend depth cores",
		.question = "How many requests per second does a TCP echo "
			    "server answer?",
		.ours = "weir uring|weir",
		.bare = "epoll|liburing",
		.omit = "weir, two cores|epoll, two cores",
		.cases = "64 connections|1 connections|4 connections|"
			 "1000 connections",
		.curve = "64 connections",
	}, {
		.name = "post",
		.measures = "messages between two threads",
		.beside = "eventfd, libev, libuv, rte_ring",
		.takes = "backend depth",
		.question = "What does a message between two threads cost?",
		.ours = "weir uring|weir",
		.bare = "rte_ring",
		.cases = "round trip, 8 in flight|round trip, 1 in flight|"
			 "round trip, 64 in flight|flood",
	}, {
		.name = "call",
		.measures = "calls and posts between the cores of a group",
		.beside = "libuv, io_uring's messages, eventfd",
		.takes = "depth",
		.question = "What does a call between two cores cost?",
		.bare = "bare ring",
		.cases = "call, 64 in flight|call, 1 in flight|"
			 "call, 8 in flight|call, 256 in flight|posts|"
			 "p99 after a gap of 5 us|p99 after a gap of 20 us|"
			 "p99 after a gap of 40 us|asleep|one CPU",
		.curve = "after a gap of 40 us",
	}, {
		.name = "read",
		.measures = "random reads of 4 KiB, cached and O_DIRECT",
		.beside = "pread, liburing",
		.takes = "backend depth",
		.question = "How fast are random reads of 4 KiB?",
		.ours = "weir uring|weir",
		.bare = "pread|liburing",
		.cases = "cached, depth 32, rate|cached, depth 1, rate|"
			 "O_DIRECT, depth 1, rate|O_DIRECT, depth 32, rate",
	}, {
		.name = "direct",
		.measures = "random reads from a disk that costs nothing "
			    "(root)",
		.beside = "liburing, fio",
		.takes = "",
		.question = "What does a read of 4 KiB cost, from a disk that "
			    "costs nothing?",
		.ours = "weir read|weir",
		.bare = "liburing",
	}, {
		.name = "register",
		.measures = "256 MiB registered, by the size of its pages",
		.beside = "liburing",
		.takes = "",
		.question = "How long does it take to register 256 MiB?",
		.bare = "liburing",
	}, {
		.name = "udp",
		.measures = "UDP echo: rate and CPU",
		.beside = "recvmmsg, libuv",
		.takes = "backend depth",
		.question = "How fast is a UDP server?",
		.ours = "weir uring|weir",
		.bare = "bare mmsg",
	}, {
		.name = "recv",
		.measures = "a stream received: rate and CPU",
		.beside = "liburing, recv, libuv",
		.takes = "backend",
		.question = "What does it take to receive a stream?",
		.ours = "weir uring|weir",
		.bare = "bare, bundles|recv",
	}, {
		.name = "http",
		.measures = "static files by HTTP",
		.beside = "nginx",
		.takes = "",
		.question = "How fast are files served by HTTP?",
		.ours = "43-http-files",
	}, {
		.name = "shared",
		.measures = "messages between two processes, in exported "
			    "memory",
		.beside = "UCX, libfabric",
		.takes = "",
		.question = "How fast are messages between two processes?",
		.bare = "bare ring",
	}, {
		.name = "late",
		.measures = "bytes that land after an operation has ended",
		.beside = "liburing, libuv, libfabric, UCX",
		.takes = "backend size endings",
	}, {
		.name = "sync",
		.measures = "sync events between threads and processes",
		.beside = "eventfd, pipe",
		.takes = "",
		.question = "What does a sync event cost, waited for and "
			    "unheard?",
		.ours = "weir uring|weir|uring, no spin|ev, no spin",
		.bare = "atomic add",
	}, {
		.name = "hook",
		.measures = "how late a loop learns of another library's "
			    "completions",
		.beside = "eventfd, UCX",
		.takes = "",
		.question = "How late does a loop learn of another library's "
			    "completion?",
		.ours = "weir uring|weir",
	}, {
		.name = "idle",
		.measures = "CPU of a loop that waits",
		.beside = "libev, libuv",
		.takes = "",
		.question = "How much of a CPU does a loop use that waits?",
		.ours = "weir uring|weir",
		.cases = "idle but for 10 Hz|idle",
	}, {
		.name = "start",
		.measures = "start of a program; memory of a core",
		.beside = "libev, libuv, a bare program",
		.takes = "",
		.question = "What does a program pay before it does anything?",
		.ours = "weir|weir uring|weir ev",
		.bare = "bare",
		.cases = "start|start, loop",
	}, {
		.name = "cuda",
		.measures = "copies to and from a GPU",
		.beside = "cuMemcpyAsync(), read and copy by hand",
		.takes = "",
		.question = "How fast do jobs copy to and from a GPU?",
		.ours = "weir job|weir|weir, no spin",
		.bare = "cuMemcpyAsync|by hand",
		.cases = "pinned, to, 1 MiB x 4|pinned, from, 1 MiB x 4|"
			 "pinned, to, 4 KiB x 32|pinned, from, 4 KiB x 32|"
			 "file, rate",
	}, {
		.name = "cp",
		.measures = "weir-cp, cached and O_DIRECT, small files, and compressing",
		.beside = "cp, dd, qemu-img, zstd, gzip",
		.takes = "",
		.question = "How fast does weir-cp copy files?",
		.cases = "cached, rate|cached, checksum, rate|O_DIRECT, rate|"
			 "O_DIRECT, CPU|small files, rate|to zstd, rate|"
			 "from zstd, rate|to gzip, rate",
	}, {
		.name = "nbd",
		.measures = "servers of block devices: memory, and a cached "
			    "file",
		.beside = "nbdkit, qemu-nbd, nbd-server; a bare server that maps the file",
		.takes = "",
		.question = "How fast does a block server answer?",
		.cases = "file, read 4 KiB, depth 32|"
			 "file, read 4 KiB, depth 1|"
			 "file, write 4 KiB, depth 32|file, nbdcopy to null|"
			 "file, read 4 KiB, depth 32, CPU|"
			 "memory, read 4 KiB, depth 1|"
			 "memory, read 4 KiB, depth 32|"
			 "memory, nbdcopy to null",
		.curve = "file, read 4 KiB, depth 32",
		.bare = "bare, mapped",
	}, {
		.name = "vhost",
		.measures = "a virtual machine's disk: a cached file, and past "
			    "the cache",
		.beside = "qemu-storage-daemon",
		.takes = "",
		.question = "How fast is a disk of a virtual machine?",
		.cases = "read 4 KiB, depth 32|read 4 KiB, depth 1|"
			 "write 4 KiB, depth 32|O_DIRECT, read, depth 32|"
			 "read 4 KiB, depth 32, CPU|"
			 "write 4 KiB, depth 32, CPU|"
			 "O_DIRECT, read, depth 32, CPU",
		.curve = "read 4 KiB, depth 32",
	}, {
		.name = "proxy",
		.measures = "weir-proxy: requests, bulk, idle connections",
		.beside = "haproxy, nginx, socat",
		.takes = "depth",
		.question = "How fast is a TCP proxy?",
	}, {
		.name = "fabric",
		.measures = "jobs over libfabric's tcp, between two processes",
		.beside = "libfabric",
		.takes = "",
		.question = "How fast are copies to another machine without "
			    "RDMA?",
		.bare = "libfabric",
		.cases = "write 1 MiB|read 1 MiB|write 8 B|read 8 B",
	}, {
		.name = "ublk",
		.measures = "block devices of this kernel (root, Linux 6.5)",
		.beside = "loop, nbd",
		.takes = "",
		.by_name = true,
		.question = "How fast is a block device of a server?",
	}, {
		.name = "nvme",
		.measures = "reads by NVMe passthrough (an NVMe device)",
		.beside = "fio",
		.takes = "depth",
		.by_name = true,
		.question = "What does a read from an NVMe device cost?",
		.bare = "bare ring",
	}, {
		.name = "channel",
		.measures = "RDMA completions (an RDMA device)",
		.beside = "verbs",
		.takes = "",
		.by_name = true,
		.question = "What does an RDMA completion cost?",
		.bare = "verbs",
	}, {
		.name = "rdma",
		.measures = "jobs over RDMA (an RDMA device)",
		.beside = "perftest",
		.takes = "",
		.by_name = true,
		.question = "How fast are jobs over RDMA?",
	},
};
const size_t n_programs = N_OF(programs);

const struct program *find_program(const char *name)
{
	for (size_t i = 0; i < n_programs; i++)
		if (!strcmp(programs[i].name, name))
			return &programs[i];
	return NULL;
}

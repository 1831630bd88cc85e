/* SPDX-License-Identifier: BSD-3-Clause */

/* The programs that weir bench runs. */

#include <string.h>

#include "bench.h"

#define N_OF(a) (sizeof(a) / sizeof((a)[0]))

const struct program programs[] = {
	{ "nop", "an operation, submit to callback; a deferred callback",
	  "liburing, a bare list", "backend depth", false },
	{ "buf", "a buffer taken and given back, here and on another core",
	  "rte_mempool", "", false },
	{ "bounce", "a transfer that goes through staging", "pull plus push",
	  "", false },
	{ "copy", "jobs of the cpu engine, copy and CRC",
	  "memcpy, ISA-L, streaming stores, dmadev", "size", false },
	{ "accel", "kinds of jobs: compression, encryption, checksums",
	  "zlib, libzstd, OpenSSL", "", false },
	{ "large", "how late a timer is beside copies of 1 GiB; two workers",
	  "one worker, two threads", "", false },
	{ "timer", "timers set, moved, stopped and expired", "libev, libuv",
	  "depth", false },
	{ "pipe", "readiness of many pipes", "epoll, libev, libuv", "",
	  false },
	{ "echo", "TCP echo over loopback, on one core and two",
	  "epoll, liburing, libev, libuv, libevent", "backend depth cores",
	  false },
	{ "post", "messages between two threads",
	  "eventfd, libev, libuv, rte_ring", "backend depth", false },
	{ "call", "calls and posts between the cores of a group",
	  "libuv, io_uring's messages, eventfd", "depth", false },
	{ "read", "random reads of 4 KiB, cached and O_DIRECT",
	  "pread, liburing", "backend depth", false },
	{ "direct", "random reads from a disk that costs nothing (root)",
	  "liburing, fio", "", false },
	{ "register", "256 MiB registered, by the size of its pages",
	  "liburing", "", false },
	{ "shared", "messages between two processes, in exported memory",
	  "UCX, libfabric", "", false },
	{ "late", "bytes that land after an operation has ended",
	  "liburing, libuv, libfabric, UCX", "backend size endings", false },
	{ "sync", "sync events between threads and processes",
	  "eventfd, pipe", "", false },
	{ "hook", "how late a loop learns of another library's completions",
	  "eventfd, UCX", "", false },
	{ "idle", "CPU of a loop that waits", "libev, libuv", "", false },
	{ "cp", "weir-cp, cached and O_DIRECT, and compressing",
	  "cp, dd, qemu-img, zstd, gzip", "", false },
	{ "nbd", "servers of block devices: memory, and a cached file",
	  "nbdkit, qemu-nbd, nbd-server", "", false },
	{ "proxy", "weir-proxy: requests, bulk, idle connections",
	  "haproxy, nginx, socat", "depth", false },
	{ "channel", "RDMA completions (an RDMA device)", "verbs", "", true },
	{ "rdma", "jobs over RDMA (an RDMA device)", "perftest", "", true },
};
const size_t n_programs = N_OF(programs);

const struct program *find_program(const char *name)
{
	for (size_t i = 0; i < n_programs; i++)
		if (!strcmp(programs[i].name, name))
			return &programs[i];
	return NULL;
}

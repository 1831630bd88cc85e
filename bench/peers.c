/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libraries that we are measured beside: which versions, and of those that
 * were not there when this was built, which package brings them.
 */

#include <weir/base.h>

#ifdef HAVE_LIBEV
#include <ev.h>
#define EV_STRING_OF(n) #n
#define EV_STRING(n) EV_STRING_OF(n)
#define LIBEV_VERSION \
	EV_STRING(EV_VERSION_MAJOR) "." EV_STRING(EV_VERSION_MINOR)
#endif

#include "bench/bench.h"

#ifndef LIBEV_VERSION
#define LIBEV_VERSION ""
#endif
#ifndef BENCH_LIBUV_VERSION
#define BENCH_LIBUV_VERSION ""
#endif
#ifndef BENCH_LIBEVENT_VERSION
#define BENCH_LIBEVENT_VERSION ""
#endif
#ifndef BENCH_DPDK_VERSION
#define BENCH_DPDK_VERSION ""
#endif
#ifndef BENCH_ISAL_VERSION
#define BENCH_ISAL_VERSION ""
#endif
#ifndef BENCH_LIBFABRIC_VERSION
#define BENCH_LIBFABRIC_VERSION ""
#endif
#ifndef BENCH_UCX_VERSION
#define BENCH_UCX_VERSION ""
#endif

static const struct {
	const char *name, *version, *package;
} libraries[] = {
	{ "liburing", LIBURING_VERSION, "liburing-dev" },
	{ "libev", LIBEV_VERSION, "libev-dev" },
	{ "libuv", BENCH_LIBUV_VERSION, "libuv1-dev" },
	{ "libevent", BENCH_LIBEVENT_VERSION, "libevent-dev" },
	{ "DPDK", BENCH_DPDK_VERSION, "libdpdk-dev" },
	{ "ISA-L", BENCH_ISAL_VERSION, "libisal-dev" },
	{ "libfabric, the library", BENCH_LIBFABRIC_VERSION, "libfabric-dev" },
	{ "UCX, the library", BENCH_UCX_VERSION, "libucx-dev" },
};

void bench_write_peers(FILE *out)
{
	fprintf(out, "{\"peer\":\"weir\",\"version\":\"%s\"}\n", weir_version());
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
		if (*libraries[i].version)
			fprintf(out, "{\"peer\":\"%s\",\"version\":\"%s\"}\n",
				libraries[i].name, libraries[i].version);
		else
			fprintf(out, "{\"missing\":\"%s\",\"package\":\"%s\"}\n",
				libraries[i].name, libraries[i].package);
}

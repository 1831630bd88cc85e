/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Which versions of the libraries we are measured beside. */

#include <weir/base.h>

#ifdef HAVE_LIBEV
#include <ev.h>
#endif
#ifdef HAVE_LIBUV
#include <uv.h>
#endif

#include "bench/bench.h"

void bench_write_peers(FILE *out)
{
	fprintf(out, "{\"peer\":\"weir\",\"version\":\"%s\"}\n", weir_version());
	fputs("{\"peer\":\"liburing\",\"version\":\"" LIBURING_VERSION "\"}\n",
	      out);
#ifdef HAVE_LIBEV
	fprintf(out, "{\"peer\":\"libev\",\"version\":\"%d.%d\"}\n",
		ev_version_major(), ev_version_minor());
#endif
#ifdef HAVE_LIBUV
	fprintf(out, "{\"peer\":\"libuv\",\"version\":\"%s\"}\n",
		uv_version_string());
#endif
}

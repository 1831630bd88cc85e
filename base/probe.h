/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_PROBE_H
#define WEIR_BASE_PROBE_H

/*
 * Static probes, with which perf, bpftrace and SystemTap observe a running
 * program.  A probe that is not traced is a nop instruction.  docs/tracing.md lists
 * them.
 *
 *	bpftrace -e 'usdt:libweir.so:weir:job_done { @[arg1] = count(); }'
 */

#ifdef HAVE_SDT

#include <sys/sdt.h>

#define PROBE1(name, a) DTRACE_PROBE1(weir, name, a)
#define PROBE2(name, a, b) DTRACE_PROBE2(weir, name, a, b)
#define PROBE3(name, a, b, c) DTRACE_PROBE3(weir, name, a, b, c)

#else

#define PROBE1(name, a) ((void)0)
#define PROBE2(name, a, b) ((void)0)
#define PROBE3(name, a, b, c) ((void)0)

#endif

#endif /* WEIR_BASE_PROBE_H */

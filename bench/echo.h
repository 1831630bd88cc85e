/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_ECHO_H
#define BENCH_ECHO_H

/* The echo servers, one per loop; each runs in a process of its own. */

#include <stdbool.h>
#include <stdint.h>

#define ECHO_CONNS_MAX 1024
#define ECHO_BUF 4096

struct echo_server {
	const char *name;
	/* Serve the listening socket until killed; returns only on failure. */
	void (*serve)(int fd);
	uint32_t backend;	/* WEIR_BACKEND_ that it needs; 0: none. */
	bool two;		/* On two cores. */
};

extern const struct echo_server echo_servers[];
extern const unsigned int n_echo_servers;

/* In files of their own. */
void serve_liburing(int fd);

/* Why @s cannot run here; NULL: it can. */
const char *echo_missing(const struct echo_server *s);

#endif /* BENCH_ECHO_H */

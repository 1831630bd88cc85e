/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_NET_H
#define TOOLS_SIM_NET_H

/*
 * The scenario of connections.  A client at "a" connects to "b:PAIR" and sends
 * its epoch.  Then both send bytes that the epoch and their place determine,
 * shut down, and read to the end.
 */

#include <weir/socket.h>

#include "sim-fixture.h"

#define PAIRS 4
#define BLOCK 3000	/* Bytes of a send, at most. */
#define HEADER 8	/* The epoch, from the client. */

/* One direction of a pair's present connection, as its sender knows it. */
struct flow {
	uint64_t sent;		/* Taken by sends that have ended, */
	uint64_t tried;		/* and by the one in flight, perhaps. */
	bool shut;		/* The end was sent, or may have been. */
};

struct pair {
	struct program *program;
	unsigned int id;
	int listener;
	struct task accept;
	uint64_t epoch;		/* Of the present connection. */
	struct flow up, down;
	struct end *client;	/* NULL: not connected. */
	bool is_known;		/* The server has learnt the epoch. */
};

struct program {
	struct run *run;
	struct weir_reactor *client, *server;
	struct pair pairs[PAIRS];
	uint64_t epochs;
	struct end *ends;	/* All that are not closed. */
	bool closing;
};

/* Takes @fd; frees itself at the end. */
struct end *net_end_create(struct pair *pair, bool is_client, int fd);

/* A client's first step. */
void net_end_connect(struct end *end, const char *name);

/* Retry ends that found no capacity to begin. */
void net_ends_go_on(struct program *p);

/* Cancel an operation of it, or set a deadline. */
void net_end_disturb(struct end *end);

#endif /* TOOLS_SIM_NET_H */

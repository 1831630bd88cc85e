/* SPDX-License-Identifier: CC0-1.0 */
#ifndef WEIR_RPING_H
#define WEIR_RPING_H

/*
 * weir-rping: the two ends of rdmacm-utils' rping, over weir.
 *
 *	main.c      the life of the program; what it says
 *	options.c   the command line
 *	session.c   one connection: its memory, what it sends, how it ends
 *	client.c    what a client does with one
 *	server.c    what a server does with one
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <weir/job.h>
#include <weir/message.h>
#include <weir/reactor.h>

#define RPING_SIZE_MIN 26	/* "rdma-ping-" and the longest number. */
#define RPING_SIZE_MAX 65535
#define RPING_SIZE 64
#define RPING_PORT 7174
#define RPING_SENDS 4		/* Messages whose end has not come yet. */

struct weir_device;
struct weir_dma;
struct weir_inventory;
struct weir_srq;

struct address {
	struct sockaddr_storage sa;
	socklen_t len;
};

struct options {
	bool server, persistent, verbose, verify;
	uint32_t size;		/* Of a ping; 0: not given. */
	uint64_t count;		/* 0: for ever. */
	struct address addr, from;
};

/* All messages are these: big-endian, where memory is and how it is known. */
struct info {
	uint64_t addr;
	uint32_t rkey;
	uint32_t size;
};

struct rping {
	struct options o;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_srq *srq;
	struct weir_listener *listener;
	struct weir_op next;		/* The next connection. */
	struct weir_conn *taken;
	struct session *sessions;
	bool ending;
	int status;			/* Of the program. */
};

/* What is awaited of the peer. */
enum step { STEP_SOURCE, STEP_SINK, STEP_BUSY };

/* A range that the device of a connection knows. */
struct area {
	struct weir_mmap *mmap;
	char *at;
	uint32_t rkey;
};

struct session {
	struct rping *rp;
	struct weir_conn *c;
	struct weir_op op;		/* Connect, accept or disconnect. */
	struct weir_device *dev;
	struct weir_inventory *inv;
	struct area source, sink;	/* A server has the first alone. */
	struct weir_domain *there;
	struct weir_remote_key key;
	struct weir_job job;
	struct {
		struct weir_op op;
		struct info info;
	} sends[RPING_SENDS];
	unsigned int n_sends;
	enum step step;
	uint64_t pings;
	bool in_ping;
	bool failed;
	bool gone;			/* But for what is_awaited(). */
	struct session *next, **pprev;
};

/* options.c: 0; or -1, and *@status is what to exit with. */
int parse_options(struct options *o, int argc, char **argv, int *status);

/* main.c: one message to stderr; the program will exit with 1. */
void complain(struct rping *rp, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
const char *reason(int64_t err);	/* What weir says, or the errno. */
void rping_left(struct rping *rp);	/* A session has gone. */

/* session.c */
struct session *session_create(struct rping *rp, struct weir_conn *c);
int session_ready(struct session *s);	/* It stands: get memory. */
void session_fail(struct session *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void session_end(struct session *s);
void session_free(struct session *s);

/* At the end of a callback that may be the last. */
void session_callback(struct session *s);

/* Send where @area is, or nothing but a go-ahead. */
void session_send(struct session *s, const struct area *area);

/* What has come; false: it is nothing of this protocol, and that was said. */
bool session_take(struct session *s, const struct weir_message *m,
		  struct info *info);

/* client.c and server.c */
int client_start(struct rping *rp);
void client_message(struct weir_conn *c, const struct weir_message *m,
		    void *arg);
int server_start(struct rping *rp);
void server_message(struct weir_conn *c, const struct weir_message *m,
		    void *arg);

#endif /* WEIR_RPING_H */

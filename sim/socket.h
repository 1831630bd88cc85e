/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SOCKET_H
#define SIM_SOCKET_H

/*
 * The internals of simulated connections.
 *
 *	socket.c            calls on sockets
 *	address.c           addresses, and the names that they stand for
 *	datagram.c          sockets of datagrams
 *	socket-connect.c    listeners, and how connections are made
 *	socket-conn.c       connections: bytes on their way, closes, resets, power
 *	                    cuts
 *
 * A connection has two ends and two flows; end i writes into flow i.  An end
 * belongs to a descriptor.  The connection exists as long as one of its ends.
 *
 *	0 ......... read ......... arrived .......... sent
 *	   gone      what can be read     on the way
 *
 * Data on the way are a list of parts, each with its time.  An end of the
 * stream and a reset are parts without bytes.
 */

#include "sim/world.h"

#include <weir/sim/socket.h>

#define PARTS 32		/* On the way; later data join the last part. */
#define PARTS_OF_DATA (PARTS - 4)

enum part_what {
	PART_DATA,
	PART_UP,	/* The connection has been established. */
	PART_END,	/* A shutdown: no more data follow. */
	PART_CLOSED,	/* A close: nothing can be sent, either. */
	PART_RESET,
};

struct part {
	uint64_t end;		/* Position in the stream. */
	uint64_t at_ns;
	enum part_what what;
};

struct conn;

/* Descriptors that were sent, with the byte at .pos; see rights_send(). */
struct rights {
	struct sim_event event;
	struct sockets *part;
	struct rights *next;
	uint64_t pos;
	uint32_t n;
	struct sim_fd *f[];
};

struct flow {
	struct conn *conn;
	uint32_t side;		/* From this end to the other. */
	struct sim_event event;	/* The next part arrives. */
	char *ring;		/* Of .capacity bytes, a power of 2. */
	uint32_t capacity;
	uint32_t send_max, recv_max;
	uint64_t read, arrived, sent;
	uint64_t acked;		/* The sender knows that it has arrived. */
	struct part parts[PARTS];
	uint32_t first, n;
	uint64_t stalled_ns;	/* Nothing arrives until then. */
	struct rights *rights;	/* In the order of the stream. */
};

enum end_state {
	END_IDLE,
	END_CALLING,		/* A connect is on its way. */
	END_UP,
	END_BROKEN,		/* After a reset. */
};

struct end {
	struct sim_fd f;
	struct end *next, **pprev;	/* All of the world. */
	struct conn *conn;
	uint32_t side;
	enum end_state state;
	int err;		/* To be reported once. */
	bool no_more;		/* The peer sends no more. */
	bool peer_closed;
	bool shut_rd, shut_wr;
	/* A call failed although the socket was ready; .nudge follows. */
	bool shy;
	struct sim_event nudge;	/* Reports that it is ready again. */

	struct sim_event call;	/* Of END_CALLING: the request arrives. */
	uint32_t tries;
	struct end *next_waiting;	/* To be accepted. */
	int family;		/* Of its addresses: AF_UNIX, ... */
	bool bound;		/* The program has chosen .name. */
	bool resets;		/* When it is closed. */
	char name[WEIR_SIM_NAME_MAX];
	char to[WEIR_SIM_NAME_MAX];
};

struct conn {
	struct sockets *part;
	struct conn *next, **pprev;
	uint64_t serial;
	struct end *end[2];	/* NULL: closed. */
	struct flow flow[2];
	struct sim_event trouble;	/* A reset will happen. */
	bool pipe;
	bool silent;		/* One end has no power and does not answer. */
	char name[2][WEIR_SIM_NAME_MAX];
	struct weir_sim_host *host[2];	/* NULL: on none. */
};

struct listener {
	struct sim_fd f;
	struct listener *next, **pprev;
	struct end *first, **last;	/* To be accepted. */
	uint32_t n, backlog;
	bool shy;
	int family;
	char name[WEIR_SIM_NAME_MAX];
};

struct partition {
	struct partition *next;
	char a[WEIR_SIM_NAME_MAX], b[WEIR_SIM_NAME_MAX];
};

struct sockets {
	struct sim_part part;
	struct weir_sim *sim;
	struct end *ends;
	struct conn *conns;
	struct listener *listeners;
	struct partition *partitions;
	struct rights *doomed;	/* Not received; soon closed. */
	uint64_t serial, ports;
	uint64_t sent, received, lost, connections, resets;
};

/* socket-conn.c */

/* Bytes that a writer may add now. */
uint64_t flow_space(const struct flow *fl);

/* Take up to flow_space() bytes of @step: their number, or -ENOBUFS. */
int64_t flow_send(struct flow *fl, const struct io_step *step);

/* Copy up to all data that have arrived: the number of bytes.  With @peek they
 * stay. */
int64_t flow_receive(struct flow *fl, const struct io_step *step, bool peek);

/* Descriptors go with the byte at @pos of @fl.  Those of the next byte are taken, and
 * the caller's then; NULL: it has none.  What is not received is closed soon. */
void rights_doom(struct rights *rights);

static inline void rights_send(struct flow *fl, struct rights *rights, uint64_t pos)
{
	struct rights **at = &fl->rights;

	while (*at)
		at = &(*at)->next;
	rights->pos = pos;
	*at = rights;
}

static inline struct rights *rights_take(struct flow *fl)
{
	struct rights *r = fl->rights;

	if (!r || r->pos != fl->read)
		return NULL;
	fl->rights = r->next;
	r->next = NULL;
	return r;
}

/* They were not sent, or not read, after all. */
static inline void rights_take_back(struct flow *fl, struct rights *rights)
{
	struct rights **at = &fl->rights;

	while (*at && *at != rights)
		at = &(*at)->next;
	if (!*at)
		return;		/* They are lost already. */
	*at = rights->next;
	rights_doom(rights);
}

static inline void rights_return(struct flow *fl, struct rights *rights)
{
	rights->next = fl->rights;
	fl->rights = rights;
}

/* Send @what, behind all that was sent before. */
void flow_tell(struct flow *fl, enum part_what what);

/* Draw whether, and until when, a wire delivers nothing: 0, or the time. */
uint64_t wire_stall(struct weir_sim *sim, const char *name);

struct sockets *sockets_of(struct weir_sim *sim);	/* NULL: no memory. */

struct end *end_new(struct sockets *s, const char *name);
void end_free(struct end *e);

/* Make the two a connection, in any state. */
struct conn *conn_new(struct sockets *s, struct end *a, struct end *b);

/* @e is closed, from the point of view of its peer. */
void conn_leave(struct end *e);

/* End @side gets @err, and the other one soon a reset. */
void conn_reset(struct conn *conn, uint32_t side, int err);

/* Draw whether there will be a reset. */
void conn_trouble(struct conn *conn);

bool sockets_parted(const struct sockets *s, const char *a, const char *b);
bool has_prefix(const char *name, const char *prefix);

/* address.c */

/* The name of a listener that a program means by @addr, where @f is: 0, -EINVAL
 * or -EAFNOSUPPORT.  @bind: it wants to be there itself. */
int address_name(const struct sim_fd *f, const struct sockaddr *addr,
		 size_t len, bool bind, char *ret);

/* An address of @family for @name; *@len is the capacity, and then the size. */
void address_give(struct weir_sim *sim, const char *name, int family,
		  struct sockaddr_storage *ret, socklen_t *len);

/* socket-connect.c */

/* The one at @name; NULL: there is none. */
struct listener *listener_find(const struct sockets *s, const char *name);

void listener_cut(struct listener *l, bool silent);

/* CONNECT */
int64_t end_connect(struct end *e, struct weir_op *op);

/* socket.c */

extern const struct sim_fd_class socket_class, pipe_class;

static inline struct end *end_of(struct sim_fd *f)
{
	return weir_container_of(f, struct end, f);
}

/* Make a descriptor of @e, which is freed if none is left: its number, or
 * -EMFILE. */
int end_open(struct end *e, const struct sim_fd_class *cls);
int64_t end_shutdown(struct end *e, int how);

#endif /* SIM_SOCKET_H */

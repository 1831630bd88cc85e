/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SOCKET_H
#define SIM_SOCKET_H

/*
 * Simulated connections inside.
 *
 *	socket.c            sockets: what calls on them do
 *	socket-connect.c    listeners, and how connections come to be
 *	socket-conn.c       connections: closes, resets, power cuts
 *	socket-flow.c       one direction of one: bytes on their way
 *
 * A connection has two ends and two flows; end i writes into flow i.  An end is
 * a descriptor's, the connection lives as long as one end is there.
 *
 *	0 ......... read ......... arrived .......... sent
 *	   gone      what can be read     on the way
 *
 * What is on the way is a list of parts, each with its time; a part that says
 * that there is no more, or a reset, is one of no bytes.
 */

#include "sim/world.h"

#include <weir/sim/socket.h>

#define PARTS 32		/* On the way; what is sent more joins the last. */
#define PARTS_OF_DATA (PARTS - 4)

enum part_what {
	PART_DATA,
	PART_UP,	/* The connection stands. */
	PART_END,	/* No more comes: a shutdown. */
	PART_CLOSED,	/* Nor can anything be sent. */
	PART_RESET,
};

struct part {
	uint64_t end;		/* Position in the stream. */
	uint64_t at_ns;
	enum part_what what;
};

struct conn;

struct flow {
	struct conn *conn;
	uint32_t side;		/* From this end to the other. */
	struct sim_event event;	/* The next part arrives. */
	char *ring;		/* Of .capacity bytes, a power of 2. */
	uint32_t capacity;
	uint32_t send_max, recv_max;
	uint64_t read, arrived, sent;
	struct part parts[PARTS];
	uint32_t first, n;
	uint64_t stalled_ns;	/* Nothing comes through until then. */
};

enum end_state {
	END_IDLE,
	END_CALLING,		/* A connect is on its way. */
	END_UP,
	END_BROKEN,		/* There was a reset. */
};

struct end {
	struct sim_fd f;
	struct end *next, **pprev;	/* All of the world. */
	struct conn *conn;
	uint32_t side;
	enum end_state state;
	int err;		/* To be told once. */
	bool no_more;		/* The peer sends no more. */
	bool peer_closed;
	bool shut_rd, shut_wr;
	bool shy;		/* A call was told to come again. */
	struct sim_event nudge;	/* And should. */

	struct sim_event call;	/* Of END_CALLING: the request arrives. */
	uint32_t tries;
	struct end *next_waiting;	/* To be accepted. */
	char name[WEIR_SIM_NAME_MAX];
	char to[WEIR_SIM_NAME_MAX];
};

struct conn {
	struct sockets *part;
	struct conn *next, **pprev;
	uint64_t serial;
	struct end *end[2];	/* NULL: closed. */
	struct flow flow[2];
	struct sim_event trouble;	/* A reset is near. */
	bool pipe;
	bool silent;		/* One end has no power, and says nothing. */
	char name[2][WEIR_SIM_NAME_MAX];
};

struct listener {
	struct sim_fd f;
	struct listener *next, **pprev;
	struct end *first, **last;	/* To be accepted. */
	uint32_t n, backlog;
	bool shy;
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
	uint64_t serial;
	uint64_t sent, received, lost, connections, resets;
};

/* socket-flow.c */

void flow_init(struct flow *fl, struct conn *conn, uint32_t side);
void flow_fini(struct flow *fl);

/* Bytes that a writer may add now. */
uint64_t flow_space(const struct flow *fl);

/* Take up to flow_space() bytes of @step: their number, or -ENOBUFS. */
int64_t flow_send(struct flow *fl, const struct io_step *step);

/* Give up to what has arrived: the number of bytes. */
int64_t flow_receive(struct flow *fl, const struct io_step *step);

/* Send @what after all that was sent before. */
void flow_tell(struct flow *fl, enum part_what what);

/* What is on its way is lost; and what has arrived, too. */
void flow_drop(struct flow *fl);
void flow_drop_all(struct flow *fl);

/* Find out anew when the next part arrives. */
void flow_schedule(struct flow *fl);
void flow_heal(struct flow *fl);

/* Draw whether, and until when, a wire lets nothing through: 0, or the time. */
uint64_t wire_stall(struct weir_sim *sim, const char *name);

/* socket-conn.c */

struct sockets *sockets_of(struct weir_sim *sim);	/* NULL: no memory. */

struct end *end_new(struct sockets *s, const char *name);
void end_free(struct end *e);

/* Connect the two, whatever state they are in. */
struct conn *conn_new(struct sockets *s, struct end *a, struct end *b);

/* @e is closed, as far as its peer can see. */
void conn_leave(struct end *e);

/* End @side sees @err, and the other, soon, a reset. */
void conn_reset(struct conn *conn, uint32_t side, int err);

/* A reset, or whatever @what says, has arrived at @e. */
void end_hears(struct end *e, enum part_what what);

/* Draw whether there will be a reset. */
void conn_trouble(struct conn *conn);

bool sockets_parted(const struct sockets *s, const char *a, const char *b);
bool has_prefix(const char *name, const char *prefix);

/* socket-connect.c */

void listener_cut(struct listener *l, bool silent);

/* CONNECT */
int64_t end_connect(struct end *e, struct weir_op *op);

/* socket.c */

extern const struct sim_fd_class socket_class, pipe_class;

static inline struct end *end_of(struct sim_fd *f)
{
	return weir_container_of(f, struct end, f);
}

/* A number for @e, which is freed if there is none: it, or -EMFILE. */
int end_open(struct end *e, const struct sim_fd_class *cls);
int64_t end_shutdown(struct end *e, int how);

#endif /* SIM_SOCKET_H */

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SIM_VERBS_H
#define TESTS_SIM_VERBS_H

/*
 * A scenario of weir-sim's, over the mock for RDMA: hosts, which are
 * reactors, and links between them, whose two ends move bytes from here to
 * there and back.
 *
 *	sim-verbs.c         hosts; what happens to all; the end of it
 *	sim-verbs-link.c    connections: made, answered, ended, destroyed
 *	sim-verbs-target.c  what an end may write to, and that it is taken back
 *	sim-verbs-job.c     jobs, and what must have become of the bytes
 *	sim-verbs-message.c messages, and signals of jobs
 *	sim-verbs-mw.c  windows, and what is written by them too late
 *
 * Each slot of an end has memory of its own here and there, of which every byte
 * is known: so whatever is written where it should not be is found.
 */

#include <netinet/in.h>

#include <weir/conn.h>
#include <weir/device.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/export.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/rdma/mw.h>

#include "tests/support/mock-verbs.h"
#include "tools/sim-fixture.h"

#define HOSTS 3
#define LINKS 4
#define SLOTS 5
#define PIECES 4
#define CAPACITY 16384 /* Bytes of a slot, on each side. */
#define MOST 13000	/* Of these a job moves. */
#define SAYING 1024	/* Bytes of a message. */
#define SAYINGS 4	/* Messages of an end in flight. */
#define KEPT 2
#define PANE_OFF 256
#define END_MEM (SLOTS * CAPACITY + SAYINGS * 2 * SAYING)

struct piece {
	uint32_t off, len;
};

/* Where in a slot the bytes of a job are. */
struct shape {
	struct piece piece[PIECES];
	uint32_t n;
};

/* One side of a slot, and what is in it by all that is known. */
struct ground {
	unsigned char *mem;
	unsigned char was[CAPACITY];
};

enum wrong { RIGHT, WRONG_KEY, TOO_FAR };

struct slot {
	struct end *end;
	struct task task;	/* .op is not used: the job has one. */
	struct weir_job job;
	bool busy;
	bool disturbed;		/* A cancel, a deadline, or its link ended. */
	bool reads;
	uint32_t number;	/* Of this job; the slot's modulo SLOTS. */
	bool has_target;	/* Not so a checksum. */
	bool atomic;
	uint64_t old;		/* An atomic's: what it should find. */
	enum wrong wrong;
	uint64_t revoked;	/* The target's count at the start. */
	struct ground here, there;
	struct shape here_at, there_at;
	unsigned char bytes[MOST];	/* What is to arrive. */
	uint32_t len;
	struct iovec here_iov[PIECES], there_iov[PIECES];
	struct weir_buf *here_buf, *there_buf;
	struct weir_remote_key key;
};

/* A message in flight. */
struct saying {
	struct end *end;
	struct task task;
	unsigned char *bytes;
	uint32_t len;
	bool too_large;
	struct weir_buf *buf;
};

/* What one end may reach at the other. */
struct target {
	struct weir_mmap *theirs, *ours;
	uint32_t rkey;
	uint64_t revoked;	/* How often. */
	bool is_open;
	unsigned char *mem;
};

/* What one end opens by a window: a word. */
struct pane {
	struct weir_mmap *mmap;
	unsigned char *mem;
	uint64_t *word, last;	/* .last is what is in it, once it is */
	bool shut;
	struct weir_mw *window;
	struct task task;	/* To open it, or to take it back. */
	uint32_t rkey;		/* 0: none was told yet. */
};

struct end {
	struct link *link;
	struct host *host;
	bool is_server;
	struct weir_conn *conn;
	struct weir_domain *there;
	bool attached;
	bool up;		/* As it was told. */
	uint64_t ups;
	struct task op;		/* Connect, accept or disconnect. */
	bool leaving;		/* .op is the last of these. */
	struct weir_inventory *inventory;
	struct weir_mmap *near;
	unsigned char *mem;
	struct target target;
	struct slot slots[SLOTS];

	struct saying sayings[SAYINGS];
	struct weir_buf *kept[KEPT];
	uint64_t n_said, n_unsent;	/* On this connection. */
	bool said_too_much;	/* For a buffer, which fails the peer's QP. */
	uint64_t n_heard, n_missing;

	struct pane pane;	/* For the peer; and what is written to its: */
	struct weir_job poke;
	struct weir_remote_key poke_key;
	uint64_t stamp;
	bool poking, poked_shut;
};

struct link {
	struct program *program;
	uint8_t number;
	struct end end[2];	/* Client, server. */
};

struct host {
	struct program *program;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_srq *srq;	/* NULL: there are no messages. */
	struct weir_listener *listener;
	struct sockaddr_in addr;
	struct task next;
	struct weir_conn *came;
};

struct program {
	struct run *run;
	struct weir_device *device;
	struct host hosts[HOSTS];
	uint32_t n_hosts;
	struct link links[LINKS];
	uint32_t n_links;
	bool peers; /* By messages, too; */
	bool windows;		/* and these are opened. */
	uint64_t stamps;
	uint64_t healed_ns;	/* When the wire comes back; 0: it is there. */
};

static inline struct run *run_of(const struct end *e)
{
	return e->link->program->run;
}

static inline struct end *peer_of(struct end *e)
{
	return &e->link->end[!e->is_server];
}

/* sim-verbs-link.c */
void host_listen(struct host *h);
void link_set_up(struct program *p, struct link *l, uint8_t number);
void link_act(struct link *l);

/* Towards the end of it: whether nothing is left. */
bool link_end(struct link *l);
void link_take_down(struct link *l);

/* What posts on it is disturbed. */
void end_disturb(struct end *e);

/* sim-verbs-target.c */
void target_set_up(struct end *e);
void target_open(struct end *e);
void target_close(struct end *e);	/* Nobody uses it. */
void target_revoke(struct end *e);
void target_take_down(struct end *e);

/* An mmap of the device's, started. */
struct weir_mmap *target_mmap(struct end *e, void *mem, size_t len,
			      uint32_t perms);

/* sim-verbs-job.c */
void slots_set_up(struct end *e);
void slots_act(struct end *e);
bool slots_idle(const struct end *e);
void slots_check(struct end *e);

/* Whether all bytes of @s are where they go. */
bool slot_has_landed(const struct slot *s);

/* sim-verbs-message.c */
void peers_set_up(struct host *h);
void peers_take_down(struct host *h);
void peers_listen(struct end *e);
void peers_begin(struct end *e);
void peers_act(struct end *e);
void peers_put_kept(struct end *e);

/* sim-verbs-mw.c */
void window_set_up(struct end *e);
void window_act(struct end *e);
void window_take_down(struct end *e);

#endif /* TESTS_SIM_VERBS_H */

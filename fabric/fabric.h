/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

/*
 * What the parts of libweir-fabric share.
 *
 *	card    an open device: a provider of libfabric's at an address
 *	fabric  what a reactor has, as long as it has DMA contexts
 *	port    a card on a reactor: a domain, its queues, and a poll hook
 *	link    a port's connection to a peer, whose memory is imported
 *	grant   exported memory, with the connections of its importers
 *
 * All of a port is used on its reactor's thread alone.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <weir/engine.h>
#include <weir/fabric/device.h>
#include <weir/job.h>
#include <weir/poll-hook.h>
#include <weir/provider.h>
#include <weir/reactor.h>
#include <weir/timer.h>

#include "fabric/library.h"

#define FABRICS_MAX 256		/* Reactors of a process that use it. */
#define ADDRESS_MAX 128		/* Bytes of an address of libfabric's. */
#define TOKEN 16		/* Bytes by which a peer shows what it imports. */
#define WINDOW 64		/* Slices in flight on a link, at most. */
#define PIECES 8		/* Of a slice, at most. */
#define SLICE_MAX ((uint64_t)1 << 20)
#define SLICES 4096		/* Of a port. */
/* Attempts to close at the last context's end, which cannot wait.  The number is not
 * measured: no provider that was tried needs a second one. */
#define CLOSES 1000
#define RETRY_NS (100 * WEIR_USEC)	/* Between two attempts to close, or to post. */

struct port;
struct link;

struct card {
	struct weir_device *dev;
	struct fi_info *info;
	char name[64];
	atomic_uint refs;		/* Of its opening, and of ports. */
	_Atomic uint64_t connect_ns, stall_ns, grace_ns;
	atomic_ullong connects, refused, lost, accepted;
	atomic_uint links, conns;
};

struct fabric {
	struct weir_reactor *reactor;
	pthread_t thread;
	uint32_t slot;
	uint32_t contexts;
	struct port *ports;
};

/* An endpoint that is connected: a link's, or one of a grant's. */
struct end {
	struct end *next, **pprev;	/* Of the port. */
	struct fid_ep *ep;		/* NULL: there is none. */
	struct grant *grant;		/* NULL: it is a link's. */
};

/* What is posted.  It begins with what a provider may use of it. */
struct slice {
	struct fi_context2 ctx;
	struct slice *next, **pprev;	/* Of the link; or those that are free. */
	struct link *link;		/* NULL: it is free. */
	struct weir_job *job;
	uint64_t off;			/* In the job. */
};

struct port {
	struct port *next;
	struct fabric *fabric;
	struct card *card;
	struct fid_fabric *fid;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_eq *eq;
	struct fid_pep *pep;		/* NULL: it exports nothing yet. */
	struct weir_poll_hook *hook;
	struct weir_timer *timer;
	uint64_t timer_at;		/* If it is set. */
	struct end *ends;
	struct link *links;
	struct link *ready, **last_ready;	/* Those that can post. */
	struct grant *grants;
	struct slice *slices, *free;
	uint32_t in_flight;
	uint32_t connecting;		/* Links, and grants' ends, or closing. */
	uint32_t conns;			/* Of grants. */
	uint32_t polls;
	int epfd;			/* What the reactor watches: both queues, */
	int eqfd, wakefd;		/* and this, which other threads write to. */
	/* The import of a link of it has.  As a bool, gcc reads it with those below. */
	atomic_int has_ended;
	bool has_events;		/* The queue of events may have some. */
	bool is_broken;			/* A link is, see link_mend(). */
};

/* A peer's memory, which is imported. */
struct peer {
	struct peer *next;		/* Of those that could not be freed. */
	struct card *card;
	struct weir_domain *domain;
	uint64_t addr;			/* Of its first byte, as jobs name it, */
	uint64_t base;			/* and as libfabric does. */
	uint64_t key;
	uint8_t token[TOKEN];
	uint8_t address[ADDRESS_MAX];
	atomic_bool ended;
	struct link *links[FABRICS_MAX];
};

/* LINK_CLOSING: libfabric has not closed the endpoint, and may use what is posted. */
enum { LINK_IDLE, LINK_CONNECTING, LINK_UP, LINK_CLOSING };

struct link {
	struct end end;
	struct link *next, **pprev;	/* Of the port. */
	struct link *next_ready;
	bool is_ready;
	bool is_full;			/* There was no capacity to post. */
	bool broken;			/* To be closed when the queue was read. */
	uint8_t state;
	int32_t error;			/* Of libfabric; why it is broken. */
	struct port *port;
	struct peer *peer;
	struct weir_job *first, **last;	/* Of which not all is posted. */
	struct slice *posted;
	uint32_t in_flight;
	uint32_t cancelled;		/* Jobs in flight that were. */
	uint32_t fruitless;		/* Connections in a row, nothing posted. */
	uint64_t deadline;		/* To be connected by. */
	uint64_t moved;			/* When something ended last, or began. */
	uint64_t grace;			/* Cancelled jobs have until then. */
};

/* In the area of a job. */
struct fabric_job {
	struct weir_job *next;
	struct weir_job **pprev;	/* NULL: not in the queue of its link. */
	struct link *link;
	uint64_t posted;		/* Bytes. */
	uint64_t failed_at;		/* The first that is not done; or all. */
	uint32_t in_flight;
	int32_t res;			/* 0: nothing has ended it early. */
	int32_t code;			/* Of libfabric. */
	bool is_write;
	bool is_cancelled;
};

_Static_assert(sizeof(struct fabric_job) <= WEIR_JOB_AREA, "it fits");

/* Memory of an mmap.  libfabric registers it when it is exported. */
struct region {
	void *addr;
	uint64_t len;
	struct grant *grant;		/* NULL: it is not exported. */
};

/* Exported memory. */
struct grant {
	struct grant *next, **pprev;	/* Of the port. */
	struct port *port;		/* NULL: its reactor has no port any more. */
	struct fid_mr *mr;
	pthread_t thread;
	uint32_t conns;
	bool is_ending;			/* It takes no more of them. */
	bool is_kept;			/* It could not be closed in time. */
	uint8_t token[TOKEN];
};

/* A connection of an importer to a grant. */
struct conn {
	struct end end;
	bool connecting;
	bool is_closing;		/* libfabric has refused to, until now. */
};

/* What is in a descriptor, in the byte order of the network. */
struct fabric_desc {
	uint8_t version;
	uint8_t reserved;
	uint8_t provider_len, address_len;
	uint8_t key[8], base[8];
	uint8_t token[TOKEN];
	char names[];			/* The provider, and the address. */
};

/* What an importer says when it connects. */
#define HELLO_MAGIC "weir"
#define HELLO_VERSION 1

struct fabric_hello {
	char magic[4];
	uint8_t version;
	uint8_t reserved[3];
	uint8_t token[TOKEN];
};

/* What an exporter says when it rejects that. */
enum { REJECT_ENDED = 1, REJECT_BUSY = 2 };

/* device.c */
bool is_imported(const struct weir_domain *domain);
void card_unref(struct card *card);
void fabric_lock(void);		/* For what peers have of links. */
void fabric_unlock(void);
/* Under the lock: the fabric of @r, or, if that is NULL, of this thread; or NULL. */
struct fabric *fabric_of(const struct weir_reactor *r);
void peer_retry(void);		/* Under the lock. */
int fabric_engine_open(void *arg, struct weir_reactor *r, void **engine);
void fabric_engine_close(void *engine);

/* port.c */
int port_of(struct port **ret, struct fabric *f, struct card *card,
	    const char *call);
void port_free(struct port *port);
void port_wake(struct port *port);
void port_drain(struct port *port);	/* Take all that has completed. */
void port_timer(struct port *port, uint64_t when);
int end_make(struct port *port, struct end *end, struct fi_info *info);
int end_enable(struct port *port, struct end *end);
int end_close(struct end *end);

/* grant.c */
int grant_make(struct grant **ret, struct port *port, struct region *region,
	       uint32_t permissions);
int grant_end(struct grant *grant);
void grant_orphan(struct grant *grant);
void grant_retry(struct port *port);	/* Close what was not closed. */
void grant_request(struct port *port, struct fi_eq_cm_entry *request,
		   size_t len);
void grant_event(struct port *port, struct end *end, uint32_t event);
int port_address(const struct port *port, uint8_t *to, size_t *len);

/* link.c */
int link_of(struct link **ret, struct fabric *f, struct peer *peer);
bool link_free(struct link *link);	/* False: not yet. */
/* Unlink it and never free it: libfabric may still use it. */
void link_keep(struct link *link);
int link_connect(struct link *link);
void link_event(struct link *link, uint32_t event);
void link_refused(struct link *link, const struct fi_eq_err_entry *err);
void link_is_broken(struct link *link, int err);
void link_mend(struct link *link);	/* If it is broken. */
void link_ready(struct link *link);
void link_watch(struct link *link);	/* Let the timer look after it. */
uint64_t link_timer(struct link *link, uint64_t now);

/* engine.c */
extern const struct weir_engine_ops fabric_engine_ops;
void port_post(struct port *port);
void slice_ended(struct slice *slice, int err);
void link_end_jobs(struct link *link, int res, int code);

#endif /* FABRIC_FABRIC_H */

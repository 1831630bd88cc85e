/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MOCK_FABRIC_INTERNAL_H
#define TESTS_MOCK_FABRIC_INTERNAL_H

/*
 * What the files of the mock of libfabric share.
 *
 *	mock-fabric.c       the library: what there is, and what it is like
 *	mock-fabric-queue.c fabrics, domains, regions, and both queues
 *	mock-fabric-wire.c  connections, and what is on its way by them
 *	mock-fabric-ep.c    endpoints
 *
 * One thread uses all of it.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "tests/support/mock-fabric.h"

#define EXPORT __attribute__((visibility("default")))
#define DATA_MAX 64		/* Bytes that come with a request. */
#define IOV_MAX_ 8		/* Pieces of an operation. */

struct m_fabric {
	struct fid_fabric fid;
	int refs;
};

struct m_domain {
	struct fid_domain fid;
	struct m_fabric *fabric;
	struct m_mr *mrs;
	int refs;
};

struct m_mr {
	struct fid_mr fid;
	struct m_mr *next;
	struct m_domain *domain;
	uint8_t *mem;
	uint64_t len, access, base;
};

struct m_entry {
	struct m_entry *next;
	struct m_ep *ep;		/* NULL: that is closed. */
	void *context;
	int err;			/* 0: it is done. */
};

struct m_cq {
	struct fid_cq fid;
	struct m_domain *domain;
	struct m_entry *entries;
	struct m_ep *eps;
	int fd;
};

struct m_event {
	struct m_event *next;
	uint32_t what;
	int err;			/* Not 0: it is a failure. */
	fid_t fid;
	struct fi_info *info;
	size_t len;
	uint8_t data[DATA_MAX];
};

struct m_eq {
	struct fid_eq fid;
	struct m_fabric *fabric;
	struct m_event *events, **last;
	int refs, fd;
	uint8_t data[DATA_MAX];		/* Of the last failure. */
};

struct m_pep {
	struct fid_pep fid;
	struct m_pep *next;
	struct m_fabric *fabric;
	struct m_eq *eq;
	struct fi_info *info;
	uint16_t port;
	bool listens;
};

/* What is on its way by a connection, to a side of it. */
enum m_what { CONNECT, ACCEPT, REJECT, END, FLUSH, WRITE, READ, DONE, BYTES };

struct m_packet {
	struct m_packet *next;
	enum m_what what;
	struct m_conn *conn;
	int to;
	struct m_op *op;		/* NULL: who posted it is closed. */
	uint64_t addr, key, len, done;
	uint8_t *copy;			/* Of the bytes, once nothing else has them. */
	uint8_t *at;			/* Once the key was found to be good. */
	size_t n;
	uint8_t data[DATA_MAX];
};

/* Posted, and not done. */
struct m_op {
	struct m_op *next;
	struct m_ep *ep;
	void *context;
	bool is_write, was_told;
	struct iovec iov[IOV_MAX_];
	size_t n_iov;
	uint64_t len;
};

struct m_conn {
	struct m_conn *next;
	struct m_ep *ep[2];		/* The client, the server. */
	struct m_request *request;
	uint16_t port;
	bool is_up, is_dead, is_silent;
	bool is_full;			/* For ever. */
};

/* Of a client, before it has an endpoint here. */
struct m_request {
	struct fid fid;
	struct m_conn *conn;
};

struct m_ep {
	struct fid_ep fid;
	struct m_ep *next;		/* Of the queue of completions. */
	struct m_domain *domain;
	struct m_eq *eq;
	struct m_cq *cq;
	struct m_conn *conn;
	int side;
	bool enabled;
	struct m_packet *inbox, **last;
	struct m_op *ops, **last_op;
};

/* mock-fabric.c */
extern struct mock_fabric_world mock_world;
extern struct mock_fabric_left mock_left;
uint32_t mock_below(uint32_t n);
bool mock_fault(int fault);
struct fi_info *mock_info_dup(const struct fi_info *info);
void mock_info_free(struct fi_info *info);
void *mock_alloc(size_t len);

/* mock-fabric-queue.c */
int mock_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **ret,
		     void *context);
struct m_mr *mock_mr_find(struct m_domain *domain, uint64_t key);
void mock_ring(int fd);
void mock_complete(struct m_ep *ep, void *context, int err);
struct m_event *mock_tell(struct m_eq *eq, fid_t fid, uint32_t what, int err);
void mock_forget_events(struct m_eq *eq, fid_t fid);
void mock_forget_entries(struct m_ep *ep);

/* mock-fabric-wire.c */
struct m_packet *mock_send(struct m_conn *conn, int to, enum m_what what);
void mock_conn_kill(struct m_conn *conn);
struct m_conn *mock_conn_new(struct m_ep *client, uint16_t port);
void mock_conn_left(struct m_conn *conn);	/* One of its ends is no more. */
void mock_wire_close(struct m_ep *ep);
bool mock_progress(struct m_ep *ep);		/* Whether there was something. */
void mock_pep_add(struct m_pep *pep);
void mock_pep_del(struct m_pep *pep);
void mock_op_end(struct m_op *op, int err);
void mock_arrive_all(void);	/* If nothing is to arrive later. */

/* mock-fabric-ep.c */
int mock_pep_open(struct fid_fabric *fabric, struct fi_info *info,
		  struct fid_pep **ret, void *context);
int mock_ep_open(struct fid_domain *domain, struct fi_info *info,
		 struct fid_ep **ret, void *context);

#endif /* TESTS_MOCK_FABRIC_INTERNAL_H */

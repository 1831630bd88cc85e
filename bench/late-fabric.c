/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Late writes of libfabric, beside bench-late: the owner closes the region that a
 * write is arriving in ("mr"), or its endpoint ("ep"), or cancels the receive that
 * a message is arriving in ("cancel"), and takes the memory as its own when that
 * is reported as complete.  The engine is the name of a provider.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "bench/late-two.h"

#define NAME_MAX_BYTES 256

/* What the owner tells the writer. */
struct hello {
	uint64_t addr, key;
	size_t len;
	char name[NAME_MAX_BYTES];
};

struct end {
	struct late_two *t;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct fi_context2 context;	/* Of the one operation. */
	fi_addr_t peer;
	int done;		/* That has completed: 1, or a negative errno. */
};

static void must(struct end *e, int err, const char *what)
{
	char why[80];

	if (!err)
		return;
	snprintf(why, sizeof(why), "%s: %s", what, fi_strerror(-err));
	late_skip(e->t->one, why);
}

static void progress(void *arg)
{
	struct fi_cq_err_entry error = { .err = 0 };
	struct fi_cq_entry entry;
	struct end *e = arg;
	ssize_t n = fi_cq_read(e->cq, &entry, 1);

	if (n == 1 && entry.op_context == &e->context)
		e->done = 1;
	if (n == -FI_EAVAIL && fi_cq_readerr(e->cq, &error, 0) == 1 &&
	    error.op_context == &e->context)
		e->done = -error.err;
}

static bool is_for_messages(const struct end *e)
{
	return !strcmp(e->t->ending, "cancel");
}

static void open_end(struct end *e, struct late_two *t)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT };

	memset(e, 0, sizeof(*e));
	e->t = t;
	if (!hints)
		late_skip(t->one, "no memory");
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(t->engine);
	must(e, fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", NULL, FI_SOURCE,
			   hints, &e->info), "fi_getinfo");
	must(e, fi_fabric(e->info->fabric_attr, &e->fabric, NULL), "fi_fabric");
	must(e, fi_domain(e->fabric, e->info, &e->domain, NULL), "fi_domain");
	must(e, fi_av_open(e->domain, &av, &e->av, NULL), "fi_av_open");
	must(e, fi_cq_open(e->domain, &cq, &e->cq, NULL), "fi_cq_open");
	must(e, fi_endpoint(e->domain, e->info, &e->ep, NULL), "fi_endpoint");
	must(e, fi_ep_bind(e->ep, &e->av->fid, 0), "fi_ep_bind");
	must(e, fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV),
	     "fi_ep_bind");
	must(e, fi_enable(e->ep), "fi_enable");
	must(e, fi_mr_reg(e->domain, t->memory, t->size, FI_REMOTE_WRITE |
			  FI_WRITE | FI_SEND | FI_RECV, 0, 77, 0, &e->mr, NULL),
	     "fi_mr_reg");
	t->progress = progress;
	t->arg = e;
}

static void own_name(struct end *e, struct hello *h)
{
	memset(h, 0, sizeof(*h));
	h->len = sizeof(h->name);
	must(e, fi_getname(&e->ep->fid, h->name, &h->len), "fi_getname");
	h->key = fi_mr_key(e->mr);
	if (e->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		h->addr = (uint64_t)(uintptr_t)e->t->memory;
}

static void owner(struct late_two *t)
{
	struct hello h;
	struct end e;
	uint64_t begun;

	open_end(&e, t);
	own_name(&e, &h);
	if (is_for_messages(&e))
		must(&e, (int)fi_recv(e.ep, t->memory, t->size,
				      fi_mr_desc(e.mr), FI_ADDR_UNSPEC,
				      &e.context), "fi_recv");
	late_two_put(t, &h, sizeof(h));
	begun = late_two_in_flight(t);
	if (!strcmp(t->ending, "mr"))
		t->one->refused = fi_close(&e.mr->fid) != 0;
	else if (!strcmp(t->ending, "ep"))
		t->one->refused = fi_close(&e.ep->fid) != 0;
	else
		t->one->refused = fi_cancel(&e.ep->fid, &e.context) != 0;
	/* A cancel has come to its end with the completion of the receive. */
	while (is_for_messages(&e) && !e.done)
		progress(&e);
	late_two_ended(t, begun);
}

static ssize_t post(struct end *e, const struct hello *h)
{
	struct iovec iov = { e->t->memory, e->t->size };
	void *desc = fi_mr_desc(e->mr);
	struct fi_rma_iov to = { h->addr, e->t->size, h->key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1,
		.addr = e->peer, .rma_iov = &to, .rma_iov_count = 1,
		.context = &e->context,
	};

	if (is_for_messages(e))
		return fi_send(e->ep, e->t->memory, e->t->size, desc, e->peer,
			       &e->context);
	return fi_writemsg(e->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

static void writer(struct late_two *t)
{
	struct hello h;
	struct end e;
	ssize_t n;

	open_end(&e, t);
	late_two_get(t, &h, sizeof(h));
	if (fi_av_insert(e.av, h.name, 1, &e.peer, 0, NULL) != 1)
		late_skip(t->one, "fi_av_insert failed");
	do {
		n = post(&e, &h);
		progress(&e);
	} while (n == -FI_EAGAIN);
	must(&e, (int)n, "a write");
	while (!e.done)
		progress(&e);
	late_two_written(t);
}

int main(int argc, char **argv)
{
	return late_two_main(argc, argv, BENCH_LIBFABRIC_VERSION, owner, writer);
}

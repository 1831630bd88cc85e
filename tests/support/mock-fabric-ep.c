/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: those that listen, and those that are connected. */

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/support/mock-fabric-internal.h"

#define TX_SIZE 16	/* Operations of an endpoint. */

static struct m_ep *ep_of(struct fid_ep *fid)
{
	return container_of(fid, struct m_ep, fid);
}

static int refused(void)
{
	static const int errors[] = { FI_ENOMEM, FI_EMFILE, FI_EIO, FI_EAGAIN };

	return -errors[mock_below(4)];
}

/* Those that listen. */

static int pep_close(struct fid *fid)
{
	struct m_pep *pep = container_of(fid, struct m_pep, fid.fid);

	mock_pep_del(pep);
	if (pep->eq) {
		mock_forget_events(pep->eq, fid);
		pep->eq->refs--;
	}
	pep->fabric->refs--;
	mock_info_free(pep->info);
	free(pep);
	mock_left.peps--;
	return 0;
}

static int pep_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	struct m_pep *pep = container_of(fid, struct m_pep, fid.fid);

	(void)flags;
	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_EINVAL;
	pep->eq = container_of(to, struct m_eq, fid.fid);
	pep->eq->refs++;
	return 0;
}

static int pep_listen(struct fid_pep *fid)
{
	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_EADDRINUSE;
	container_of(fid, struct m_pep, fid)->listens = true;
	return 0;
}

static int pep_getname(fid_t fid, void *to, size_t *len)
{
	struct m_pep *pep = container_of(fid, struct m_pep, fid.fid);
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (*len < sizeof(in))
		return -FI_ETOOSMALL;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in.sin_port = htons(pep->port);
	*len = sizeof(in);
	memcpy(to, &in, sizeof(in));
	return 0;
}

static int pep_reject(struct fid_pep *pep, fid_t handle, const void *data,
		      size_t len)
{
	struct m_request *request = container_of(handle, struct m_request, fid);
	struct m_conn *conn = request->conn;
	struct m_packet *p;

	(void)pep;
	conn->request = NULL;
	if (conn->ep[0]) {
		p = mock_send(conn, 0, REJECT);
		p->n = len;
		memcpy(p->data, data, len);
	}
	mock_conn_left(conn);
	free(request);
	mock_left.requests--;
	return 0;
}

static struct fi_ops pep_fid_ops = {
	.size = sizeof(pep_fid_ops), .close = pep_close, .bind = pep_bind,
};
static struct fi_ops_cm pep_cm_ops = {
	.size = sizeof(pep_cm_ops), .listen = pep_listen,
	.getname = pep_getname, .reject = pep_reject,
};

int mock_pep_open(struct fid_fabric *fabric, struct fi_info *info,
		  struct fid_pep **ret, void *context)
{
	static uint16_t ports;
	struct m_pep *pep;

	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_EMFILE;
	pep = mock_alloc(sizeof(*pep));
	pep->fabric = container_of(fabric, struct m_fabric, fid);
	pep->fabric->refs++;
	pep->info = mock_info_dup(info);
	pep->port = ++ports ? ports : ++ports;
	pep->fid.fid.fclass = FI_CLASS_PEP;
	pep->fid.fid.context = context;
	pep->fid.fid.ops = &pep_fid_ops;
	pep->fid.cm = &pep_cm_ops;
	mock_pep_add(pep);
	*ret = &pep->fid;
	mock_left.peps++;
	return 0;
}

/* Those that are connected. */

static int ep_close(struct fid *fid)
{
	struct m_ep *ep = container_of(fid, struct m_ep, fid.fid), **at;

	if (mock_fault(MOCK_FABRIC_CLOSE))
		return -FI_EBUSY;
	mock_wire_close(ep);
	if (ep->cq) {
		for (at = &ep->cq->eps; *at != ep;)
			at = &(*at)->next;
		*at = ep->next;
		mock_forget_entries(ep);
	}
	if (ep->eq) {
		mock_forget_events(ep->eq, fid);
		ep->eq->refs--;
	}
	ep->domain->refs--;
	free(ep);
	mock_left.eps--;
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	struct m_ep *ep = container_of(fid, struct m_ep, fid.fid);

	(void)flags;
	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_ENOMEM;
	if (to->fclass == FI_CLASS_EQ) {
		ep->eq = container_of(to, struct m_eq, fid.fid);
		ep->eq->refs++;
		return 0;
	}
	ep->cq = container_of(to, struct m_cq, fid.fid);
	ep->next = ep->cq->eps;
	ep->cq->eps = ep;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct m_ep *ep = container_of(fid, struct m_ep, fid.fid);

	(void)arg;
	if (command != FI_ENABLE || !ep->eq || !ep->cq)
		return -FI_EINVAL;
	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_ENOMEM;
	ep->enabled = true;
	return 0;
}

static int ep_connect(struct fid_ep *fid, const void *addr, const void *data,
		      size_t len)
{
	const struct sockaddr_in *in = addr;
	struct m_ep *ep = ep_of(fid);
	struct m_packet *p;

	if (!ep->enabled || len > DATA_MAX)
		return -FI_EINVAL;
	if (mock_fault(MOCK_FABRIC_CONNECT))
		return refused();
	ep->conn = mock_conn_new(ep, ntohs(in->sin_port));
	p = mock_send(ep->conn, 1, CONNECT);
	p->n = len;
	memcpy(p->data, data, len);
	return 0;
}

static int ep_accept(struct fid_ep *fid, const void *data, size_t len)
{
	struct m_ep *ep = ep_of(fid);

	(void)data, (void)len;
	if (!ep->enabled)
		return -FI_EINVAL;
	if (mock_fault(MOCK_FABRIC_CONNECT))
		return refused();
	if (ep->conn->ep[0] && !ep->conn->is_dead)
		mock_send(ep->conn, 0, ACCEPT);
	else
		mock_send(ep->conn, 1, END);
	return 0;
}

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
	(void)flags;
	mock_conn_kill(ep_of(fid)->conn);
	return 0;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
	(void)fid, (void)context;
	return 0;
}

/* Posts. */

static unsigned int count_ops(const struct m_ep *ep)
{
	const struct m_op *op;
	unsigned int n = 0;

	for (op = ep->ops; op; op = op->next)
		n++;
	return n;
}

static ssize_t check_post(struct m_ep *ep, const struct fi_msg_rma *msg)
{
	uint64_t len = msg->rma_iov[0].len;

	if (!ep->conn || !ep->conn->is_up || ep->conn->is_dead)
		return mock_world.flags & MOCK_FABRIC_FULL ? -FI_EAGAIN :
							     -FI_ENOTCONN;
	if (msg->rma_iov_count != 1 || !msg->iov_count || !len ||
	    msg->iov_count > mock_world.iov_limit ||
	    msg->iov_count > IOV_MAX_ || len > mock_world.max_msg)
		return -FI_EINVAL;
	if (ep->conn->is_full || count_ops(ep) == TX_SIZE ||
	    mock_fault(MOCK_FABRIC_AGAIN))
		return -FI_EAGAIN;
	return mock_fault(MOCK_FABRIC_POST) ? -FI_EIO : 0;
}

static ssize_t post(struct m_ep *ep, const struct fi_msg_rma *msg, uint64_t flags,
		    bool is_write)
{
	ssize_t err = check_post(ep, msg);
	struct m_packet *p;
	struct m_op *op;

	if (err)
		return err;
	op = mock_alloc(sizeof(*op));
	op->ep = ep;
	op->context = msg->context;
	op->is_write = is_write;
	op->n_iov = msg->iov_count;
	memcpy(op->iov, msg->msg_iov, msg->iov_count * sizeof(*op->iov));
	op->len = msg->rma_iov[0].len;
	*ep->last_op = op;
	ep->last_op = &op->next;
	if (is_write && !(flags & FI_DELIVERY_COMPLETE)) {
		op->was_told = true;
		mock_complete(ep, op->context, 0);
	}
	p = mock_send(ep->conn, !ep->side, is_write ? WRITE : READ);
	p->op = op;
	p->addr = msg->rma_iov[0].addr;
	p->key = msg->rma_iov[0].key;
	p->len = op->len;
	return 0;
}

static ssize_t ep_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
			   uint64_t flags)
{
	return post(ep_of(ep), msg, flags, true);
}

static ssize_t ep_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg,
			  uint64_t flags)
{
	return post(ep_of(ep), msg, flags, false);
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(ep_fid_ops), .close = ep_close, .bind = ep_bind,
	.control = ep_control,
};
static struct fi_ops_ep ep_ops = { .size = sizeof(ep_ops), .cancel = ep_cancel };
static struct fi_ops_cm ep_cm_ops = {
	.size = sizeof(ep_cm_ops), .connect = ep_connect, .accept = ep_accept,
	.shutdown = ep_shutdown,
};
static struct fi_ops_rma ep_rma_ops = {
	.size = sizeof(ep_rma_ops), .writemsg = ep_writemsg,
	.readmsg = ep_readmsg,
};

int mock_ep_open(struct fid_domain *domain, struct fi_info *info,
		 struct fid_ep **ret, void *context)
{
	struct m_request *request;
	struct m_ep *ep;

	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_ENOMEM;
	ep = mock_alloc(sizeof(*ep));
	ep->domain = container_of(domain, struct m_domain, fid);
	ep->domain->refs++;
	ep->last = &ep->inbox;
	ep->last_op = &ep->ops;
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &ep_fid_ops;
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &ep_cm_ops;
	ep->fid.rma = &ep_rma_ops;
	if (info->handle) {
		request = container_of(info->handle, struct m_request, fid);
		ep->conn = request->conn;
		ep->conn->request = NULL;
		ep->conn->ep[1] = ep;
		ep->side = 1;
		info->handle = NULL;
		free(request);
		mock_left.requests--;
	}
	*ret = &ep->fid;
	mock_left.eps++;
	return 0;
}

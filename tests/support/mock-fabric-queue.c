/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics, domains, regions, and the queues of completions and of events. */

#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/mock-fabric-internal.h"

/* Descriptors. */

void mock_ring(int fd)
{
	if (fd >= 0)
		eventfd_write(fd, 1);
}

static void quiet(int fd)
{
	eventfd_t n;

	if (fd >= 0 && !(mock_world.flags & MOCK_FABRIC_SPINS))
		eventfd_read(fd, &n);
}

static int make_fd(int *ret)
{
	*ret = -1;
	if (mock_world.flags & MOCK_FABRIC_NO_WAIT)
		return 0;
	*ret = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (mock_world.flags & MOCK_FABRIC_SPINS)
		mock_ring(*ret);
	return *ret < 0 ? -FI_EMFILE : 0;
}

static int get_fd(int fd, int command, void *arg)
{
	if (command != FI_GETWAIT || fd < 0)
		return -FI_ENOSYS;
	*(int *)arg = fd;
	return 0;
}

/* Completions. */

/* Between those that are there already. */
void mock_complete(struct m_ep *ep, void *context, int err)
{
	struct m_entry *entry = mock_alloc(sizeof(*entry));
	struct m_entry **at = &ep->cq->entries;

	entry->ep = ep;
	entry->context = context;
	entry->err = err;
	while (*at && mock_below(4) != 1)
		at = &(*at)->next;
	entry->next = *at;
	*at = entry;
	mock_ring(ep->cq->fd);
}

void mock_forget_entries(struct m_ep *ep)
{
	bool keeps = mock_world.flags & MOCK_FABRIC_KEEPS;
	struct m_entry **at = &ep->cq->entries, *entry;

	while ((entry = *at)) {
		if (entry->ep == ep)
			entry->ep = NULL;
		if (entry->ep || keeps) {
			at = &entry->next;
			continue;
		}
		*at = entry->next;
		free(entry);
	}
}

static struct m_cq *cq_of(struct fid_cq *fid)
{
	return container_of(fid, struct m_cq, fid);
}

static void progress_all(struct m_cq *cq)
{
	struct m_ep *ep;

	for (ep = cq->eps; ep; ep = ep->next)
		while (mock_progress(ep) && mock_below(4) != 1)
			;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct fi_cq_entry *to = buf;
	struct m_cq *cq = cq_of(fid);
	struct m_entry *entry;
	size_t n = 0;

	mock_arrive_all();
	progress_all(cq);
	while ((entry = cq->entries) && !entry->err && n < count) {
		to[n++].op_context = entry->context;
		cq->entries = entry->next;
		free(entry);
		if (mock_below(8) == 1)
			break;
	}
	if (n)
		return (ssize_t)n;
	return entry && entry->err ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *ret,
			  uint64_t flags)
{
	struct m_cq *cq = cq_of(fid);
	struct m_entry *entry = cq->entries;

	(void)flags;
	if (!entry || !entry->err)
		return -FI_EAGAIN;
	ret->op_context = entry->context;
	ret->err = entry->err;
	ret->prov_errno = -entry->err;
	cq->entries = entry->next;
	free(entry);
	return 1;
}

static int cq_close(struct fid *fid)
{
	struct m_cq *cq = container_of(fid, struct m_cq, fid.fid);
	struct m_entry *entry;

	if (cq->eps)
		return -FI_EBUSY;
	while ((entry = cq->entries)) {
		cq->entries = entry->next;
		free(entry);
	}
	if (cq->fd >= 0)
		close(cq->fd);
	cq->domain->refs--;
	free(cq);
	mock_left.cqs--;
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	return get_fd(container_of(fid, struct m_cq, fid.fid)->fd, command, arg);
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(cq_fid_ops), .close = cq_close, .control = cq_control,
};
static struct fi_ops_cq cq_ops = {
	.size = sizeof(cq_ops), .read = cq_read, .readerr = cq_readerr,
};

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
		   struct fid_cq **ret, void *context)
{
	struct m_cq *cq;
	int fd, err;

	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_ENOMEM;
	if (attr->wait_obj == FI_WAIT_FD &&
	    (mock_world.flags & MOCK_FABRIC_NO_WAIT))
		return -FI_ENOSYS;
	err = make_fd(&fd);
	if (err)
		return err;
	cq = mock_alloc(sizeof(*cq));
	cq->fd = fd;
	cq->domain = container_of(domain, struct m_domain, fid);
	cq->domain->refs++;
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->fid.ops = &cq_ops;
	*ret = &cq->fid;
	mock_left.cqs++;
	return 0;
}

/* Events. */

struct m_event *mock_tell(struct m_eq *eq, fid_t fid, uint32_t what, int err)
{
	struct m_event *event = mock_alloc(sizeof(*event));

	event->fid = fid;
	event->what = what;
	event->err = err;
	*eq->last = event;
	eq->last = &event->next;
	mock_ring(eq->fd);
	return event;
}

static void event_free(struct m_event *event)
{
	struct m_request *request;

	if (event->info) {
		request = container_of(event->info->handle, struct m_request, fid);
		request->conn->request = NULL;
		mock_conn_kill(request->conn);
		mock_conn_left(request->conn);
		free(request);
		mock_left.requests--;
		mock_info_free(event->info);
	}
	free(event);
}

static struct m_event *event_take(struct m_eq *eq, struct m_event **at)
{
	struct m_event *event = *at;

	*at = event->next;
	if (!*at)
		eq->last = at;
	return event;
}

void mock_forget_events(struct m_eq *eq, fid_t fid)
{
	struct m_event **at = &eq->events;

	while (*at)
		if ((*at)->fid == fid)
			event_free(event_take(eq, at));
		else
			at = &(*at)->next;
}

static struct m_eq *eq_of(struct fid_eq *fid)
{
	return container_of(fid, struct m_eq, fid);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *what, void *buf, size_t len,
		       uint64_t flags)
{
	struct fi_eq_cm_entry *to = buf;
	struct m_eq *eq = eq_of(fid);
	struct m_event *event;

	(void)flags;
	mock_arrive_all();
	event = eq->events;
	if (!event)
		return -FI_EAGAIN;
	if (event->err)
		return -FI_EAVAIL;
	if (len < sizeof(*to) + event->len)
		return -FI_ETOOSMALL;
	event_take(eq, &eq->events);
	*what = event->what;
	to->fid = event->fid;
	to->info = event->info;
	memcpy(to->data, event->data, event->len);
	len = sizeof(*to) + event->len;
	free(event);
	return (ssize_t)len;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *ret,
			  uint64_t flags)
{
	struct m_eq *eq = eq_of(fid);
	struct m_event *event = eq->events;

	(void)flags;
	if (!event || !event->err)
		return -FI_EAGAIN;
	event_take(eq, &eq->events);
	ret->fid = event->fid;
	ret->context = event->fid->context;
	ret->err = event->err;
	if (ret->err_data_size > event->len)
		ret->err_data_size = event->len;
	memcpy(ret->err_data, event->data, ret->err_data_size);
	free(event);
	return sizeof(*ret);
}

static int eq_close(struct fid *fid)
{
	struct m_eq *eq = container_of(fid, struct m_eq, fid.fid);

	if (eq->refs)
		return -FI_EBUSY;
	while (eq->events)
		event_free(event_take(eq, &eq->events));
	if (eq->fd >= 0)
		close(eq->fd);
	eq->fabric->refs--;
	free(eq);
	mock_left.eqs--;
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	return get_fd(container_of(fid, struct m_eq, fid.fid)->fd, command, arg);
}

static struct fi_ops eq_fid_ops = {
	.size = sizeof(eq_fid_ops), .close = eq_close, .control = eq_control,
};
static struct fi_ops_eq eq_ops = {
	.size = sizeof(eq_ops), .read = eq_read, .readerr = eq_readerr,
};

static int eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
		   struct fid_eq **ret, void *context)
{
	struct m_eq *eq;
	int fd, err;

	(void)attr;
	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_ENOMEM;
	err = make_fd(&fd);
	if (err)
		return err;
	eq = mock_alloc(sizeof(*eq));
	eq->fd = fd;
	eq->last = &eq->events;
	eq->fabric = container_of(fabric, struct m_fabric, fid);
	eq->fabric->refs++;
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fid_ops;
	eq->fid.ops = &eq_ops;
	*ret = &eq->fid;
	mock_left.eqs++;
	return 0;
}

/* Regions. */

struct m_mr *mock_mr_find(struct m_domain *domain, uint64_t key)
{
	struct m_mr *mr = domain->mrs;

	while (mr && mr->fid.key != key)
		mr = mr->next;
	return mr;
}

static int mr_close(struct fid *fid)
{
	struct m_mr *mr = container_of(fid, struct m_mr, fid.fid);
	struct m_mr **at = &mr->domain->mrs;

	if (mock_fault(MOCK_FABRIC_CLOSE))
		return -FI_EBUSY;
	if (mock_fault(MOCK_FABRIC_REGION))
		return -FI_EIO;
	while (*at != mr)
		at = &(*at)->next;
	*at = mr->next;
	mr->domain->refs--;
	free(mr);
	mock_left.mrs--;
	return 0;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(mr_fid_ops), .close = mr_close,
};

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		  uint64_t offset, uint64_t key, uint64_t flags,
		  struct fid_mr **ret, void *context)
{
	struct m_domain *domain = container_of(fid, struct m_domain, fid.fid);
	static uint64_t made;
	struct m_mr *mr;

	(void)offset, (void)flags;
	if (mock_fault(MOCK_FABRIC_REGISTER))
		return -FI_ENOMEM;
	if (mock_world.mr_mode & FI_MR_PROV_KEY)
		key = ++made * 0x10001;
	else if (mock_world.key_size < 8 && key >> (8 * mock_world.key_size))
		return -FI_EKEYREJECTED;
	else if (mock_mr_find(domain, key) || mock_fault(MOCK_FABRIC_KEY))
		return -FI_ENOKEY;
	mr = mock_alloc(sizeof(*mr));
	mr->domain = domain;
	domain->refs++;
	mr->mem = (uint8_t *)buf;
	mr->len = len;
	mr->access = access;
	mr->base = mock_world.mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)buf : 0;
	mr->fid.key = key;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = context;
	mr->fid.fid.ops = &mr_fid_ops;
	mr->next = domain->mrs;
	domain->mrs = mr;
	*ret = &mr->fid;
	mock_left.mrs++;
	return 0;
}

static struct fi_ops_mr mr_ops = { .size = sizeof(mr_ops), .reg = mr_reg };

/* Domains and fabrics. */

static int domain_close(struct fid *fid)
{
	struct m_domain *domain = container_of(fid, struct m_domain, fid.fid);

	if (domain->refs)
		return -FI_EBUSY;
	domain->fabric->refs--;
	free(domain);
	mock_left.domains--;
	return 0;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(domain_fid_ops), .close = domain_close,
};
static struct fi_ops_domain domain_ops = {
	.size = sizeof(domain_ops), .cq_open = cq_open, .endpoint = mock_ep_open,
};

static int domain_open(struct fid_fabric *fabric, struct fi_info *info,
		       struct fid_domain **ret, void *context)
{
	struct m_domain *domain;

	(void)info;
	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_ENOMEM;
	domain = mock_alloc(sizeof(*domain));
	domain->fabric = container_of(fabric, struct m_fabric, fid);
	domain->fabric->refs++;
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &domain_fid_ops;
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &mr_ops;
	*ret = &domain->fid;
	mock_left.domains++;
	return 0;
}

/* Whether there is something to read; if not the descriptor is armed. */
static bool is_ready(struct fid *fid)
{
	struct m_cq *cq = container_of(fid, struct m_cq, fid.fid);
	struct m_eq *eq = container_of(fid, struct m_eq, fid.fid);
	struct m_ep *ep;

	if (fid->fclass == FI_CLASS_EQ) {
		quiet(eq->fd);
		return eq->events;
	}
	quiet(cq->fd);
	for (ep = cq->eps; ep; ep = ep->next)
		if (ep->inbox)
			return true;
	return cq->entries;
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	bool ready = false;
	int i;

	(void)fabric;
	mock_arrive_all();
	for (i = 0; i < count; i++)
		ready = is_ready(fids[i]) || ready;
	return ready ? -FI_EAGAIN : 0;
}

static int fabric_close(struct fid *fid)
{
	struct m_fabric *fabric = container_of(fid, struct m_fabric, fid.fid);

	if (fabric->refs)
		return -FI_EBUSY;
	free(fabric);
	mock_left.fabrics--;
	return 0;
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(fabric_fid_ops), .close = fabric_close,
};
static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(fabric_ops), .domain = domain_open,
	.passive_ep = mock_pep_open, .eq_open = eq_open, .trywait = trywait,
};

int mock_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **ret,
		     void *context)
{
	struct m_fabric *fabric;

	(void)attr;
	if (mock_fault(MOCK_FABRIC_SETUP))
		return -FI_ENOMEM;
	fabric = mock_alloc(sizeof(*fabric));
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &fabric_fid_ops;
	fabric->fid.ops = &fabric_ops;
	*ret = &fabric->fid;
	mock_left.fabrics++;
	return 0;
}

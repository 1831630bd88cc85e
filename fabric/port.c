/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port: a domain of libfabric's with a queue of completions and one of events,
 * which a poll hook reads.
 *
 * Reading the queue of events takes system calls, so it is read when its descriptor
 * was readable, while a connection is being made, and now and then.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fabric/fabric.h"

#define COMPLETIONS 16		/* Read together. */
#define READS 4			/* Of so many, in a poll. */
#define EVENTS 8		/* In a poll. */
#define EVENTS_EACH 64		/* Polls without a reason to read events. */
#define DATA_MAX 256		/* Bytes that come with an event. */

union event {
	struct fi_eq_cm_entry entry;
	uint8_t bytes[sizeof(struct fi_eq_cm_entry) + DATA_MAX];
};

/* Completions. */

/* Returns whether there was one. */
static bool take_error(struct port *port)
{
	struct fi_cq_err_entry entry = { 0 };
	struct slice *slice;

	if (fi_cq_readerr(port->cq, &entry, 0) < 1)
		return false;
	slice = entry.op_context;
	if (slice && slice->link)
		slice_ended(slice, entry.err ? entry.err : FI_EIO);
	return true;
}

/* Returns how many were read, or a negative number. */
static int read_completions(struct port *port)
{
	struct fi_cq_entry entries[COMPLETIONS];
	struct slice *slice;
	ssize_t n = fi_cq_read(port->cq, entries, COMPLETIONS), i;

	if (n == -FI_EAVAIL)
		return take_error(port);
	for (i = 0; i < n; i++) {
		slice = entries[i].op_context;
		if (slice && slice->link)
			slice_ended(slice, 0);
	}
	return (int)n;
}

void port_drain(struct port *port)
{
	while (read_completions(port) > 0)
		;
}

/* Events. */

static struct end *find_end(struct port *port, const struct fid *fid)
{
	struct end *end = port->ends;

	while (end && (!end->ep || &end->ep->fid != fid))
		end = end->next;
	return end;
}

static void take_failure(struct port *port)
{
	uint8_t data[DATA_MAX] = { 0 };
	struct fi_eq_err_entry entry = {
		.err_data = data, .err_data_size = sizeof(data),
	};
	struct end *end;

	if (fi_eq_readerr(port->eq, &entry, 0) < 0)
		return;
	end = find_end(port, entry.fid);
	if (end && end->grant)
		grant_event(port, end, FI_SHUTDOWN);
	else if (end)
		link_refused(weir_container_of(end, struct link, end), &entry);
}

/* Returns whether there was one. */
static bool take_event(struct port *port)
{
	union event event;
	struct end *end;
	uint32_t what;
	ssize_t n = fi_eq_read(port->eq, &what, &event, sizeof(event), 0);

	if (n == -FI_EAVAIL) {
		take_failure(port);
		return true;
	}
	if (n < (ssize_t)sizeof(event.entry))
		return false;
	if (what == FI_CONNREQ) {
		grant_request(port, &event.entry,
			      (size_t)n - sizeof(event.entry));
		return true;
	}
	end = find_end(port, event.entry.fid);
	if (end && end->grant)
		grant_event(port, end, what);
	else if (end)
		link_event(weir_container_of(end, struct link, end), what);
	return true;
}

static int read_events(struct port *port)
{
	int n = 0;

	if (!port->has_events && !port->connecting &&
	    ++port->polls % EVENTS_EACH)
		return 0;
	while (n < EVENTS && take_event(port))
		n++;
	port->has_events = n == EVENTS;
	return n;
}

/* Closes links of imports that have ended; those with jobs a later turn does. */
static void sweep(struct port *port)
{
	struct link *link, *next;
	eventfd_t n;

	if (!atomic_load_explicit(&port->has_ended, memory_order_relaxed))
		return;
	fabric_lock();
	eventfd_read(port->wakefd, &n);
	atomic_store(&port->has_ended, 0);
	for (link = port->links; link; link = next) {
		next = link->next;
		if (!atomic_load(&link->peer->ended))
			continue;
		if (link->in_flight || link->first || !link_free(link))
			atomic_store(&port->has_ended, 1);
	}
	peer_retry();
	fabric_unlock();
}

static void mend_links(struct port *port)
{
	struct link *link;

	/* It may break others. */
	while (port->is_broken) {
		port->is_broken = false;
		for (link = port->links; link; link = link->next)
			link_mend(link);
	}
}

/* The hook. */

/* What peers do to memory here completes nothing.  That a descriptor tells of it keeps
 * the reactor from sleeping between two requests. */
static bool has_requests(struct port *port)
{
	struct fid *eq = &port->eq->fid;
	struct epoll_event events[4];
	int n = epoll_wait(port->epfd, events, 4, 0), i;
	bool found = false;

	for (i = 0; i < n; i++)
		if (events[i].data.fd != port->eqfd)
			found = true;
		else if (fi_trywait(port->fid, &eq, 1))
			port->has_events = true;
	return found;
}

static int poll_port(void *arg)
{
	struct port *port = arg;
	struct fid *cq = &port->cq->fid;
	int found = 0, n, i;

	if (port->conns) {
		found = has_requests(port);
		if (!found && !port->has_events && !port->in_flight &&
		    !port->connecting && !port->is_broken && !port->ready &&
		    !atomic_load(&port->has_ended))
			return 0;
	}
	for (i = 0; i < READS; i++) {
		n = read_completions(port);
		found |= n > 0;
		if (n < COMPLETIONS)
			break;
	}
	/* From 1.18 on its descriptor stays readable after a completion until then. */
	if (port->conns && (i || n > 0))
		(void)fi_trywait(port->fid, &cq, 1);
	found |= read_events(port) > 0;
	sweep(port);
	mend_links(port);
	port_post(port);
	return found;
}

static bool can_post(const struct port *port)
{
	const struct link *link = port->ready;

	while (link && link->is_full)
		link = link->next_ready;
	return link && port->free;
}

static int before_sleep(void *arg, int *fd)
{
	struct port *port = arg;
	struct fid *fids[] = { &port->cq->fid, &port->eq->fid };
	int err;

	*fd = port->epfd;
	if (port->has_events || port->is_broken || can_post(port))
		return 1;
	err = fi_trywait(port->fid, fids, 2);
	/* It may have reset the descriptors by which the next poll would know. */
	if (err == -FI_EAGAIN) {
		port->has_events = true;
		return 1;
	}
	return err ? fabric_errno(err) : 0;
}

static void after_sleep(void *arg, int readable)
{
	struct port *port = arg;

	if (readable)
		port->has_events = true;
}

static const struct weir_poll_hook_ops hook_ops = {
	.size = sizeof(hook_ops), .name = "fabric", .poll = poll_port,
	.before_sleep = before_sleep, .after_sleep = after_sleep,
};

void port_wake(struct port *port)
{
	atomic_store(&port->has_ended, 1);
	eventfd_write(port->wakefd, 1);
}

/* Time. */

static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct port *port = arg;
	uint64_t now = weir_reactor_now(port->fabric->reactor), when;
	uint64_t next = WEIR_FOREVER;
	struct link *link;

	(void)timer, (void)n;
	for (link = port->links; link; link = link->next) {
		when = link_timer(link, now);
		if (when < next)
			next = when;
	}
	mend_links(port);
	grant_retry(port);
	if (next != WEIR_FOREVER)
		port_timer(port, next);
	port_post(port);
}

void port_timer(struct port *port, uint64_t when)
{
	if (when == WEIR_FOREVER ||
	    (weir_timer_is_set(port->timer) && port->timer_at <= when))
		return;
	port->timer_at = when;
	weir_timer_start(port->timer, when, 0);
}

/* Endpoints. */

int end_make(struct port *port, struct end *end, struct fi_info *info)
{
	int err = fi_endpoint(port->domain, info, &end->ep, end);

	if (err) {
		end->ep = NULL;
		return err;
	}
	end->next = port->ends;
	end->pprev = &port->ends;
	if (end->next)
		end->next->pprev = &end->next;
	port->ends = end;
	return 0;
}

int end_enable(struct port *port, struct end *end)
{
	int err = fi_ep_bind(end->ep, &port->eq->fid, 0);

	if (!err)
		err = fi_ep_bind(end->ep, &port->cq->fid, FI_TRANSMIT | FI_RECV);
	return err ? err : fi_enable(end->ep);
}

int end_close(struct end *end)
{
	int err = end->ep ? fi_close(&end->ep->fid) : 0;

	if (err)
		return err;
	if (end->ep) {
		*end->pprev = end->next;
		if (end->next)
			end->next->pprev = end->pprev;
	}
	end->ep = NULL;
	return 0;
}

/* Ports. */

/* What libfabric may still use is kept for ever. */
void port_free(struct port *port)
{
	struct link *link, *next;
	int n;

	for (link = port->links; link; link = next) {
		next = link->next;
		for (n = 0; n < CLOSES && !link_free(link); n++)
			port_drain(port);
	}
	while (port->grants)
		grant_orphan(port->grants);
	weir_poll_hook_destroy(port->hook);
	weir_timer_destroy(port->timer);
	while (port->links)
		link_keep(port->links);
	if (port->ends)
		return;
	if (port->pep)
		fi_close(&port->pep->fid);
	if (port->cq)
		fi_close(&port->cq->fid);
	if (port->eq)
		fi_close(&port->eq->fid);
	if (port->domain)
		fi_close(&port->domain->fid);
	if (port->fid)
		fi_close(&port->fid->fid);
	if (port->epfd >= 0)
		close(port->epfd);
	if (port->wakefd >= 0)
		close(port->wakefd);
	free(port->slices);
	card_unref(port->card);
	free(port);
}

static int watch(struct port *port, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(port->epfd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_descriptors(struct port *port)
{
	int cq = -1, err;

	port->epfd = weir_fault("epoll") ? -1 : epoll_create1(EPOLL_CLOEXEC);
	port->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (port->epfd < 0 || port->wakefd < 0)
		return -EMFILE;
	err = fabric_errno(fi_control(&port->cq->fid, FI_GETWAIT, &cq));
	if (!err)
		err = fabric_errno(fi_control(&port->eq->fid, FI_GETWAIT, &port->eqfd));
	if (!err)
		err = watch(port, cq);
	if (!err)
		err = watch(port, port->eqfd);
	return err ? err : watch(port, port->wakefd);
}

static int open_queues(struct port *port)
{
	struct fi_cq_attr cq = {
		.size = SLICES, .format = FI_CQ_FORMAT_CONTEXT,
		.wait_obj = FI_WAIT_FD,
	};
	struct fi_eq_attr eq = { .size = 256, .wait_obj = FI_WAIT_FD };
	const char *why;
	struct fi_info *info = port->card->info;
	int err = fabric_library(&why)->fabric(info->fabric_attr, &port->fid,
					       NULL);

	if (!err)
		err = fi_domain(port->fid, info, &port->domain, NULL);
	if (!err)
		err = fi_cq_open(port->domain, &cq, &port->cq, NULL);
	if (!err)
		err = fi_eq_open(port->fid, &eq, &port->eq, NULL);
	return fabric_errno(err);
}

/* What is not there yet is not freed by port_free(). */
static int port_make(struct port *port, const char *call)
{
	int err = open_queues(port), i;

	if (!err)
		err = open_descriptors(port);
	if (err)
		return weir_why_set(err, "%s: %s cannot be used: %s", call,
				    port->card->name, fabric_error(err));
	for (i = 0; i < SLICES; i++) {
		port->slices[i].next = port->free;
		port->free = &port->slices[i];
	}
	err = weir_timer_create(&port->timer, port->fabric->reactor, on_timer,
				port);
	return err ? err : weir_poll_hook_create(&port->hook,
						 port->fabric->reactor,
						 &hook_ops, port);
}

int port_of(struct port **ret, struct fabric *f, struct card *card,
	    const char *call)
{
	struct port *port = f->ports;
	int err;

	while (port && port->card != card)
		port = port->next;
	if (port) {
		*ret = port;
		return 0;
	}
	port = weir_fault("malloc") ? NULL : calloc(1, sizeof(*port));
	if (!port)
		return weir_why_set(-ENOMEM, "%s: no memory", call);
	port->fabric = f;
	port->card = card;
	port->epfd = port->wakefd = -1;
	port->last_ready = &port->ready;
	atomic_fetch_add(&card->refs, 1);
	port->slices = weir_fault("malloc") ? NULL :
		       calloc(SLICES, sizeof(*port->slices));
	err = port->slices ? port_make(port, call) :
			     weir_why_set(-ENOMEM, "%s: no memory", call);
	if (err) {
		port_free(port);
		return err;
	}
	port->next = f->ports;
	*ret = f->ports = port;
	return 0;
}

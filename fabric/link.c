/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The importer's side: a connection for each peer's memory on each reactor.
 *
 * It is made when there is a job, and again when it has ended and there are jobs of
 * which nothing was in flight.  If it has ended twice in a row before anything was
 * posted, the jobs end.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"

#define FRUITLESS_MAX 2

static void set_state(struct link *link, int state)
{
	struct port *port = link->port;

	if (link->state == LINK_CONNECTING || link->state == LINK_CLOSING)
		port->connecting--;
	if (state == LINK_CONNECTING || state == LINK_CLOSING)
		port->connecting++;
	if (link->state == LINK_UP)
		atomic_fetch_sub(&port->card->links, 1);
	if (state == LINK_UP)
		atomic_fetch_add(&port->card->links, 1);
	link->state = (uint8_t)state;
}

void link_ready(struct link *link)
{
	struct port *port = link->port;

	if (link->is_ready || link->state != LINK_UP || !link->first)
		return;
	link->is_ready = true;
	link->next_ready = NULL;
	*port->last_ready = link;
	port->last_ready = &link->next_ready;
}

static void leave_ready(struct link *link)
{
	struct port *port = link->port;
	struct link **at = &port->ready;

	link->is_full = false;
	if (!link->is_ready)
		return;
	while (*at != link)
		at = &(*at)->next_ready;
	*at = link->next_ready;
	if (!*at)
		port->last_ready = at;
	link->is_ready = false;
}

/* Closes the endpoint, and ends what was posted there: what libfabric has not
 * completed by then it will not complete any more.  Returns false if it is not closed:
 * link_mend() tries again. */
static bool disconnect(struct link *link, int err)
{
	struct slice *slice;

	leave_ready(link);
	if (end_close(&link->end)) {
		set_state(link, LINK_CLOSING);
		link->broken = true;
		link->error = err;
		port_timer(link->port, RETRY_NS +
			   weir_reactor_now(link->port->fabric->reactor));
		return false;
	}
	set_state(link, LINK_IDLE);
	port_drain(link->port);
	while ((slice = link->posted))
		slice_ended(slice, err);
	link->broken = false;
	return true;
}

int link_connect(struct link *link)
{
	static const char call[] = "weir_job_start";
	struct port *port = link->port;
	struct card *card = port->card;
	struct fabric_hello hello = { .version = HELLO_VERSION };
	uint64_t limit = atomic_load(&card->connect_ns);
	int err = end_make(port, &link->end, card->info);

	memcpy(hello.magic, HELLO_MAGIC, sizeof(hello.magic));
	memcpy(hello.token, link->peer->token, TOKEN);
	if (!err)
		err = end_enable(port, &link->end);
	if (!err)
		err = fi_connect(link->end.ep, link->peer->address, &hello,
				 sizeof(hello));
	if (err) {
		disconnect(link, -err);
		return weir_why_set(fabric_errno(err), "%s: %s: no connection: %s",
				    call, card->name, fabric_error(err));
	}
	set_state(link, LINK_CONNECTING);
	link->fruitless++;
	link->deadline = limit == WEIR_FOREVER ? limit :
			 weir_reactor_now(port->fabric->reactor) + limit;
	port_timer(port, link->deadline);
	return 0;
}

/* It could not be made. */
static void refuse(struct link *link, int err, int code)
{
	atomic_fetch_add(&link->port->card->refused, 1);
	disconnect(link, code);
	link->fruitless = 0;
	link_end_jobs(link, err, code);
}

void link_event(struct link *link, uint32_t event)
{
	if (event == FI_CONNECTED && link->state == LINK_CONNECTING) {
		set_state(link, LINK_UP);
		link->moved = weir_reactor_now(link->port->fabric->reactor);
		atomic_fetch_add(&link->port->card->connects, 1);
		link_ready(link);
	} else if (event == FI_SHUTDOWN) {
		link_is_broken(link, FI_ECONNRESET);
	}
}

void link_refused(struct link *link, const struct fi_eq_err_entry *err)
{
	const uint8_t *reason = err->err_data;

	if (link->state != LINK_CONNECTING)
		link_is_broken(link, err->err);
	else if (err->err_data_size && *reason == REJECT_ENDED)
		refuse(link, -ESTALE, err->err);
	else
		refuse(link, err->err == FI_ETIMEDOUT ? -ETIMEDOUT :
			     -ECONNREFUSED, err->err);
}

/* It is closed when no queue is being read. */
void link_is_broken(struct link *link, int err)
{
	if (link->broken || link->state == LINK_IDLE)
		return;
	link->broken = true;
	link->error = err;
	link->port->is_broken = true;
	atomic_fetch_add(&link->port->card->lost, 1);
}

void link_mend(struct link *link)
{
	int err, code = link->error;

	if (!link->broken || !disconnect(link, code) || !link->first)
		return;
	err = link->fruitless >= FRUITLESS_MAX ||
	      atomic_load(&link->peer->ended) ? -ECONNRESET : link_connect(link);
	if (!err)
		return;
	link->fruitless = 0;
	link_end_jobs(link, err == -EAGAIN ? -ECONNRESET : err, code);
}

void link_watch(struct link *link)
{
	struct card *card = link->port->card;
	uint64_t stall = atomic_load_explicit(&card->stall_ns,
					      memory_order_relaxed);

	if (stall != WEIR_FOREVER)
		port_timer(link->port, link->moved + stall);
	if (link->cancelled)
		port_timer(link->port, link->grace);
}

/* Returns when it is to be asked again. */
uint64_t link_timer(struct link *link, uint64_t now)
{
	uint64_t stall = atomic_load(&link->port->card->stall_ns);
	uint64_t when = WEIR_FOREVER;

	if (link->state == LINK_CONNECTING) {
		if (link->deadline > now)
			return link->deadline;
		refuse(link, -ETIMEDOUT, FI_ETIMEDOUT);
		return WEIR_FOREVER;
	}
	if (link->state == LINK_CLOSING) {
		link->port->is_broken = true;
		return now + RETRY_NS;
	}
	if (!link->in_flight && !link->is_full)
		return WEIR_FOREVER;
	if (stall != WEIR_FOREVER)
		when = link->moved + stall;
	if (link->cancelled && link->grace < when)
		when = link->grace;
	if (when > now)
		return link->in_flight || when < now + RETRY_NS ?
		       when : now + RETRY_NS;
	link_is_broken(link, FI_ETIMEDOUT);
	return WEIR_FOREVER;
}

/* It is not one of the port's any more.  Under the lock. */
static void leave(struct link *link)
{
	*link->pprev = link->next;
	if (link->next)
		link->next->pprev = link->pprev;
	link->peer->links[link->port->fabric->slot] = NULL;
}

bool link_free(struct link *link)
{
	if (!disconnect(link, FI_ECANCELED))
		return false;
	leave(link);
	free(link);
	return true;
}

void link_keep(struct link *link)
{
	leave(link);
}

int link_of(struct link **ret, struct fabric *f, struct peer *peer)
{
	static const char call[] = "weir_job_start";
	struct link *link = peer->links[f->slot];
	struct port *port;
	int err;

	if (atomic_load(&peer->ended))
		return weir_why_set(-ESTALE, "%s: the import was destroyed", call);
	*ret = link;
	if (link)
		return 0;
	err = port_of(&port, f, peer->card, call);
	if (err)
		return err;
	link = weir_fault("malloc") ? NULL : calloc(1, sizeof(*link));
	if (!link)
		return weir_why_set(-ENOMEM, "%s: no memory", call);
	link->port = port;
	link->peer = peer;
	link->last = &link->first;
	link->next = port->links;
	link->pprev = &port->links;
	if (link->next)
		link->next->pprev = &link->next;
	port->links = link;
	fabric_lock();
	peer->links[f->slot] = link;
	fabric_unlock();
	*ret = link;
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exporter's side.  Each grant has connections of its own, which are closed
 * before its registration is: libfabric lets a write that has begun go on after
 * fi_close() of the region, but not after that of the endpoint.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <weir/mmap.h>

#include "fabric/fabric.h"

#define CONNS_MAX 1024		/* Of a grant. */
#define KEYS 8			/* Drawn, where another region may have it. */

/* Nothing tells how much of it is right. */
static bool is_token(const uint8_t *a, const uint8_t *b)
{
	unsigned int differs = 0;
	int i;

	for (i = 0; i < TOKEN; i++)
		differs |= (unsigned int)(a[i] ^ b[i]);
	return !differs;
}

static struct grant *find_grant(struct port *port, const uint8_t *data,
				size_t len)
{
	struct fabric_hello hello;
	struct grant *grant;

	/* A provider may have padded it. */
	if (len < sizeof(hello))
		return NULL;
	memcpy(&hello, data, sizeof(hello));
	if (memcmp(hello.magic, HELLO_MAGIC, sizeof(hello.magic)) ||
	    hello.version != HELLO_VERSION)
		return NULL;
	grant = port->grants;
	while (grant && (grant->is_ending ||
			 !is_token(grant->token, hello.token)))
		grant = grant->next;
	return grant;
}

static void conn_free(struct port *port, struct conn *conn)
{
	struct grant *grant = conn->end.grant;

	/* What cannot be closed keeps its memory: the grant does not end. */
	if (end_close(&conn->end)) {
		port->connecting += !conn->connecting;
		conn->connecting = conn->is_closing = true;
		port_timer(port, RETRY_NS +
			   weir_reactor_now(port->fabric->reactor));
		return;
	}
	port->connecting -= conn->connecting;
	port->conns--;
	grant->conns--;
	atomic_fetch_sub(&port->card->conns, 1);
	free(conn);
}

/* Returns whether the request has become an endpoint's. */
static bool accept_conn(struct port *port, struct grant *grant,
			struct fi_info *info)
{
	struct conn *conn = grant->conns >= CONNS_MAX ||
			    weir_fault("malloc") ? NULL :
			    calloc(1, sizeof(*conn));

	if (!conn)
		return false;
	conn->end.grant = grant;
	if (end_make(port, &conn->end, info)) {
		free(conn);
		return false;
	}
	conn->connecting = true;
	port->connecting++;
	port->conns++;
	grant->conns++;
	atomic_fetch_add(&port->card->conns, 1);
	if (end_enable(port, &conn->end) ||
	    fi_accept(conn->end.ep, NULL, 0))
		conn_free(port, conn);
	return true;
}

void grant_request(struct port *port, struct fi_eq_cm_entry *request, size_t len)
{
	struct grant *grant = find_grant(port, request->data, len);
	uint8_t reason = grant ? REJECT_BUSY : REJECT_ENDED;
	const char *why;

	if (!grant || !accept_conn(port, grant, request->info))
		fi_reject(port->pep, request->info->handle, &reason,
			  sizeof(reason));
	fabric_library(&why)->freeinfo(request->info);
}

void grant_event(struct port *port, struct end *end, uint32_t event)
{
	struct conn *conn = weir_container_of(end, struct conn, end);

	if (event == FI_CONNECTED && !conn->is_closing) {
		port->connecting -= conn->connecting;
		conn->connecting = false;
		atomic_fetch_add(&port->card->accepted, 1);
	} else if (event == FI_SHUTDOWN) {
		conn_free(port, conn);
	}
}

void grant_retry(struct port *port)
{
	struct end *end, *next;
	struct conn *conn;

	for (end = port->ends; end; end = next) {
		next = end->next;
		conn = weir_container_of(end, struct conn, end);
		if (end->grant && conn->is_closing)
			conn_free(port, conn);
	}
}

/* Closes its connections, and then the region.  Returns 0, or libfabric's error. */
static int close_grant(struct grant *grant)
{
	struct end *end, *next;

	grant->is_ending = true;
	for (end = grant->port->ends; end; end = next) {
		next = end->next;
		if (end->grant == grant)
			conn_free(grant->port, weir_container_of(end, struct conn,
								 end));
	}
	return grant->conns ? -FI_EBUSY : fi_close(&grant->mr->fid);
}

static void unlink_grant(struct grant *grant)
{
	*grant->pprev = grant->next;
	if (grant->next)
		grant->next->pprev = grant->pprev;
	grant->port = NULL;
}

int grant_end(struct grant *grant)
{
	static const char call[] = "weir_mmap_stop";
	int err;

	if (grant->port) {
		if (!pthread_equal(grant->thread, pthread_self()))
			return weir_why_set(-EBUSY, "%s: only the thread that has "
					    "exported the memory takes it back",
					    call);
		err = close_grant(grant);
		if (err == -FI_EBUSY)
			return weir_why_set(-EINPROGRESS, "a connection of %s",
					    grant->port->card->name);
		if (err)
			return weir_why_set(fabric_errno(err), "%s: libfabric keeps "
					    "the registration: %s", call,
					    fabric_error(err));
		unlink_grant(grant);
	}
	if (grant->is_kept)
		return weir_why_set(-EBUSY, "%s: libfabric has not closed it", call);
	free(grant);
	return 0;
}

/* The reactor's last DMA context is destroyed. */
void grant_orphan(struct grant *grant)
{
	int n = 0;

	while ((grant->is_kept = close_grant(grant)) && ++n < CLOSES)
		port_drain(grant->port);
	unlink_grant(grant);
}

static int listen_at(struct port *port)
{
	struct fi_info *info = port->card->info;
	int err;

	if (port->pep)
		return 0;
	err = fi_passive_ep(port->fid, info, &port->pep, NULL);
	if (err) {
		port->pep = NULL;
		return err;
	}
	err = fi_pep_bind(port->pep, &port->eq->fid, 0);
	if (!err)
		err = fi_listen(port->pep);
	if (!err)
		return 0;
	fi_close(&port->pep->fid);
	port->pep = NULL;
	return err;
}

int port_address(const struct port *port, uint8_t *to, size_t *len)
{
	return fabric_errno(fi_getname(&port->pep->fid, to, len));
}

static int register_memory(struct grant *grant, struct region *region,
			   uint32_t permissions)
{
	size_t size = grant->port->card->info->domain_attr->mr_key_size;
	uint64_t access = FI_REMOTE_READ, key = 0;
	int err, n = 0;

	if (permissions & WEIR_MMAP_PEER_WRITE)
		access |= FI_REMOTE_WRITE;
	if (getrandom(grant->token, TOKEN, 0) != TOKEN)
		return -FI_EIO;
	do {
		if (getrandom(&key, sizeof(key), 0) != sizeof(key))
			return -FI_EIO;
		if (size < sizeof(key))
			key &= ((uint64_t)1 << (8 * size)) - 1;
		err = fi_mr_reg(grant->port->domain, region->addr, region->len,
				access, 0, key, 0, &grant->mr, NULL);
	} while (err == -FI_ENOKEY && ++n < KEYS);
	return err;
}

int grant_make(struct grant **ret, struct port *port, struct region *region,
	       uint32_t permissions)
{
	static const char call[] = "weir_mmap_export_device";
	struct grant *grant = weir_fault("malloc") ? NULL :
			      calloc(1, sizeof(*grant));
	int err;

	if (!grant)
		return -ENOMEM;
	grant->port = port;
	grant->thread = port->fabric->thread;
	err = listen_at(port);
	if (!err)
		err = register_memory(grant, region, permissions);
	if (!err && fi_mr_key(grant->mr) == FI_KEY_NOTAVAIL) {
		fi_close(&grant->mr->fid);
		err = -FI_EOPNOTSUPP;
	}
	if (err) {
		free(grant);
		return weir_why_set(fabric_errno(err), "%s: %s: %s", call,
				    port->card->name, fabric_error(err));
	}
	grant->next = port->grants;
	grant->pprev = &port->grants;
	if (grant->next)
		grant->next->pprev = &grant->next;
	*ret = port->grants = grant;
	return 0;
}

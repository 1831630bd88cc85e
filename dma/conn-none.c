/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections without rdma-core: there are none. */

#include <weir/conn.h>

#include "dma/no-verbs.h"

int weir_conn_create(struct weir_conn **ret, struct weir_reactor *r,
		     struct weir_channel *channel,
		     const struct weir_conn_opts *opts)
{
	(void)ret, (void)r, (void)channel, (void)opts;
	return no_verbs("weir_conn_create");
}

int weir_conn_connect(struct weir_conn *c, struct weir_op *op,
		      const struct sockaddr *to, socklen_t to_len,
		      const struct sockaddr *from, socklen_t from_len,
		      const void *data, size_t len)
{
	(void)c, (void)op, (void)to, (void)to_len, (void)from, (void)from_len;
	(void)data, (void)len;
	return no_verbs("weir_conn_connect");
}

int weir_conn_accept(struct weir_conn *c, struct weir_op *op, const void *data,
		     size_t len)
{
	(void)c, (void)op, (void)data, (void)len;
	return no_verbs("weir_conn_accept");
}

int weir_conn_reject(struct weir_conn *c, const void *data, size_t len)
{
	(void)c, (void)data, (void)len;
	return no_verbs("weir_conn_reject");
}

int weir_conn_disconnect(struct weir_conn *c, struct weir_op *op)
{
	(void)c, (void)op;
	return no_verbs("weir_conn_disconnect");
}

void weir_conn_set_end_fn(struct weir_conn *c, weir_conn_end_fn *fn, void *arg)
{
	(void)c, (void)fn, (void)arg;
}

int weir_conn_state(const struct weir_conn *c)
{
	(void)c;
	return no_verbs("weir_conn_state");
}

const void *weir_conn_peer_data(const struct weir_conn *c, size_t *len)
{
	(void)c;
	*len = 0;
	return NULL;
}

int weir_conn_peer_address(const struct weir_conn *c, struct sockaddr *addr,
			   socklen_t *len)
{
	(void)c, (void)addr, (void)len;
	return no_verbs("weir_conn_peer_address");
}

int weir_conn_info(const struct weir_conn *c, struct weir_conn_info *ret)
{
	(void)c, (void)ret;
	return no_verbs("weir_conn_info");
}

int weir_conn_attach(struct weir_conn *c, struct weir_domain *domain)
{
	(void)c, (void)domain;
	return no_verbs("weir_conn_attach");
}

int weir_conn_detach(struct weir_conn *c, struct weir_domain *domain)
{
	(void)c, (void)domain;
	return no_verbs("weir_conn_detach");
}

/* Of NULL, and there is nothing else. */
int weir_conn_destroy(struct weir_conn *c)
{
	(void)c;
	return 0;
}

int weir_listener_create(struct weir_listener **ret, struct weir_reactor *r,
			 const struct sockaddr *addr, socklen_t len,
			 const struct weir_listener_opts *opts)
{
	(void)ret, (void)r, (void)addr, (void)len, (void)opts;
	return no_verbs("weir_listener_create");
}

int weir_listener_address(const struct weir_listener *l, struct sockaddr *addr,
			  socklen_t *len)
{
	(void)l, (void)addr, (void)len;
	return no_verbs("weir_listener_address");
}

int weir_listener_next(struct weir_listener *l, struct weir_op *op,
		       struct weir_conn **ret)
{
	(void)l, (void)op, (void)ret;
	return no_verbs("weir_listener_next");
}

int weir_listener_destroy(struct weir_listener *l)
{
	(void)l;
	return 0;
}

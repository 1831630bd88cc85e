/* SPDX-License-Identifier: BSD-3-Clause */

/* The errnos that the headers of RDMA document, over the mock. */

#include "tests/support/errnos-fixture.h"
#include "tests/support/channel-fixture.h"
#include "tests/support/message-fixture.h"
#include "tests/support/mw-fixture.h"

#include <weir/rdma/cm.h>
#include <weir/rdma/device.h>
#include <weir/rdma/export.h>
#include <weir/srq.h>
#include <weir/sync-remote.h>
#include <weir/sync.h>
#include <weir/rdma/verbs-event.h>

/* The sources. */

static int64_t channel_without(void **state, void (*scarce)(void))
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = NULL;
	int64_t err;

	scarce();
	err = plenty(weir_channel_create(&ch, r, ctx, NULL));
	fixture_close_device(ctx);
	return err;
}

RETURNS(weir_channel_create, EMFILE)
{
	return channel_without(state, no_descriptors);
}

RETURNS(weir_channel_create, ENOMEM)
{
	return channel_without(state, no_memory);
}

RETURNS(weir_channel_create, E2BIG)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = NULL;
	int err = weir_channel_create(&ch, r, ctx, later_options());

	fixture_close_device(ctx);
	return err;
}

RETURNS(weir_channel_stats, EINVAL)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_channel *ch = fixture_channel(r, ctx, 0, 0);
	int err = weir_channel_stats(ch, no_capacity());

	fixture_destroy(ch);
	fixture_close_device(ctx);
	return err;
}

static void on_verbs_event(struct weir_verbs_event *source,
			   const struct ibv_async_event *ev, void *arg)
{
	(void)source, (void)ev, (void)arg;
}

RETURNS(weir_verbs_event_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_verbs_event *source = NULL;
	int64_t err;

	no_memory();
	err = plenty(weir_verbs_event_create(&source, r, ctx, on_verbs_event,
					     NULL));
	fixture_close_device(ctx);
	return err;
}

static void on_cm_event(struct weir_cm *cm, const struct rdma_cm_event *ev,
			void *arg)
{
	(void)cm, (void)ev, (void)arg;
}

RETURNS(weir_cm_create, EMFILE)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_cm *cm = NULL;

	no_descriptors();
	return plenty(weir_cm_create(&cm, r, on_cm_event, NULL));
}

RETURNS(weir_cm_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_cm *cm = NULL;

	no_memory();
	return plenty(weir_cm_create(&cm, r, on_cm_event, NULL));
}

/* Connections. */

RETURNS(weir_conn_create, EMFILE)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_conn *c = NULL;

	no_descriptors();
	return plenty(weir_conn_create(&c, r, NULL, NULL));
}

RETURNS(weir_conn_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_conn *c = NULL;

	no_memory();
	return plenty(weir_conn_create(&c, r, NULL, NULL));
}

RETURNS(weir_conn_create, ESHUTDOWN)
{
	struct weir_conn *c = NULL;

	return weir_conn_create(&c, stopped_reactor(state), NULL, NULL);
}

/* A listener of the own address on @r. */
static int64_t listener_on(struct weir_reactor *r, void *opts)
{
	struct address a = ip(own_ip(AF_INET), 0);
	struct weir_listener *l = NULL;

	return weir_listener_create(&l, r, sa_of(&a), a.len, opts);
}

RETURNS(weir_listener_create, E2BIG)
{
	return listener_on(start_reactor(state), later_options());
}

RETURNS(weir_listener_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);

	no_memory();
	return plenty(listener_on(r, NULL));
}

RETURNS(weir_listener_create, ESHUTDOWN)
{
	return listener_on(stopped_reactor(state), NULL);
}

RETURNS(weir_listener_create, EADDRNOTAVAIL)
{
	struct weir_reactor *r = start_reactor(state);
	struct address a = ip("192.0.2.1", 0);
	struct weir_listener *l = NULL;

	return weir_listener_create(&l, r, sa_of(&a), a.len, NULL);
}

/* Connections may not receive into what another reactor has. */
RETURNS(weir_listener_create, EXDEV)
{
	struct weir_conn_opts conn = { .size = sizeof(conn) };
	struct weir_listener_opts opts = { .size = sizeof(opts),
					   .conn = &conn };
	struct weir_reactor *r = start_reactor(state), *other = NULL;
	int64_t err;

	assert_int_equal(weir_reactor_create(&other, NULL), 0);
	assert_int_equal(weir_srq_create(&conn.srq, other, NULL), 0);
	err = listener_on(r, &opts);
	assert_int_equal(weir_srq_destroy(conn.srq), 0);
	assert_int_equal(weir_reactor_destroy(other), 0);
	return err;
}

RETURNS(weir_srq_create, E2BIG)
{
	struct weir_srq *srq = NULL;

	return weir_srq_create(&srq, start_reactor(state), later_options());
}

RETURNS(weir_srq_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_srq *srq = NULL;

	no_memory();
	return plenty(weir_srq_create(&srq, r, NULL));
}

RETURNS(weir_srq_create, ESHUTDOWN)
{
	struct weir_srq *srq = NULL;

	return weir_srq_create(&srq, stopped_reactor(state), NULL);
}

/* The reactor stops, and has not ended what it has yet. */
static void stop_turn(struct weir_reactor *r)
{
	weir_reactor_stop(r);
	while (weir_reactor_state(r) == WEIR_REACTOR_RUNNING)
		some_turns(r, 1);
}

/* What a call on two ends of a connection returns: @call is made on @e, which
 * stands if @stands, after @before. */
static int64_t on_ends(void **state, bool stands,
		       void (*before)(struct weir_reactor *r),
		       int64_t (*call)(struct ends *e))
{
	struct ends e;
	int64_t err;

	small_reactor(state);
	ends_begin(&e, state, AF_INET);
	if (stands)
		ends_establish(&e);
	if (before)
		before(e.r);
	err = call(&e);
	if (before == fill_reactor)
		free_reactor(e.r);
	ends_destroy(&e);
	return err;
}

static int64_t connects(struct ends *e)
{
	rec_init(&e->connected);
	return weir_conn_connect(e->client, &e->connected.op, sa_of(&e->addr),
				 e->addr.len, NULL, 0, NULL, 0);
}

static int64_t disconnects(struct ends *e)
{
	rec_init(&e->closed);
	return weir_conn_disconnect(e->client, &e->closed.op);
}

static int64_t disconnects_without_callback(struct ends *e)
{
	struct weir_op op;

	weir_op_init(&op, NULL);
	return weir_conn_disconnect(e->client, &op);
}

static int64_t asks_for_next(struct ends *e)
{
	struct weir_conn *c = NULL;

	rec_init(&e->next);
	return weir_listener_next(e->l, &e->next.op, &c);
}

static int64_t asks_for_next_without_callback(struct ends *e)
{
	struct weir_conn *c = NULL;
	struct weir_op op;

	weir_op_init(&op, NULL);
	return weir_listener_next(e->l, &op, &c);
}

static int64_t asks_for_info_without_capacity(struct ends *e)
{
	return weir_conn_info(e->client, no_capacity());
}

static int64_t asks_for_peer_without_capacity(struct ends *e)
{
	struct sockaddr sa;
	socklen_t len = 1;

	return weir_conn_peer_address(e->client, &sa, &len);
}

static int64_t asks_for_address_without_capacity(struct ends *e)
{
	struct sockaddr sa;
	socklen_t len = 1;

	return weir_listener_address(e->l, &sa, &len);
}

RETURNS(weir_conn_connect, EAGAIN)
{
	return on_ends(state, false, fill_reactor, connects);
}

RETURNS(weir_conn_connect, ESHUTDOWN)
{
	return on_ends(state, false, stop_reactor, connects);
}

RETURNS(weir_conn_disconnect, EAGAIN)
{
	return on_ends(state, true, fill_reactor, disconnects);
}

RETURNS(weir_conn_disconnect, ESHUTDOWN)
{
	return on_ends(state, true, stop_turn, disconnects);
}

RETURNS(weir_conn_disconnect, EINVAL)
{
	return on_ends(state, true, NULL, disconnects_without_callback);
}

RETURNS(weir_listener_next, EAGAIN)
{
	return on_ends(state, false, fill_reactor, asks_for_next);
}

RETURNS(weir_listener_next, EINVAL)
{
	return on_ends(state, false, NULL, asks_for_next_without_callback);
}

RETURNS(weir_listener_next, ESHUTDOWN)
{
	return on_ends(state, false, stop_reactor, asks_for_next);
}

RETURNS(weir_conn_info, EINVAL)
{
	return on_ends(state, false, NULL, asks_for_info_without_capacity);
}

RETURNS(weir_conn_peer_address, EMSGSIZE)
{
	return on_ends(state, true, NULL, asks_for_peer_without_capacity);
}

RETURNS(weir_listener_address, EMSGSIZE)
{
	return on_ends(state, false, NULL, asks_for_address_without_capacity);
}

static int64_t waits_for_nobody(struct ends *e)
{
	int64_t err = asks_for_next(e);

	assert_int_equal(err, 0);
	assert_int_equal(weir_op_cancel(&e->next.op), 0);
	return finish(e->r, &e->next);
}

static int64_t waits_for_nobody_long(struct ends *e)
{
	struct weir_conn *c = NULL;

	rec_init(&e->next);
	assert_int_equal(weir_op_set_deadline(&e->next.op,
					      weir_reactor_now(e->r) + 1), 0);
	STARTS(weir_listener_next(e->l, &e->next.op, &c));
	return finish(e->r, &e->next);
}

COMPLETES(weir_listener_next, ECANCELED)
{
	return on_ends(state, false, NULL, waits_for_nobody);
}

COMPLETES(weir_listener_next, ETIMEDOUT)
{
	return on_ends(state, false, NULL, waits_for_nobody_long);
}

static int64_t connects_where_nobody_listens(struct ends *e)
{
	set_port(&e->addr, 9);
	assert_int_equal(connects(e), 0);
	return finish(e->r, &e->connected);
}

COMPLETES(weir_conn_connect, ECONNREFUSED)
{
	return on_ends(state, false, NULL, connects_where_nobody_listens);
}

static int64_t connects_and_cancels(struct ends *e)
{
	assert_int_equal(connects(e), 0);
	assert_int_equal(weir_op_cancel(&e->connected.op), 0);
	return finish(e->r, &e->connected);
}

COMPLETES(weir_conn_connect, ECANCELED)
{
	return on_ends(state, false, NULL, connects_and_cancels);
}

/* The peer's answer is kept back. */
static int64_t disconnects_and_cancels(struct ends *e)
{
	int64_t err;

	mock_cm_hold(true);
	assert_int_equal(disconnects(e), 0);
	some_turns(e->r, 3);
	assert_int_equal(weir_op_cancel(&e->closed.op), 0);
	err = finish(e->r, &e->closed);
	mock_cm_hold(false);
	return err;
}

COMPLETES(weir_conn_disconnect, ECANCELED)
{
	return on_ends(state, true, NULL, disconnects_and_cancels);
}

/* Windows, and exports by keys. */

static struct weir_mmap *far_of(struct sharing *s)
{
	sharing_export(s, R);
	sharing_import(s);
	return s->im;
}

static int64_t on_sharing(void **state, void (*before)(struct weir_reactor *r),
			  int64_t (*call)(struct sharing *s))
{
	struct sharing s;
	int64_t err;

	small_reactor(state);
	sharing_begin(&s, state);
	if (before)
		before(s.r);
	err = call(&s);
	if (before == fill_reactor)
		free_reactor(s.r);
	sharing_end(&s);
	return err;
}

static int64_t window_of(struct sharing *s, struct weir_mmap *m, void *opts)
{
	struct weir_mw *w = NULL;

	rec_init(&s->opened);
	return weir_mw_create(&w, s->e.server, &s->opened.op, m, opts);
}

static int64_t opens(struct sharing *s)
{
	return window_of(s, s->m, NULL);
}

static int64_t opens_of_later(struct sharing *s)
{
	return window_of(s, s->m, later_options());
}

static int64_t opens_of_import(struct sharing *s)
{
	return window_of(s, far_of(s), NULL);
}

static int64_t opens_of_memory_without_device(struct sharing *s)
{
	struct weir_mmap *m = start_mmap(s->mem, MEM_LEN, WEIR_MMAP_WRITE | R);
	int64_t err = window_of(s, m, NULL);

	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

RETURNS(weir_mw_create, E2BIG)
{
	return on_sharing(state, NULL, opens_of_later);
}

RETURNS(weir_mw_create, EAGAIN)
{
	return on_sharing(state, fill_reactor, opens);
}

RETURNS(weir_mw_create, ESHUTDOWN)
{
	return on_sharing(state, stop_turn, opens);
}

static int64_t revokes_when_it_stops(struct sharing *s)
{
	sharing_export(s, R);
	stop_turn(s->r);
	rec_init(&s->revoked);
	return weir_mw_revoke(s->w, &s->revoked.op);
}

RETURNS(weir_mw_revoke, ESHUTDOWN)
{
	return on_sharing(state, NULL, revokes_when_it_stops);
}

RETURNS(weir_mw_create, ENOENT)
{
	return on_sharing(state, NULL, opens_of_memory_without_device);
}

RETURNS(weir_mw_create, EPERM)
{
	return on_sharing(state, NULL, opens_of_import);
}

static int64_t exports_without_capacity(struct sharing *s)
{
	sharing_export(s, R);
	return weir_mw_export(s->w, no_capacity());
}

static int64_t informs_without_capacity(struct sharing *s)
{
	sharing_export(s, R);
	return weir_mw_info(s->w, no_capacity());
}

static int64_t revokes_without_callback(struct sharing *s)
{
	struct weir_op op;

	sharing_export(s, R);
	weir_op_init(&op, NULL);
	return weir_mw_revoke(s->w, &op);
}

static int64_t revokes_when_full(struct sharing *s)
{
	int64_t err;

	sharing_export(s, R);
	fill_reactor(s->r);
	rec_init(&s->revoked);
	err = weir_mw_revoke(s->w, &s->revoked.op);
	free_reactor(s->r);
	return err;
}

RETURNS(weir_mw_export, EINVAL)
{
	return on_sharing(state, NULL, exports_without_capacity);
}

RETURNS(weir_mw_info, EINVAL)
{
	return on_sharing(state, NULL, informs_without_capacity);
}

RETURNS(weir_mw_revoke, EINVAL)
{
	return on_sharing(state, NULL, revokes_without_callback);
}

RETURNS(weir_mw_revoke, EAGAIN)
{
	return on_sharing(state, NULL, revokes_when_full);
}

static int64_t export_of(struct sharing *s, struct weir_mmap *m, void *opts)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	return weir_mmap_export_rdma(m, s->dev, opts, &desc);
}

static int64_t exports_for_later(struct sharing *s)
{
	return export_of(s, s->m, later_options());
}

static int64_t exports_rights_that_are_not(struct sharing *s)
{
	return export_of(s, s->mine, NULL);
}

static int64_t exports_beyond_its_end(struct sharing *s)
{
	struct weir_export_rdma_opts opts = { .size = sizeof(opts),
					      .off = MEM_LEN, .len = 1 };

	return export_of(s, s->m, &opts);
}

static int64_t exports_what_is_not_started(struct sharing *s)
{
	struct weir_mmap *m = NULL;
	int64_t err;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	err = export_of(s, m, NULL);
	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

RETURNS(weir_mmap_export_rdma, E2BIG)
{
	return on_sharing(state, NULL, exports_for_later);
}

RETURNS(weir_mmap_export_rdma, EACCES)
{
	return on_sharing(state, NULL, exports_rights_that_are_not);
}

RETURNS(weir_mmap_export_rdma, EBADFD)
{
	return on_sharing(state, NULL, exports_what_is_not_started);
}

RETURNS(weir_mmap_export_rdma, ERANGE)
{
	return on_sharing(state, NULL, exports_beyond_its_end);
}

static int64_t exports_in_too_many_ways(struct sharing *s)
{
	struct weir_export_rdma_opts opts = { .size = sizeof(opts),
					      .len = 8 };
	int64_t err = 0;

	for (opts.off = 0; !err && opts.off <= 256 * 8; opts.off += 8)
		err = export_of(s, s->m, &opts);
	return err;
}

RETURNS(weir_mmap_export_rdma, EAGAIN)
{
	return on_sharing(state, NULL, exports_in_too_many_ways);
}

static int64_t exports_without_memory(struct sharing *s)
{
	no_memory();
	return plenty(export_of(s, s->m, NULL));
}

RETURNS(weir_mmap_export_rdma, ENOMEM)
{
	return on_sharing(state, NULL, exports_without_memory);
}

/* An import of what was exported with @e. */
static int64_t import_of(struct sharing *s, struct weir_export_rdma_opts *e,
			 void *opts, void (*scarce)(void))
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *m = NULL;

	e->size = sizeof(*e);
	assert_int_equal(weir_mmap_export_rdma(s->m, s->dev, e, &desc), 0);
	if (scarce)
		scarce();
	return plenty(weir_mmap_import_rdma(&m, s->there, desc.bytes,
					    desc.len, opts));
}

static int64_t imports_by_later(struct sharing *s)
{
	struct weir_export_rdma_opts e = { .permissions = R };

	return import_of(s, &e, later_options(), NULL);
}

static int64_t imports_without_memory(struct sharing *s)
{
	struct weir_export_rdma_opts e = { .permissions = R };

	return import_of(s, &e, NULL, no_memory);
}

static int64_t imports_too_late(struct sharing *s)
{
	struct weir_export_rdma_opts e = { .permissions = R, .not_after = 1 };

	return import_of(s, &e, NULL, NULL);
}

static int64_t imports_to_write(struct sharing *s)
{
	struct weir_export_rdma_opts e = { .permissions = R };
	struct weir_import_opts opts = { .size = sizeof(opts),
					 .permissions = WEIR_MMAP_WRITE };

	return import_of(s, &e, &opts, NULL);
}

RETURNS(weir_mmap_import_rdma, E2BIG)
{
	return on_sharing(state, NULL, imports_by_later);
}

RETURNS(weir_mmap_import_rdma, ENOMEM)
{
	return on_sharing(state, NULL, imports_without_memory);
}

RETURNS(weir_mmap_import_rdma, EKEYEXPIRED)
{
	return on_sharing(state, NULL, imports_too_late);
}

RETURNS(weir_mmap_import_rdma, EACCES)
{
	return on_sharing(state, NULL, imports_to_write);
}

static int64_t opens_sync_without_memory(struct sharing *s)
{
	struct weir_sync_remote *sync = NULL;
	struct weir_mmap *m = NULL;
	struct weir_export_desc desc = { .size = sizeof(desc) };
	int64_t err;

	assert_int_equal(weir_mmap_export_rdma(s->m, s->dev, NULL, &desc), 0);
	assert_int_equal(weir_mmap_import_rdma(&m, s->there, desc.bytes,
					       desc.len, NULL), 0);
	no_memory();
	err = plenty(weir_sync_remote_open(&sync, s->dma, m, 0));
	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

RETURNS(weir_sync_remote_open, ENOMEM)
{
	return on_sharing(state, NULL, opens_sync_without_memory);
}

/* A call on a sync event at the peer, @call, without a callback or when the
 * reactor is full. */
static int64_t sync_call(struct sharing *s, bool full,
			 int (*call)(struct weir_sync_remote *sync,
				     struct weir_op *op,
				     struct weir_sync_call *c))
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_sync_remote *remote = NULL;
	struct weir_sync *sync = NULL;
	struct weir_mmap *m = NULL;
	struct weir_sync_call c;
	struct weir_op none;
	struct rec rec;
	int64_t err;

	weir_op_init(&none, NULL);
	rec_init(&rec);
	assert_int_equal(weir_sync_create_in(&sync, s->m, 0, NULL), 0);
	assert_int_equal(weir_mmap_export_rdma(s->m, s->dev, NULL, &desc), 0);
	assert_int_equal(weir_mmap_import_rdma(&m, s->there, desc.bytes,
					       desc.len, NULL), 0);
	assert_int_equal(weir_sync_remote_open(&remote, s->dma, m, 0), 0);
	if (full)
		fill_reactor(s->r);
	err = call(remote, full ? &rec.op : &none, &c);
	if (full)
		free_reactor(s->r);
	assert_int_equal(weir_sync_remote_destroy(remote), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_sync_destroy(sync), 0);
	return err;
}

static int add_one(struct weir_sync_remote *sync, struct weir_op *op,
		   struct weir_sync_call *c)
{
	return weir_sync_remote_add(sync, op, c, 1);
}

static int64_t adds_without_callback(struct sharing *s)
{
	return sync_call(s, false, add_one);
}

static int64_t gets_without_callback(struct sharing *s)
{
	return sync_call(s, false, weir_sync_remote_get);
}

static int64_t adds_when_full(struct sharing *s)
{
	return sync_call(s, true, add_one);
}

static int64_t gets_when_full(struct sharing *s)
{
	return sync_call(s, true, weir_sync_remote_get);
}

RETURNS(weir_sync_remote_add, EINVAL)
{
	return on_sharing(state, NULL, adds_without_callback);
}

RETURNS(weir_sync_remote_get, EINVAL)
{
	return on_sharing(state, NULL, gets_without_callback);
}

RETURNS(weir_sync_remote_add, EAGAIN)
{
	return on_sharing(state, NULL, adds_when_full);
}

RETURNS(weir_sync_remote_get, EAGAIN)
{
	return on_sharing(state, NULL, gets_when_full);
}

/* Messages. */

static int64_t on_peers(void **state, int64_t (*call)(struct peers *t))
{
	struct peers t;
	int64_t err;

	small_reactor(state);
	peers_begin(&t, state);
	err = call(&t);
	peers_end(&t);
	return err;
}

static int64_t sends_when_full(struct peers *t)
{
	struct weir_message m = { .size = sizeof(m), .data = "abc", .len = 3 };
	int64_t err;

	fill_reactor(t->r);
	err = try_send(t, t->e.client, 0, &m);
	free_reactor(t->r);
	return err;
}

RETURNS(weir_message_send, EAGAIN)
{
	return on_peers(state, sends_when_full);
}

static int64_t sends_when_it_stops(struct peers *t)
{
	struct weir_message m = { .size = sizeof(m), .data = "abc", .len = 3 };

	stop_turn(t->r);
	return try_send(t, t->e.client, 0, &m);
}

RETURNS(weir_message_send, ESHUTDOWN)
{
	return on_peers(state, sends_when_it_stops);
}

/* The second of a list is not to be sent alone. */
static int64_t sends_from_the_middle(struct peers *t)
{
	struct weir_message m = { .size = sizeof(m) };
	struct weir_buf *head = peers_buf(t, 0, 8);
	int64_t err;

	m.buf = peers_buf(t, 8, 8);
	assert_int_equal(weir_buf_chain(head, m.buf), 0);
	err = try_send(t, t->e.client, 0, &m);
	weir_buf_put(head);
	return err;
}

RETURNS(weir_message_send, EPERM)
{
	return on_peers(state, sends_from_the_middle);
}

/* Devices. */

static int64_t adds_without_memory(struct sharing *s)
{
	struct weir_mmap *m = NULL;
	int64_t err;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	no_memory();
	err = plenty(weir_mmap_add_device(m, s->dev));
	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

RETURNS(weir_mmap_add_device, ENOMEM)
{
	return on_sharing(state, NULL, adds_without_memory);
}

RETURNS(weir_device_list, ENOMEM)
{
	struct weir_devinfo **list = NULL;
	size_t n;

	no_memory();
	return plenty(weir_device_list(&list, &n));
}

static int64_t open_without(void (*scarce)(void))
{
	struct weir_devinfo **list = NULL;
	struct weir_device *dev = NULL;
	char name[64] = "";
	int64_t err;
	size_t n, i = 0;

	assert_int_equal(weir_device_list(&list, &n), 0);
	while (i < n && (weir_devinfo_ibdev(list[i], name, sizeof(name)) ||
			 strcmp(name, "mock_mlx5")))
		i++;
	assert_true(i < n);
	scarce();
	err = plenty(weir_device_open(&dev, list[i]));
	weir_device_list_free(list);
	return err;
}

RETURNS(weir_device_open, EMFILE)
{
	return open_without(no_descriptors);
}

RETURNS(weir_device_open, ENOMEM)
{
	return open_without(no_memory);
}

int main(void)
{
	return run_errno_rows();
}

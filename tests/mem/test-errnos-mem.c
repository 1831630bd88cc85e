/* SPDX-License-Identifier: BSD-3-Clause */

/* The errnos that the headers of memory document: domains, mmaps, pools,
 * stores, inventories, segments, exports, sync events. */

#include "tests/support/errnos-fixture.h"
#include "tests/support/export-fixture.h"
#include "tests/support/job-fixture.h"
#include "tests/support/segment-fixture.h"

#include <sys/fsuid.h>
#include <sys/un.h>

#include <weir/device.h>
#include <weir/dm.h>
#include <weir/domain-user.h>
#include <weir/inventory.h>
#include <weir/lease.h>
#include <weir/pool.h>
#include <weir/segment-event.h>
#include <weir/shared-pool.h>
#include <weir/sync.h>

#define LEN 4096

static char memory[2 * LEN] __attribute__((aligned(LEN)));

static struct weir_mmap *memory_mmap(void)
{
	return start_mmap(memory, LEN, WEIR_MMAP_WRITE);
}

/* @m is gone, and @err is what the row returns. */
static int64_t mmap_end(struct weir_mmap *m, int64_t err)
{
	assert_int_equal(weir_mmap_destroy(m), 0);
	return err;
}

static struct weir_mmap *new_mmap(void)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	return m;
}

/* Domains. */

RETURNS(weir_domain_file_create, ENOMEM)
{
	struct weir_domain *d = NULL;
	int fd = test_file(state, "file", 1, 1);
	int64_t err;

	no_memory();
	err = plenty(weir_domain_file_create(&d, fd, NULL));
	close(fd);
	return err;
}

RETURNS(weir_domain_process_create, EMFILE)
{
	struct weir_domain *d = NULL;

	close(own_pidfd());
	no_descriptors();
	return plenty(weir_domain_process_create(&d, getpid(), NULL));
}

RETURNS(weir_domain_process_create, ENOMEM)
{
	struct weir_domain *d = NULL;

	close(own_pidfd());
	no_memory();
	return plenty(weir_domain_process_create(&d, getpid(), NULL));
}

RETURNS(weir_domain_process_create_pidfd, EMFILE)
{
	struct weir_domain *d = NULL;
	int fd = own_pidfd();
	int64_t err;

	no_descriptors();
	err = plenty(weir_domain_process_create_pidfd(&d, fd, NULL));
	close(fd);
	return err;
}

RETURNS(weir_domain_process_create_pidfd, ENOMEM)
{
	struct weir_domain *d = NULL;
	int fd = own_pidfd();
	int64_t err;

	no_memory();
	err = plenty(weir_domain_process_create_pidfd(&d, fd, NULL));
	close(fd);
	return err;
}

RETURNS(weir_domain_process_create_pidfd, E2BIG)
{
	struct weir_domain *d = NULL;
	int fd = own_pidfd();
	int err = weir_domain_process_create_pidfd(&d, fd, later_options());

	close(fd);
	return err;
}

typedef int move_call(struct weir_reactor *r, struct weir_op *op,
		      const struct weir_domain_move *move);

static int any_move(struct weir_domain *domain, struct weir_reactor *r,
		    struct weir_op *op, const struct weir_domain_move *move)
{
	(void)domain, (void)r, (void)op, (void)move;
	return 0;
}

/* What @call, of a domain that can do it, answers. */
static int64_t move_on(struct weir_reactor *r, move_call *call)
{
	struct weir_domain_opts opts = { .size = sizeof(opts),
					 .kind = WEIR_DOMAIN_USER };
	struct iovec near = { memory, 8 }, far = { (void *)LEN, 8 };
	struct weir_domain_move move = { .size = sizeof(move) };
	struct weir_domain *d = NULL;
	struct rec rec;
	int err;

	assert_int_equal(weir_domain_create(&d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(d, any_move), 0);
	assert_int_equal(weir_domain_set_push(d, any_move), 0);
	assert_int_equal(weir_domain_set_fill(d, any_move), 0);
	assert_int_equal(weir_domain_set_transfer(d, any_move), 0);
	move.src = (struct weir_domain_side){ .domain = d, .iov = &far,
					      .n_iov = 1 };
	move.dst = move.src;
	if (call == weir_domain_pull)
		move.dst = (struct weir_domain_side){
			.domain = weir_domain_system(), .iov = &near,
			.n_iov = 1 };
	if (call == weir_domain_fill)
		move.src = (struct weir_domain_side){ .n_iov = 0 };
	rec_init(&rec);
	err = call(r, &rec.op, &move);
	assert_int_equal(weir_domain_destroy(d), 0);
	return err;
}

RETURNS(weir_domain_fill, EAGAIN)
{
	return move_on(full_reactor(state), weir_domain_fill);
}

RETURNS(weir_domain_fill, ESHUTDOWN)
{
	return move_on(stopped_reactor(state), weir_domain_fill);
}

RETURNS(weir_domain_pull, EAGAIN)
{
	return move_on(full_reactor(state), weir_domain_pull);
}

RETURNS(weir_domain_pull, ESHUTDOWN)
{
	return move_on(stopped_reactor(state), weir_domain_pull);
}

RETURNS(weir_domain_transfer, EAGAIN)
{
	return move_on(full_reactor(state), weir_domain_transfer);
}

RETURNS(weir_domain_transfer, ESHUTDOWN)
{
	return move_on(stopped_reactor(state), weir_domain_transfer);
}

/* Mmaps. */

RETURNS(weir_mmap_create, ENOMEM)
{
	struct weir_mmap *m = NULL;

	no_memory();
	return plenty(weir_mmap_create(&m, NULL));
}

RETURNS(weir_mmap_alloc, EMFILE)
{
	struct weir_mmap *m = new_mmap();

	no_descriptors();
	return mmap_end(m, plenty(weir_mmap_alloc(m, LEN,
						  WEIR_MMAP_ALLOC_MEMFD)));
}

RETURNS(weir_mmap_set_fd, EMFILE)
{
	int fd = test_file(state, "file", LEN, 1);
	struct weir_mmap *m = new_mmap();
	int64_t err;

	no_descriptors();
	err = plenty(weir_mmap_set_fd(m, fd, 0, LEN, WEIR_MMAP_FD_TRUSTED));
	close(fd);
	return mmap_end(m, err);
}

/* A stop that is an operation, of an mmap that a reactor has. */
static int64_t stop_on(struct weir_reactor *r, void (*before)(
		       struct weir_reactor *r))
{
	struct weir_inventory *inv = NULL;
	struct weir_mmap *m = memory_mmap();
	struct rec rec;
	int err;

	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, m), 0);
	before(r);
	rec_init(&rec);
	err = weir_mmap_stop(m, r, &rec.op);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	return mmap_end(m, err);
}

RETURNS(weir_mmap_stop, EAGAIN)
{
	return stop_on(small_reactor(state), fill_reactor);
}

RETURNS(weir_mmap_stop, ESHUTDOWN)
{
	return stop_on(start_reactor(state), stop_reactor);
}

static int64_t drain_on(struct weir_reactor *r)
{
	struct weir_mmap *m = memory_mmap();
	struct rec rec;

	rec_init(&rec);
	return mmap_end(m, weir_mmap_drain(m, r, &rec.op));
}

RETURNS(weir_mmap_drain, EAGAIN)
{
	return drain_on(full_reactor(state));
}

RETURNS(weir_mmap_drain, ESHUTDOWN)
{
	return drain_on(stopped_reactor(state));
}

RETURNS(weir_mmap_drain, EBUSY)
{
	struct weir_mmap *m = memory_mmap();
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .mmap = m, .buf_size = 64,
	};
	struct weir_pool *pool = NULL;
	struct rec rec;
	int err;

	rec_init(&rec);
	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	err = weir_mmap_drain(m, r, &rec.op);
	assert_int_equal(weir_pool_destroy(pool), 0);
	return mmap_end(m, err);
}

COMPLETES(weir_mmap_drain, ETIMEDOUT)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = memory_mmap();
	struct weir_inventory *inv = NULL;
	struct weir_buf *buf = NULL;
	struct rec rec;
	void *addr;

	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, m), 0);
	assert_int_equal(weir_mmap_memrange(m, &addr, NULL), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, m, addr, 1, NULL, 0), 0);
	rec_init(&rec);
	assert_int_equal(weir_op_set_deadline(&rec.op, weir_reactor_now(r) +
						       WEIR_MSEC), 0);
	STARTS(weir_mmap_drain(m, r, &rec.op));
	finish(r, &rec);
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	return mmap_end(m, rec.res);
}

static int64_t revoke_on(struct weir_reactor *r)
{
	struct weir_mmap *m = memory_mmap();
	struct rec rec;

	rec_init(&rec);
	return mmap_end(m, weir_mmap_revoke(m, r, &rec.op));
}

RETURNS(weir_mmap_revoke, EAGAIN)
{
	return revoke_on(full_reactor(state));
}

RETURNS(weir_mmap_revoke, ESHUTDOWN)
{
	return revoke_on(stopped_reactor(state));
}

RETURNS(weir_mmap_revoke, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = memory_mmap();
	struct rec rec;

	rec_init(&rec);
	no_memory();
	return mmap_end(m, plenty(weir_mmap_revoke(m, r, &rec.op)));
}

/* Pools and stores. */

RETURNS(weir_pool_create, ESHUTDOWN)
{
	struct weir_pool *pool = NULL;

	return weir_pool_create(&pool, stopped_reactor(state), NULL);
}

static struct weir_pool *pool_of(struct weir_reactor *r)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 1,
				       .buf_size = LEN };
	struct weir_pool *pool = NULL;

	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	return pool;
}

static int64_t pool_end(struct weir_pool *pool, int64_t err)
{
	assert_int_equal(weir_pool_destroy(pool), 0);
	return err;
}

RETURNS(weir_pool_grow, ENOMEM)
{
	struct weir_pool *pool = pool_of(start_reactor(state));

	no_memory();
	return pool_end(pool, plenty(weir_pool_grow(pool, 1)));
}

RETURNS(weir_pool_grow, ENOSPC)
{
	struct weir_pool *pool = pool_of(start_reactor(state));
	int err = 0;

	for (int i = 0; i <= 63 && !err; i++)
		err = weir_pool_grow(pool, 1);
	return pool_end(pool, err);
}

RETURNS(weir_pool_stats, EINVAL)
{
	struct weir_pool *pool = pool_of(start_reactor(state));

	return pool_end(pool, weir_pool_stats(pool, no_capacity()));
}

RETURNS(weir_pool_wait, EINVAL)
{
	struct weir_pool *pool = pool_of(start_reactor(state));
	struct weir_op op;

	weir_op_init(&op, NULL);
	return pool_end(pool, weir_pool_wait(pool, &op));
}

RETURNS(weir_pool_wait_sized, EINVAL)
{
	struct weir_pool *pool = pool_of(start_reactor(state));
	struct weir_op op;

	weir_op_init(&op, NULL);
	return pool_end(pool, weir_pool_wait_sized(pool, &op, 1));
}

RETURNS(weir_pool_wait_sized, ESHUTDOWN)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = pool_of(r);
	struct rec rec;

	rec_init(&rec);
	stop_reactor(r);
	return pool_end(pool, weir_pool_wait_sized(pool, &rec.op, 1));
}

static struct weir_shared_pool *shared_pool_of(void)
{
	const struct weir_shared_pool_class class = { .buf_size = LEN,
						      .bufs = 1 };
	struct weir_shared_pool_opts opts = { .size = sizeof(opts),
					      .classes = &class,
					      .n_classes = 1 };
	struct weir_shared_pool *shared_pool = NULL;

	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), 0);
	return shared_pool;
}

static int64_t shared_pool_end(struct weir_shared_pool *shared_pool, int64_t err)
{
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
	return err;
}

static int64_t count_on(struct weir_reactor *r)
{
	struct weir_shared_pool_count count = { .size = sizeof(count) };
	struct weir_shared_pool *shared_pool = shared_pool_of();
	struct rec rec;

	rec_init(&rec);
	return shared_pool_end(shared_pool,
			 weir_shared_pool_count(shared_pool, r, &rec.op, &count));
}

RETURNS(weir_shared_pool_count, EAGAIN)
{
	return count_on(full_reactor(state));
}

RETURNS(weir_shared_pool_count, ESHUTDOWN)
{
	return count_on(stopped_reactor(state));
}

RETURNS(weir_shared_pool_stats, EINVAL)
{
	struct weir_shared_pool *shared_pool = shared_pool_of();

	return shared_pool_end(shared_pool,
			 weir_shared_pool_stats(shared_pool, LEN, no_capacity()));
}

RETURNS(weir_shared_pool_stats, ENOENT)
{
	struct weir_shared_pool_stats stats = { .size = sizeof(stats) };
	struct weir_shared_pool *shared_pool = shared_pool_of();

	return shared_pool_end(shared_pool, weir_shared_pool_stats(shared_pool, LEN - 1, &stats));
}

/* Inventories. */

struct free_list {
	struct weir_inventory *inv, *other;
	struct weir_mmap *m;
	struct weir_buf *buf;
};

/* A buf of an inventory, and another inventory. */
static void free_list_begin(struct free_list *s, struct weir_reactor *r)
{
	s->m = memory_mmap();
	assert_int_equal(weir_inventory_create(&s->inv, r, NULL), 0);
	assert_int_equal(weir_inventory_create(&s->other, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(s->inv, s->m), 0);
	assert_int_equal(weir_inventory_get(&s->buf, s->inv, s->m, memory, LEN,
					    memory, LEN), 0);
}

static int64_t free_list_end(struct free_list *s, int64_t err)
{
	weir_buf_put(s->buf);
	assert_int_equal(weir_inventory_destroy(s->other), 0);
	assert_int_equal(weir_inventory_destroy(s->inv), 0);
	return mmap_end(s->m, err);
}

RETURNS(weir_inventory_dup, ENOENT)
{
	struct weir_buf *dup = NULL;
	struct free_list s;

	free_list_begin(&s, start_reactor(state));
	return free_list_end(&s, weir_inventory_dup(&dup, s.other, s.buf));
}

RETURNS(weir_inventory_attach, ENOMEM)
{
	struct weir_inventory *inv = NULL;
	struct weir_mmap *m = memory_mmap();
	int64_t err;

	assert_int_equal(weir_inventory_create(&inv, start_reactor(state),
					       NULL), 0);
	no_memory();
	err = plenty(weir_inventory_attach(inv, m));
	assert_int_equal(weir_inventory_destroy(inv), 0);
	return mmap_end(m, err);
}

/* Segments. */

RETURNS(weir_segment_register, ENOMEM)
{
	no_memory();
	return plenty(weir_segment_register(memory, LEN, NULL, 0, LEN));
}

RETURNS(weir_segment_event_register, ENOMEM)
{
	no_memory();
	return plenty(weir_segment_event_register(
		"name", (weir_segment_event_fn *)(void (*)(void))abort, NULL));
}

RETURNS(weir_segment_validator_register, ENOMEM)
{
	no_memory();
	return plenty(weir_segment_validator_register(
		"name", (weir_segment_validator_fn *)(void (*)(void))abort,
		NULL, 0, 1));
}

RETURNS(weir_segment_validator_unregister, ENAMETOOLONG)
{
	return weir_segment_validator_unregister(LONG_NAME, 0);
}

static int see_all(const struct weir_segment *seg, void *arg)
{
	(void)seg, (void)arg;
	return 0;
}

/* With a list that there is, without memory to copy it. */
static int64_t of_a_list(int64_t (*call)(void))
{
	struct weir_mmap *m = memory_mmap();

	return mmap_end(m, call());
}

static int64_t walk_without_memory(void)
{
	no_memory();
	return plenty(weir_segment_walk(see_all, NULL));
}

static int64_t dump_without_memory(void)
{
	no_memory();
	return plenty(weir_segment_dump(2));
}

static int64_t dump_to_nobody(void)
{
	int fd[2], err;

	signal(SIGPIPE, SIG_IGN);
	pipe_pair(fd);
	close(fd[0]);
	err = weir_segment_dump(fd[1]);
	close(fd[1]);
	return err;
}

static int64_t dump_without_capacity(void)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC), err;

	assert_true(fd >= 0);
	err = weir_segment_dump(fd);
	close(fd);
	return err;
}

RETURNS(weir_segment_walk, ENOMEM)
{
	return of_a_list(walk_without_memory);
}

RETURNS(weir_segment_dump, ENOMEM)
{
	return of_a_list(dump_without_memory);
}

RETURNS(weir_segment_dump, EPIPE)
{
	return of_a_list(dump_to_nobody);
}

RETURNS(weir_segment_dump, ENOSPC)
{
	return of_a_list(dump_without_capacity);
}

/* Sync events. */

RETURNS(weir_sync_create_in, E2BIG)
{
	struct weir_sync *sync = NULL;
	struct weir_mmap *m = memory_mmap();

	return mmap_end(m, weir_sync_create_in(&sync, m, 0, later_options()));
}

/* In memory of a device, where nobody can wait. */
RETURNS(weir_sync_create_in, EOPNOTSUPP)
{
	struct weir_mmap *m = new_mmap();
	struct weir_device *dev = NULL;
	struct weir_sync *sync = NULL;
	struct weir_dm *dm = NULL;
	int err;

	assert_int_equal(weir_device_open_name(&dev, "soft-dm"), 0);
	assert_int_equal(weir_dm_alloc(&dm, dev, LEN, 0), 0);
	assert_int_equal(weir_mmap_set_dm(m, dm, 0, LEN), 0);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	err = weir_sync_create_in(&sync, m, 0, NULL);
	mmap_end(m, 0);
	assert_int_equal(weir_dm_free(dm), 0);
	assert_int_equal(weir_device_close(dev), 0);
	return err;
}

/* Exports. */

RETURNS(weir_mmap_export, E2BIG)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *m = fixture_started(LEN, RW);

	return mmap_end(m, weir_mmap_export(m, later_options(), &desc));
}

RETURNS(weir_mmap_export, EMFILE)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *m = fixture_started(LEN, RW);

	no_descriptors();
	return mmap_end(m, plenty(weir_mmap_export(m, NULL, &desc)));
}

RETURNS(weir_mmap_export, ENOMEM)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *m = fixture_started(LEN, RW);

	no_memory();
	return mmap_end(m, plenty(weir_mmap_export(m, NULL, &desc)));
}

struct import {
	struct weir_mmap *m, *im;
	struct parcel p;
};

static void import_begin(struct import *i)
{
	memset(i, 0, sizeof(*i));
	i->m = fixture_started(LEN, RW);
	parcel_of(&i->p, i->m, NULL);
}

static int64_t import_end(struct import *i, int64_t err)
{
	parcel_drop(&i->p);
	if (i->im)
		assert_int_equal(weir_mmap_destroy(i->im), 0);
	return mmap_end(i->m, err);
}

RETURNS(weir_mmap_import, E2BIG)
{
	struct import i;

	import_begin(&i);
	return import_end(&i, weir_mmap_import(&i.im, i.p.bytes, i.p.len,
					       i.p.fds, i.p.n_fds,
					       later_options()));
}

RETURNS(weir_mmap_import, EPROTONOSUPPORT)
{
	struct import i;

	import_begin(&i);
	i.p.bytes[8] = 2;	/* The major version. */
	return import_end(&i, weir_mmap_import(&i.im, i.p.bytes, i.p.len,
					       i.p.fds, i.p.n_fds, NULL));
}

RETURNS(weir_mmap_import, EMFILE)
{
	struct import i;

	import_begin(&i);
	no_descriptors();
	return import_end(&i, plenty(weir_mmap_import(&i.im, i.p.bytes,
						      i.p.len, i.p.fds,
						      i.p.n_fds, NULL)));
}

RETURNS(weir_mmap_import, ENOMEM)
{
	struct import i;

	import_begin(&i);
	no_memory();
	return import_end(&i, plenty(weir_mmap_import(&i.im, i.p.bytes,
						      i.p.len, i.p.fds,
						      i.p.n_fds, NULL)));
}

static int64_t watch_on(struct weir_reactor *r)
{
	struct import i;
	struct rec rec;

	rec_init(&rec);
	import_begin(&i);
	assert_int_equal(weir_mmap_import(&i.im, i.p.bytes, i.p.len, i.p.fds,
					  i.p.n_fds, NULL), 0);
	return import_end(&i, weir_mmap_watch(i.im, r, &rec.op));
}

RETURNS(weir_mmap_watch, EAGAIN)
{
	return watch_on(full_reactor(state));
}

RETURNS(weir_mmap_watch, ESHUTDOWN)
{
	return watch_on(stopped_reactor(state));
}

RETURNS(weir_mmap_watch, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct import i;
	struct rec rec;

	rec_init(&rec);
	import_begin(&i);
	assert_int_equal(weir_mmap_import(&i.im, i.p.bytes, i.p.len, i.p.fds,
					  i.p.n_fds, NULL), 0);
	no_memory();
	return import_end(&i, plenty(weir_mmap_watch(i.im, r, &rec.op)));
}

static int exporter_at(void **state, struct weir_exporter **ret,
		       struct weir_reactor *r)
{
	return weir_exporter_create(ret, r, test_path(state, "exporter"),
				    NULL);
}

RETURNS(weir_exporter_create, EACCES)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_exporter *e = NULL;
	int err;

	assert_int_equal(chmod(test_dir(state), 0), 0);
	setfsuid(65533);
	err = exporter_at(state, &e, r);
	setfsuid(geteuid());
	assert_int_equal(chmod(test_dir(state), 0700), 0);
	return err;
}

RETURNS(weir_exporter_create, EMFILE)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_exporter *e = NULL;

	test_dir(state);
	no_descriptors();
	return plenty(exporter_at(state, &e, r));
}

RETURNS(weir_exporter_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_exporter *e = NULL;

	test_dir(state);
	no_memory();
	return plenty(exporter_at(state, &e, r));
}

RETURNS(weir_exporter_create, ESHUTDOWN)
{
	struct weir_exporter *e = NULL;

	return exporter_at(state, &e, stopped_reactor(state));
}

/* An add without what @scarce takes away. */
static int64_t add_without(void **state, void (*scarce)(void))
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = fixture_started(LEN, RW);
	struct weir_exporter *e = NULL;
	int64_t err;

	assert_int_equal(exporter_at(state, &e, r), 0);
	scarce();
	err = plenty(weir_exporter_add(e, "name", m, NULL));
	weir_exporter_destroy(e);
	return mmap_end(m, err);
}

RETURNS(weir_exporter_add, EMFILE)
{
	return add_without(state, no_descriptors);
}

RETURNS(weir_exporter_add, ENOMEM)
{
	return add_without(state, no_memory);
}

/* Leases. */

struct leased {
	struct weir_reactor *r;
	struct weir_mmap *m;
	struct weir_lease *lease;
};

static struct leased lease_on(struct weir_reactor *r)
{
	struct leased l = { r, fixture_started(LEN, RW), NULL };

	assert_int_equal(weir_lease_create(&l.lease, r, l.m, NULL), 0);
	return l;
}

static int64_t lease_end(struct leased *l, int64_t err)
{
	assert_int_equal(weir_lease_destroy(l->lease), 0);
	return mmap_end(l->m, err);
}

static int64_t create_without(void **state, void (*scarce)(void))
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_mmap *m = fixture_started(LEN, RW);
	struct weir_lease *lease = NULL;

	scarce();
	return mmap_end(m, plenty(weir_lease_create(&lease, r, m, NULL)));
}

RETURNS(weir_lease_create, EMFILE)
{
	return create_without(state, no_descriptors);
}

RETURNS(weir_lease_create, ENOMEM)
{
	return create_without(state, no_memory);
}

RETURNS(weir_lease_create, ESHUTDOWN)
{
	struct weir_mmap *m = fixture_started(LEN, RW);
	struct weir_lease *lease = NULL;

	return mmap_end(m, weir_lease_create(&lease, stopped_reactor(state), m,
					     NULL));
}

typedef int lease_call_fn(struct weir_lease *lease, struct weir_op *op);

static int64_t call_full(void **state, lease_call_fn *call)
{
	struct leased l = lease_on(full_reactor(state));
	struct rec rec;

	rec_init(&rec);
	return lease_end(&l, call(l.lease, &rec.op));
}

static int64_t call_stopped(void **state, lease_call_fn *call)
{
	struct leased l = lease_on(start_reactor(state));
	struct rec rec;

	stop_reactor(l.r);
	rec_init(&rec);
	return lease_end(&l, call(l.lease, &rec.op));
}

static int64_t call_without_memory(void **state, lease_call_fn *call)
{
	struct leased l = lease_on(start_reactor(state));
	struct rec rec;

	rec_init(&rec);
	no_memory();
	return lease_end(&l, plenty(call(l.lease, &rec.op)));
}

static int64_t call_without_callback(void **state, lease_call_fn *call)
{
	struct leased l = lease_on(start_reactor(state));
	struct rec rec;

	rec_init(&rec);
	weir_op_init(&rec.op, NULL);
	return lease_end(&l, call(l.lease, &rec.op));
}

RETURNS(weir_lease_revoke, EAGAIN)
{
	return call_full(state, weir_lease_revoke);
}

RETURNS(weir_lease_revoke, EINVAL)
{
	return call_without_callback(state, weir_lease_revoke);
}

RETURNS(weir_lease_revoke, ENOMEM)
{
	return call_without_memory(state, weir_lease_revoke);
}

RETURNS(weir_lease_revoke, ESHUTDOWN)
{
	return call_stopped(state, weir_lease_revoke);
}

RETURNS(weir_lease_wait, EAGAIN)
{
	return call_full(state, weir_lease_wait);
}

RETURNS(weir_lease_wait, EINVAL)
{
	return call_without_callback(state, weir_lease_wait);
}

RETURNS(weir_lease_wait, ENOMEM)
{
	return call_without_memory(state, weir_lease_wait);
}

RETURNS(weir_lease_wait, ESHUTDOWN)
{
	return call_stopped(state, weir_lease_wait);
}

static int64_t hand_out_without(void **state, void (*scarce)(void))
{
	struct leased l = lease_on(start_reactor(state));
	struct weir_exporter *e = NULL;
	int64_t err;

	assert_int_equal(exporter_at(state, &e, l.r), 0);
	scarce();
	err = plenty(weir_exporter_add_lease(e, "name", l.lease));
	weir_exporter_destroy(e);
	return lease_end(&l, err);
}

RETURNS(weir_exporter_add_lease, EMFILE)
{
	return hand_out_without(state, no_descriptors);
}

RETURNS(weir_exporter_add_lease, ENOMEM)
{
	return hand_out_without(state, no_memory);
}

static int import_from(void **state, struct weir_reactor *r, struct rec *rec,
		       const struct weir_import_opts *opts)
{
	rec_init(rec);
	return weir_mmap_import_from(r, &rec->op, test_path(state, "exporter"),
				     "name", opts);
}

RETURNS(weir_mmap_import_from, E2BIG)
{
	struct rec rec;

	return import_from(state, start_reactor(state), &rec,
			   later_options());
}

RETURNS(weir_mmap_import_from, EAGAIN)
{
	struct rec rec;

	return import_from(state, full_reactor(state), &rec, NULL);
}

RETURNS(weir_mmap_import_from, ESHUTDOWN)
{
	struct rec rec;

	return import_from(state, stopped_reactor(state), &rec, NULL);
}

RETURNS(weir_mmap_import_from, EMFILE)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec;

	test_dir(state);
	no_descriptors();
	return plenty(import_from(state, r, &rec, NULL));
}

RETURNS(weir_mmap_import_from, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec;

	test_dir(state);
	no_memory();
	return plenty(import_from(state, r, &rec, NULL));
}

COMPLETES(weir_mmap_import_from, ENOENT)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec;

	assert_int_equal(import_from(state, r, &rec, NULL), 0);
	return finish(r, &rec);
}

COMPLETES(weir_mmap_import_from, ECONNREFUSED)
{
	struct weir_reactor *r = start_reactor(state);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct rec rec;

	snprintf(un.sun_path, sizeof(un.sun_path), "%.100s",
		 test_path(state, "exporter"));
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	close(fd);
	assert_int_equal(import_from(state, r, &rec, NULL), 0);
	return finish(r, &rec);
}

/* An import whose exporter has revoked it. */
static void stale_begin(struct import *i)
{
	import_begin(i);
	assert_int_equal(weir_mmap_import(&i->im, i->p.bytes, i->p.len,
					  i->p.fds, i->p.n_fds, NULL), 0);
	assert_int_equal(weir_mmap_stop(i->m, NULL, NULL), 0);
}

RETURNS(weir_pool_create, ESTALE)
{
	struct weir_pool_opts opts = { .size = sizeof(opts),
				       .buf_size = LEN };
	struct weir_pool *pool = NULL;
	struct import i;

	stale_begin(&i);
	opts.mmap = i.im;
	return import_end(&i, weir_pool_create(&pool, start_reactor(state),
					       &opts));
}

RETURNS(weir_segment_detach, EBUSY)
{
	struct weir_mmap *m;
	int fd = -1, err;

	assert_int_equal(weir_segment_register(memory, LEN, NULL, 0, LEN), 0);
	assert_int_equal(weir_segment_share(&fd, memory, LEN), 0);
	assert_int_equal(weir_segment_unregister(memory, LEN), 0);
	assert_int_equal(weir_segment_attach(memory, LEN, fd), 0);
	m = memory_mmap();
	err = weir_segment_detach(memory, LEN);
	mmap_end(m, 0);
	assert_int_equal(weir_segment_detach(memory, LEN), 0);
	close(fd);
	return err;
}

RETURNS(weir_dm_export, EMFILE)
{
	struct weir_dm_token token = { .size = sizeof(token) };
	struct weir_device *dev = NULL;
	struct weir_dm *dm = NULL;
	int64_t err;

	assert_int_equal(weir_device_open_name(&dev, "soft-dm"), 0);
	assert_int_equal(weir_dm_alloc(&dm, dev, LEN, 0), 0);
	no_descriptors();
	err = plenty(weir_dm_export(dm, &token));
	assert_int_equal(weir_dm_free(dm), 0);
	assert_int_equal(weir_device_close(dev), 0);
	return err;
}

RETURNS(weir_mmap_keys, ESTALE)
{
	struct weir_device *dev = NULL;
	struct import i;
	int64_t err;

	assert_int_equal(weir_device_open_name(&dev, "soft-dm"), 0);
	stale_begin(&i);
	err = weir_mmap_keys(i.im, dev, NULL, NULL);
	assert_int_equal(weir_device_close(dev), 0);
	return import_end(&i, err);
}

/* What an attach of memory that is shared, and not registered here any more,
 * returns. */
static int64_t attach_shared(void (*before)(void))
{
	int64_t err;
	int fd = -1;

	assert_int_equal(weir_segment_register(memory, LEN, NULL, 0, LEN), 0);
	assert_int_equal(weir_segment_share(&fd, memory, LEN), 0);
	assert_int_equal(weir_segment_unregister(memory, LEN), 0);
	before();
	err = plenty(weir_segment_attach(memory, LEN, fd));
	close(fd);
	return err;
}

RETURNS(weir_segment_attach, ENOMEM)
{
	return attach_shared(no_memory);
}

COMPLETES(weir_sync_wait, ETIMEDOUT)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_sync *sync = NULL;
	struct rec rec;

	assert_int_equal(weir_sync_create(&sync, NULL), 0);
	rec_init(&rec);
	assert_int_equal(weir_op_set_deadline(&rec.op,
					      weir_reactor_now(r) + 1), 0);
	STARTS(weir_sync_wait(sync, r, &rec.op, WEIR_SYNC_GE, 1,
			      WEIR_SYNC_ALL));
	finish(r, &rec);
	assert_int_equal(weir_sync_destroy(sync), 0);
	return rec.res;
}

int main(void)
{
	return run_errno_rows();
}

/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Exports by RDMA, A1.19 to A1.24: what is refused, what a peer's device lets
 * it do, rogue peers among them, and what a stop leaves.  Over the mock, or,
 * in the program without it, over soft-RoCE in the guest.
 */

#include "tests/support/rdma-fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/export.h>
#include <weir/inventory.h>
#include <weir/mmap.h>
#include <weir/rdma/export.h>

#include "base/fault.h"
#include "mem/export/descriptor.h"
#include "mem/mmap-internal.h"
#include "tests/support/table-fixture.h"

static int export_it(struct fixture *g,
		     const struct weir_export_rdma_opts *opts,
		     struct weir_export_desc *desc)
{
	*desc = (struct weir_export_desc){ .size = sizeof(*desc) };
	return weir_mmap_export_rdma(g->m, g->dev, opts, desc);
}

static int import_as(struct fixture *g, struct weir_mmap **im,
		     const struct weir_export_desc *desc, uint32_t permissions)
{
	struct weir_import_opts opts = {
		.size = sizeof(opts), .permissions = permissions,
	};

	return weir_mmap_import_rdma(im, g->domain, desc->bytes, desc->len,
				     &opts);
}

static struct weir_mmap *imported(struct fixture *g,
				  const struct weir_export_rdma_opts *opts)
{
	struct weir_export_desc desc;
	struct weir_mmap *im = NULL;

	assert_int_equal(export_it(g, opts, &desc), 0);
	assert_int_equal(import_as(g, &im, &desc, 0), 0);
	return im;
}

struct peer_range {
	uint64_t addr;
	size_t len;
	uint32_t rkey;
};

static struct peer_range range_of(const struct weir_mmap *im)
{
	struct weir_import_info info = { .size = sizeof(info) };
	struct peer_range range = { 0 };
	void *addr;

	assert_int_equal(weir_mmap_memrange(im, &addr, &range.len), 0);
	assert_int_equal(weir_mmap_import_info(im, &info), 0);
	range.rkey = info.rkey;
	range.addr = (uintptr_t)addr;
	return range;
}

/* The cases. */

static void a_peer_reads_and_writes_what_was_exported(void **state)
{
	char buf[64] = "from the peer";
	struct weir_mmap *im;
	struct peer_range at;
	struct fixture g;
	uint64_t old;

	(void)state;
	fixture_begin(&g, ALL);
	im = imported(&g, NULL);
	at = range_of(im);
	assert_int_equal(at.addr, (uintptr_t)g.mem);
	assert_int_equal(at.len, LEN);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_WRITE, at.addr + 8,
				     at.rkey, buf, 14), IBV_WC_SUCCESS);
	assert_string_equal(g.mem + 8, "from the peer");
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ, at.addr, at.rkey,
				     buf, 8), IBV_WC_SUCCESS);
	assert_memory_equal(buf, "mmmmmmmm", 8);
	memset(g.mem, 0, 8);
	assert_int_equal(access_peer(&g, IBV_WR_ATOMIC_FETCH_AND_ADD, at.addr,
				     at.rkey, buf, 8), IBV_WC_SUCCESS);
	memcpy(&old, g.mem, 8);
	assert_int_equal(old, 1);
	assert_int_equal(weir_mmap_destroy(im), 0);
	fixture_end(&g);
}

/* Off by one at each end, with fewer rights, with a key that is none. */
static void a_part_is_good_for_itself_alone(void **state)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts), .permissions = WEIR_MMAP_RDMA_READ,
		.off = PART_OFF, .len = PART_LEN,
	};
	struct weir_mmap *im;
	struct peer_range at;
	char buf[PART_LEN];
	struct fixture g;
	size_t i;

	(void)state;
	fixture_begin(&g, ALL);
	im = imported(&g, &opts);
	at = range_of(im);
	assert_int_equal(at.addr, (uintptr_t)g.mem + PART_OFF);
	assert_int_equal(at.len, PART_LEN);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ, at.addr, at.rkey,
				     buf, at.len), IBV_WC_SUCCESS);
	memset(buf, 'x', sizeof(buf));
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ, at.addr - 1,
				     at.rkey, buf, 2), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ,
				     at.addr + at.len - 1, at.rkey, buf, 2),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_WRITE, at.addr, at.rkey,
				     buf, 2), IBV_WC_REM_ACCESS_ERR);
	assert_int_not_equal(access_peer(&g, IBV_WR_ATOMIC_FETCH_AND_ADD,
					 at.addr, at.rkey, buf, 8),
			     IBV_WC_SUCCESS);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ, at.addr,
				     at.rkey ^ 1, buf, 2),
			 IBV_WC_REM_ACCESS_ERR);
	for (i = 0; i < LEN; i++)
		assert_int_equal(g.mem[i], 'm');
	assert_int_equal(weir_mmap_destroy(im), 0);
	fixture_end(&g);
}

/* A1.22: a late access is the peer's error, and changes nothing here. */
static void stopped_rdma_export_is_not_reached(void **state)
{
	struct weir_export_rdma_opts part = {
		.size = sizeof(part), .off = PART_OFF, .len = PART_LEN,
	};
	struct weir_mmap *im[2];
	char buf[16] = "late";
	struct peer_range at;
	struct fixture g;
	size_t i;

	(void)state;
	fixture_begin(&g, ALL);
	im[0] = imported(&g, NULL);
	im[1] = imported(&g, &part);
	assert_int_equal(weir_mmap_is_exported(g.m), 1);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_is_exported(g.m), 0);
	for (i = 0; i < 2; i++) {
		at = range_of(im[i]);
		assert_int_equal(access_peer(&g, IBV_WR_RDMA_WRITE, at.addr,
					     at.rkey, buf, 4),
				 IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(weir_mmap_destroy(im[i]), 0);
	}
	for (i = 0; i < LEN; i++)
		assert_int_equal(g.mem[i], 'm');

	/* What is exported then has another key. */
	assert_int_equal(weir_mmap_start(g.m), 0);
	im[0] = imported(&g, &part);
	assert_int_not_equal(range_of(im[0]).rkey, at.rkey);
	assert_int_equal(weir_mmap_destroy(im[0]), 0);
	fixture_end(&g);
}

static void equal_options_give_equal_bytes(void **state)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts), .off = 1, .len = 7,
	};
	struct weir_export_desc a, b;
	struct fixture g;
	int i;

	(void)state;
	fixture_begin(&g, ALL);
	assert_int_equal(export_it(&g, &opts, &a), 0);
	assert_int_equal(a.n_fds, 0);
	for (i = 0; i < WEIR_EXPORT_FDS; i++)
		assert_int_equal(a.fds[i], -1);
	assert_int_equal(export_it(&g, NULL, &b), 0);
	assert_ptr_not_equal(a.bytes, b.bytes);
	assert_int_equal(export_it(&g, &opts, &b), 0);
	assert_ptr_equal(a.bytes, b.bytes);
	if (mocked)
		assert_int_equal(mocked()->mrs, 2);
	opts.len = 0;
	for (opts.off = 1; opts.off < 255; opts.off++)
		assert_int_equal(export_it(&g, &opts, &b), 0);
	assert_int_equal(export_it(&g, &opts, &b), -EAGAIN);
	fixture_end(&g);
}

struct asked {
	struct weir_export_rdma_opts opts;
	int want;
};

static void rdma_export_wants_its_device_and_rights(void **state)
{
	static const struct asked asked[] = {
		{ { .flags = 1 }, -EINVAL },
		{ { .permissions = WEIR_MMAP_READ }, -EINVAL },
		{ { .permissions = WEIR_MMAP_PEER_READ }, -EINVAL },
		{ { .permissions = WEIR_MMAP_RDMA_ATOMIC }, -EACCES },
		{ { .off = LEN }, -ERANGE },
		{ { .off = LEN - 1, .len = 2 }, -ERANGE },
		{ { .off = UINT64_MAX, .len = 2 }, -ERANGE },
		{ { .off = 1, .len = UINT64_MAX }, -ERANGE },
		{ { .key_len = 16 }, -EINVAL },
		{ { .off = LEN - 1, .len = 1 }, 0 },
		{ { .permissions = WEIR_MMAP_RDMA_WRITE }, 0 },
	};
	struct weir_export_rdma_opts opts;
	struct weir_export_desc desc;
	struct fixture g;
	size_t i;
	int err;

	(void)state;
	fixture_begin(&g, WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_READ |
				  WEIR_MMAP_RDMA_WRITE);
	for (i = 0; i < N_OF(asked); i++) {
		opts = asked[i].opts;
		opts.size = sizeof(opts);
		err = export_it(&g, &opts, &desc);
		if (err != asked[i].want)
			fail_msg("%zu: %d: %s", i, err, weir_why());
		if (err)
			assert_starts_with(weir_why(),
					   "weir_mmap_export_rdma: ");
		assert_int_equal(weir_mmap_is_exported(g.m), !err || i > 9);
	}
	fixture_end(&g);
}

/* A1.19 */
static void mmap_must_be_started_with_rights_on_the_device(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_device *cpu;
	struct weir_mmap *im;
	struct fixture g;

	(void)state;
	fixture_begin(&g, WEIR_MMAP_WRITE);
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	assert_int_equal(export_it(&g, NULL, &desc), -EACCES);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(export_it(&g, NULL, &desc), -EBADFD);
	assert_int_equal(weir_mmap_set_permissions(g.m, ALL), 0);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_mmap_export_rdma(g.m, cpu, NULL, &desc),
			 -ENOENT);
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_add_device(g.m, cpu), 0);
	assert_int_equal(weir_mmap_start(g.m), 0);
	assert_int_equal(weir_mmap_export_rdma(g.m, cpu, NULL, &desc),
			 -EOPNOTSUPP);
	im = imported(&g, NULL);
	assert_int_equal(weir_mmap_export_rdma(im, g.dev, NULL, &desc), -EPERM);
	assert_int_equal(weir_mmap_destroy(im), 0);
	desc.size = 0;
	assert_int_equal(weir_mmap_export_rdma(g.m, g.dev, NULL, &desc),
			 -EINVAL);
	fixture_end(&g);
	assert_int_equal(weir_device_close(cpu), 0);
}

/* A1.21 */
static void an_import_is_started_for_good(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *im;
	struct weir_op op;
	struct fixture g;

	(void)state;
	fixture_begin(&g, WEIR_MMAP_RDMA_READ);
	im = imported(&g, NULL);
	assert_ptr_equal(weir_mmap_domain(im), g.domain);
	assert_int_equal(weir_mmap_state(im), WEIR_MMAP_STARTED);
	assert_int_equal(weir_mmap_is_imported(im), 1);
	assert_int_equal(weir_mmap_is_stale(im), 0);
	assert_int_equal(weir_mmap_permissions(im), WEIR_MMAP_READ);
	assert_int_equal(weir_mmap_stop(im, NULL, NULL), -EPERM);
	assert_int_equal(weir_mmap_start(im), -EPERM);
	assert_int_equal(weir_mmap_set_permissions(im, ALL), -EPERM);
	assert_int_equal(weir_mmap_set_memrange(im, g.mem, 1), -EPERM);
	assert_int_equal(weir_mmap_add_device(im, g.dev), -EPERM);
	assert_int_equal(weir_mmap_rm_device(im, g.dev), -EPERM);
	assert_int_equal(weir_mmap_export(im, NULL, &desc), -EPERM);
	assert_int_equal(weir_mmap_keys(im, g.dev, NULL, NULL), -ENOENT);
	weir_op_init(&op, NULL);
	assert_int_equal(weir_mmap_watch(im, NULL, &op), -EOPNOTSUPP);
	assert_int_equal(weir_domain_destroy(g.domain), -EBUSY);
	assert_int_equal(weir_mmap_destroy(im), 0);
	fixture_end(&g);
}

static void rights_are_no_more_than_were_given(void **state)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts), .permissions = WEIR_MMAP_RDMA_WRITE,
	};
	struct weir_export_desc desc;
	struct weir_mmap *im = NULL;
	struct fixture g;

	(void)state;
	fixture_begin(&g, ALL);
	assert_int_equal(export_it(&g, &opts, &desc), 0);
	assert_int_equal(import_as(&g, &im, &desc, WEIR_MMAP_READ), -EACCES);
	assert_int_equal(import_as(&g, &im, &desc, WEIR_MMAP_RDMA_READ),
			 -EINVAL);
	assert_null(im);
	assert_int_equal(import_as(&g, &im, &desc, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_permissions(im), WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(export_it(&g, NULL, &desc), 0);
	assert_int_equal(import_as(&g, &im, &desc, 0), 0);
	assert_int_equal(weir_mmap_permissions(im), WEIR_MMAP_READ |
			 WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_ATOMIC);
	assert_int_equal(weir_mmap_destroy(im), 0);
	fixture_end(&g);
}

static void rdma_import_refuses_other_exports(void **state)
{
	struct weir_import_opts opts = {
		.size = sizeof(opts), .flags = WEIR_IMPORT_COPY,
	};
	int fds[4] = { 0, 1, 2, 3 };
	uint8_t other[DESCRIPTOR_MAX];
	struct descriptor d = {
		.generation = 1, .len = 1, .kind = DESCRIPTOR_MEMFD,
		.permissions = DESCRIPTOR_READ,
		.files = { [1] = { 1, 1 } },
	};
	int n = descriptor_format(other, &d, NULL, 0, "test");
	struct weir_export_desc desc;
	struct weir_mmap *im = NULL;
	struct fixture g;

	(void)state;
	fixture_begin(&g, ALL);
	assert_int_equal(export_it(&g, NULL, &desc), 0);
	assert_int_equal(weir_mmap_import(&im, desc.bytes, desc.len, fds, 4,
					  NULL), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_import_rdma(&im, g.domain, other, (size_t)n,
					       NULL), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_import_rdma(&im, g.domain, NULL, 0, NULL),
			 -EINVAL);
	assert_int_equal(weir_mmap_import_rdma(&im, weir_domain_system(),
					       desc.bytes, desc.len, NULL),
			 -EINVAL);
	assert_int_equal(weir_mmap_import_rdma(&im, g.domain, desc.bytes,
					       desc.len, &opts), -EINVAL);
	assert_null(im);
	fixture_end(&g);
}

/* What the parser of descriptors leaves to the provider. */
static void descriptor_without_a_key_of_rdma_is_refused(void **state)
{
	struct descriptor d = {
		.generation = 1, .len = 1, .kind = DESCRIPTOR_DEVICE,
		.permissions = DESCRIPTOR_READ, .provider = "verbs",
		.n_bytes = 16, .bytes = { [8] = 1 },
	};
	static const struct {
		uint32_t n_bytes, at;
		uint8_t value;
		int want;
	} changes[] = {
		{ 16, 0, 1, 0 },		/* A node. */
		{ 16, 12, 1, 0 },		/* A queue pair. */
		{ 16, 15, 1, -EBADMSG },	/* Of more than 24 bits. */
		{ 16, 8, 0, -EBADMSG },		/* No key. */
		{ 15, 0, 0, -EBADMSG },
		{ 17, 0, 0, -EBADMSG },
		{ 0, 0, 0, -EBADMSG },
	};
	struct weir_mmap *im = NULL;
	uint8_t bytes[DESCRIPTOR_MAX];
	struct descriptor e;
	struct fixture g;
	int n;

	(void)state;
	fixture_begin(&g, ALL);
	for (size_t i = 0; i < N_OF(changes); i++) {
		e = d;
		e.n_bytes = changes[i].n_bytes;
		e.bytes[changes[i].at] = changes[i].value;
		n = descriptor_format(bytes, &e, NULL, 0, "test");
		assert_int_equal(weir_mmap_import_rdma(&im, g.domain, bytes,
						       (size_t)n, NULL),
				 changes[i].want);
		if (!changes[i].want)
			assert_int_equal(weir_mmap_destroy(im), 0);
	}
	/* Of another provider. */
	strcpy(d.provider, "verb");
	n = descriptor_format(bytes, &d, NULL, 0, "test");
	assert_int_equal(weir_mmap_import_rdma(&im, g.domain, bytes, (size_t)n,
					       NULL), -EOPNOTSUPP);
	fixture_end(&g);
}

/* All of them, of what an export really gives. */
static void damaged_rdma_descriptor_is_refused(void **state)
{
	struct weir_export_desc desc;
	struct weir_mmap *im = NULL;
	struct fixture g;
	uint8_t *copy;
	size_t i;

	(void)state;
	fixture_begin(&g, ALL);
	assert_int_equal(export_it(&g, NULL, &desc), 0);
	for (i = 0; i < desc.len; i++) {
		copy = malloc(i ? i : 1);
		memcpy(copy, desc.bytes, i);
		assert_int_equal(weir_mmap_import_rdma(&im, g.domain, copy, i,
						       NULL), -EBADMSG);
		free(copy);
	}
	copy = malloc(desc.len);
	memcpy(copy, desc.bytes, desc.len);
	for (i = 0; i < 8 * desc.len; i++) {
		copy[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_true(weir_mmap_import_rdma(&im, g.domain, copy, desc.len,
						  NULL) < 0);
		copy[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	assert_null(im);
	free(copy);
	fixture_end(&g);
}

static void a_key_and_an_end_are_the_importers_to_check(void **state)
{
	static const char key[16] = "sixteen bytes...";
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts), .key = key, .key_len = sizeof(key),
	};
	struct weir_import_opts with = {
		.size = sizeof(with), .key = key, .key_len = sizeof(key),
	};
	struct weir_export_desc desc;
	struct weir_mmap *im = NULL;
	struct fixture g;
	int err;

	(void)state;
	fixture_begin(&g, ALL);
	err = export_it(&g, &opts, &desc);
	if (err) {
		assert_int_equal(err, -EOPNOTSUPP);
	} else {
		assert_int_equal(import_as(&g, &im, &desc, 0), -EKEYREJECTED);
		assert_int_equal(weir_mmap_import_rdma(&im, g.domain,
				 desc.bytes, desc.len, &with), 0);
		assert_int_equal(weir_mmap_destroy(im), 0);
		im = NULL;
	}
	opts = (struct weir_export_rdma_opts){
		.size = sizeof(opts), .not_after = 1,
	};
	assert_int_equal(export_it(&g, &opts, &desc), 0);
	assert_int_equal(import_as(&g, &im, &desc, 0), -EKEYEXPIRED);
	opts.not_after = (uint64_t)time(NULL) + 1000;
	assert_int_equal(export_it(&g, &opts, &desc), 0);
	assert_int_equal(import_as(&g, &im, &desc, 0), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	fixture_end(&g);
}

/* By RDMA and to other processes: one stop ends both. */
static void mmap_has_both_kinds_of_export_at_once(void **state)
{
	struct weir_export_desc a = { .size = sizeof(a) }, b = a;
	struct weir_mmap *m, *im = NULL;
	struct fixture g;

	(void)state;
	fixture_begin(&g, ALL);
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_alloc(m, LEN, WEIR_MMAP_ALLOC_MEMFD), 0);
	assert_int_equal(weir_mmap_set_permissions(m, ALL |
						   WEIR_MMAP_PEER_READ), 0);
	assert_int_equal(weir_mmap_add_device(m, g.dev), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_export_rdma(m, g.dev, NULL, &a), 0);
	assert_int_equal(weir_mmap_export(m, NULL, &b), 0);
	assert_int_equal(weir_mmap_import(&im, b.bytes, b.len, b.fds, b.n_fds,
					  NULL), 0);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_is_stale(im), 1);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	fixture_end(&g);
}

/* The table. */

struct cell {
	struct fixture g;
	struct weir_mmap *m;		/* Which is asked. */
	struct weir_device *cpu;
};

static int ask(struct cell *c, struct weir_device *dev, uint64_t len,
	       uint32_t permissions)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts), .len = len, .permissions = permissions,
	};
	struct weir_export_desc desc = { .size = sizeof(desc) };

	return weir_mmap_export_rdma(c->m, dev, &opts, &desc);
}

static int call_export(void *c)
{
	return ask(c, ((struct cell *)c)->g.dev, 0, 0);
}

static int call_part(void *c)
{
	return ask(c, ((struct cell *)c)->g.dev, PART_LEN, 0);
}

static int call_more(void *c)
{
	return ask(c, ((struct cell *)c)->g.dev, LEN + 1, 0);
}

static int call_right(void *c)
{
	return ask(c, ((struct cell *)c)->g.dev, 0, WEIR_MMAP_RDMA_ATOMIC);
}

static int call_device(void *c)
{
	return ask(c, ((struct cell *)c)->cpu, 0, 0);
}

static int call_stop(void *c)
{
	return weir_mmap_stop(((struct cell *)c)->m, NULL, NULL);
}

static int call_watch(void *c)
{
	struct weir_op op;

	weir_op_init(&op, NULL);
	return weir_mmap_watch(((struct cell *)c)->m, NULL, &op);
}

static int call_destroy(void *arg)
{
	struct cell *c = arg;
	int err = weir_mmap_destroy(c->m);

	if (!err && c->m == c->g.m)
		c->g.m = NULL;
	if (!err)
		c->m = NULL;
	return err;
}

static const struct table_call calls[] = {
	{ "export_rdma", call_export },
	{ "export_rdma of a part", call_part },
	{ "export_rdma of more", call_more },
	{ "export_rdma with another right", call_right },
	{ "export_rdma for another device", call_device },
	{ "stop", call_stop },
	{ "watch", call_watch },
	{ "destroy", call_destroy },
};

enum column { STOPPED, FORBIDDEN, STARTED, BY_RDMA, TO_PROCESS, IMPORTED };
static const char *const columns[] = {
	[STOPPED] = "STOPPED",
	[FORBIDDEN] = "STARTED, without WEIR_MMAP_RDMA_",
	[STARTED] = "STARTED",
	[BY_RDMA] = "exported by RDMA",
	[TO_PROCESS] = "exported to a process",
	[IMPORTED] = "imported",
};

/* A memfd, which can be exported to a process. */
static void cell_begin(struct cell *c, int column)
{
	const uint32_t rights = WEIR_MMAP_WRITE | WEIR_MMAP_PEER_READ;
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct fixture *g = &c->g;

	fixture_begin(g, ALL);
	assert_int_equal(weir_device_open_name(&c->cpu, "cpu"), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	assert_int_equal(weir_mmap_create(&g->m, NULL), 0);
	assert_int_equal(weir_mmap_alloc(g->m, LEN, WEIR_MMAP_ALLOC_MEMFD), 0);
	assert_int_equal(weir_mmap_set_permissions(g->m, column == FORBIDDEN ?
			 rights : rights | WEIR_MMAP_RDMA_READ |
			 WEIR_MMAP_RDMA_WRITE), 0);
	assert_int_equal(weir_mmap_add_device(g->m, g->dev), 0);
	if (column != STOPPED)
		assert_int_equal(weir_mmap_start(g->m), 0);
	c->m = g->m;
	if (column == BY_RDMA)
		assert_int_equal(call_export(c), 0);
	if (column == TO_PROCESS)
		assert_int_equal(weir_mmap_export(g->m, NULL, &desc), 0);
	if (column == IMPORTED)
		c->m = imported(g, NULL);
}

static void cell_check(const struct table_cell *cell, const struct cell *c)
{
	if (!strcmp(cell->then, "gone"))
		assert_null(c->m);
	if (!strcmp(cell->then, "exported"))
		assert_int_equal(weir_mmap_is_exported(c->m), 1);
	if (!strcmp(cell->then, "stopped")) {
		assert_int_equal(weir_mmap_is_exported(c->m), 0);
		assert_int_equal(weir_mmap_state(c->m), WEIR_MMAP_STOPPED);
	}
}

static void the_table_is_true(void **state)
{
	struct table_cell cell;
	struct table t;

	(void)state;
	table_open(&t, "docs/internals/rdma.md",
		   "mmap exported by RDMA, and imported: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &cell)) {
		struct cell c = { .m = NULL };

		cell_begin(&c, cell.column);
		table_result(&cell, cell.call->fn(&c));
		cell_check(&cell, &c);
		if (c.m != c.g.m)
			assert_int_equal(weir_mmap_destroy(c.m), 0);
		fixture_end(&c.g);
		assert_int_equal(weir_device_close(c.cpu), 0);
	}
	table_close(&t);
}

static int export_and_import(struct fixture *g, struct weir_mmap **im)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts), .off = PART_OFF,
	};
	struct weir_export_desc desc;
	int err = export_it(g, &opts, &desc);

	return err ? err : import_as(g, im, &desc, 0);
}

static void failed_rdma_export_leaves_nothing_behind(void **state)
{
	struct weir_mmap *im = NULL;
	int err, n = 0, fired;
	struct fixture g;

	(void)state;
	fixture_begin(&g, ALL);
	do {
		fault_arm(n++);
		err = export_and_import(&g, &im);
		fired = fault_disarm();
		if (fired)
			assert_true(err < 0 && !im);
		if (fired)
			assert_int_equal(weir_domain_users(g.domain), 0);
		if (fired)
			assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), 0);
		assert_int_equal(weir_mmap_start(g.m), 0);
	} while (fired);
	assert_int_equal(err, 0);
	assert_true(n > 6);
	assert_int_equal(weir_mmap_destroy(im), 0);
	fixture_end(&g);
}

/* B2.4: what the device keeps stays exported, and can be stopped again. */
static void export_that_cannot_be_revoked_stays_exported(void **state)
{
	struct weir_export_rdma_opts part = {
		.size = sizeof(part), .off = PART_OFF,
	};
	struct weir_export_desc a, b;
	struct fixture g;

	(void)state;
	if (!mocked)
		skip_because("a real device does not refuse at will");
	fixture_begin(&g, ALL);
	assert_int_equal(export_it(&g, &part, &a), 0);
	mocked()->bound = true;
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), -EBUSY);
	mocked()->bound = false;
	assert_int_equal(weir_mmap_is_exported(g.m), 1);
	assert_int_equal(export_it(&g, &part, &b), 0);
	assert_ptr_equal(a.bytes, b.bytes);
	fixture_end(&g);
}

/* By a key of their own; the exporter goes on using its own. */
static void revoke_takes_the_keys_of_parts_and_leaves_bufs(void **state)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts), .off = PART_OFF, .len = PART_LEN,
	};
	uint32_t lkey = 0, again = 0;
	struct peer_range at;
	struct weir_mmap *im;
	char buf[PART_LEN];
	struct fixture g;

	(void)state;
	fixture_begin(&g, ALL);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, &lkey, NULL), 0);
	im = imported(&g, &opts);
	at = range_of(im);
	assert_int_equal(weir_mmap_revoke(g.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_is_exported(g.m), 0);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ, at.addr, at.rkey,
				     buf, at.len), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(weir_mmap_keys(g.m, g.dev, &again, NULL), 0);
	assert_int_equal(again, lkey);
	assert_int_equal(weir_mmap_destroy(im), 0);
	fixture_end(&g);
}

/* Ends by a signal if all is well: what the parent has registered is lost to the
 * child, which would be taken for a leak. */
static void destroy_there(struct weir_mmap *m)
{
	int before = mocked ? mocked()->mrs : 0;

	if (weir_mmap_destroy(m) || (mocked && mocked()->mrs != before))
		_exit(1);
	raise(SIGKILL);
}

static void child_that_destroys_an_mmap_takes_no_key_back(void **state)
{
	struct peer_range at;
	struct weir_mmap *im;
	char buf[PART_LEN];
	struct fixture g;
	int status;
	pid_t pid;

	(void)state;
	fixture_begin(&g, ALL);
	im = imported(&g, NULL);
	at = range_of(im);
	pid = fork();
	if (!pid)
		destroy_there(g.m);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, SIGKILL);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ, at.addr, at.rkey,
				     buf, PART_LEN), IBV_WC_SUCCESS);
	assert_int_equal(weir_mmap_destroy(im), 0);
	fixture_end(&g);
}

/* The key of the whole range is also what jobs of the exporter use. */
static void revoke_takes_the_key_of_the_whole_when_no_buf_is_out(void **state)
{
	struct weir_reactor *r = NULL;
	struct weir_inventory *inv;
	struct weir_buf *buf = NULL;
	struct peer_range at;
	struct weir_mmap *im;
	struct fixture g;
	char byte;

	(void)state;
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	fixture_begin(&g, ALL);
	im = imported(&g, NULL);
	at = range_of(im);
	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, g.m), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, g.m, g.mem, 1, NULL, 0),
			 0);
	assert_int_equal(weir_mmap_revoke(g.m, NULL, NULL), -EBUSY);
	assert_int_equal(weir_mmap_is_exported(g.m), 1);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ, at.addr, at.rkey,
				     &byte, 1), IBV_WC_SUCCESS);
	weir_buf_put(buf);
	assert_int_equal(weir_mmap_revoke(g.m, NULL, NULL), 0);
	assert_int_equal(weir_mmap_is_exported(g.m), 0);
	assert_int_equal(access_peer(&g, IBV_WR_RDMA_READ, at.addr, at.rkey,
				     &byte, 1), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_peer_reads_and_writes_what_was_exported),
		CASE(a_part_is_good_for_itself_alone),
		CASE(stopped_rdma_export_is_not_reached),
		CASE(equal_options_give_equal_bytes),
		CASE(rdma_export_wants_its_device_and_rights),
		CASE(mmap_must_be_started_with_rights_on_the_device),
		CASE(an_import_is_started_for_good),
		CASE(rights_are_no_more_than_were_given),
		CASE(rdma_import_refuses_other_exports),
		CASE(descriptor_without_a_key_of_rdma_is_refused),
		CASE(damaged_rdma_descriptor_is_refused),
		CASE(a_key_and_an_end_are_the_importers_to_check),
		CASE(mmap_has_both_kinds_of_export_at_once),
		CASE(the_table_is_true),
		CASE(failed_rdma_export_leaves_nothing_behind),
		CASE(export_that_cannot_be_revoked_stays_exported),
		CASE(revoke_takes_the_keys_of_parts_and_leaves_bufs),
		CASE(child_that_destroys_an_mmap_takes_no_key_back),
		CASE(revoke_takes_the_key_of_the_whole_when_no_buf_is_out),
	};

	return harness_run_plain(cases, N_OF(cases));
}

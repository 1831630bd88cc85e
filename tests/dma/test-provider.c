/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Providers: devices of a user's are listed, opened, registered with, exported
 * by and given jobs as the library's are, and each function is called exactly
 * when its header says.
 */

#include "tests/support/alloc-fixture.h"
#include "tests/support/job-fixture.h"

#include <weir/buf.h>
#include <weir/device.h>
#include <weir/engine.h>
#include <weir/export.h>
#include <weir/lease.h>
#include <weir/provider.h>

#define LEN 8192u

/* Providers beside that of libweir-rdma, where that is linked. */
#ifdef HAVE_VERBS
#define OTHERS (WEIR_PROVIDERS_MAX - 1)
#else
#define OTHERS WEIR_PROVIDERS_MAX
#endif

/* A provider of two devices, unit0 and unit1, of which the second is broken. */
static struct acme {
	struct weir_provider *p;
	struct weir_domain *d;	/* Where imports are. */
	struct weir_reactor *r;
	char far[LEN];		/* What they reach. */
	int lists, opens, closes, registers, deregisters, describes, imports;
	int import_ends, engine_opens, engine_closes, jobs, moves;
	int list_fails, open_fails, register_fails, keep_fails, engine_fails;
	int keep_is_of;		/* Of this registration only; 0: of all. */
	int other_fails;	/* Of the others. */
	const char *keep_says;	/* With .keep_fails; NULL: nothing. */
	int import_fails, describe_fails;
	int later;		/* unit0 is of a later version. */
	int nested;		/* What a call inside of a function has returned. */
	int (*inside)(void);	/* That call. */
	uint32_t add_caps;	/* Of unit0. */
	const char *name;	/* Instead of "unit0". */
	uint64_t import_addr;	/* Instead of .far's. */
	int no_domain;
	uint32_t n_bytes;	/* Of descriptions. */
	struct weir_provider_range range;	/* The last one. */
	struct weir_provider_desc seen;
	struct weir_reactor *lease_reactor;
	int64_t keys;		/* Of the last job. */
	struct weir_provider_key key;
	struct weir_device *dev, *cpu;
} a;

static void call_inside(void)
{
	int (*inside)(void) = a.inside;

	a.inside = NULL;
	if (inside)
		a.nested = inside();
}

static int acme_list(void *arg, struct weir_provider_list *list)
{
	struct {
		struct weir_device_caps caps;
		uint64_t more;
	} later = { .more = 1 };
	struct weir_device_caps caps = {
		.size = sizeof(caps), .name = "unit0",
		.kind = WEIR_DEVICE_USER + 5, .flags = WEIR_DEVICE_USABLE,
		.caps = a.add_caps, .max_size = 77,
	};
	int err;

	assert_ptr_equal(arg, &a);
	a.lists++;
	call_inside();
	if (a.list_fails)
		return a.list_fails;
	if (a.name)
		strcpy(caps.name, a.name);
	later.caps = caps;
	later.caps.size = sizeof(later);
	err = weir_provider_list_add(list, a.later ? &later.caps : &caps);
	if (err)
		return err;
	caps.flags = 0;
	strcpy(caps.name, "unit1");
	strcpy(caps.why, "it is broken; mend it");
	return weir_provider_list_add(list, &caps);
}

static int acme_open(void *arg, struct weir_device *dev, void **card)
{
	assert_ptr_equal(arg, &a);
	a.opens++;
	call_inside();
	if (a.open_fails)
		return a.open_fails;
	assert_non_null(weir_device_info(dev));
	*card = a.far + a.opens;
	return 0;
}

static void acme_close(void *card)
{
	a.closes++;
	call_inside();
	assert_true((char *)card > a.far && (char *)card < a.far + LEN);
}

static int acme_register(void *card, const struct weir_provider_range *range,
			 struct weir_provider_key *ret)
{
	assert_non_null(card);
	a.registers++;
	a.range = *range;
	if (a.register_fails)
		return a.register_fails;
	ret->data = range->addr;
	ret->lkey = 100 + (uint32_t)a.registers;
	ret->rkey = 200 + (uint32_t)a.registers;
	return 0;
}

static int acme_deregister(void *card, const struct weir_provider_key *key)
{
	int err = !a.keep_is_of || key->lkey == 100 + (uint32_t)a.keep_is_of ?
			  a.keep_fails : a.other_fails;

	assert_non_null(card);
	assert_int_equal(key->rkey, key->lkey + 100);
	if (err && a.keep_says)
		return weir_why_set(err, "%s", a.keep_says);
	if (err)
		return err;
	a.deregisters++;
	return 0;
}

static int acme_describe(void *card, const struct weir_provider_key *key,
			 struct weir_provider_desc *desc)
{
	assert_non_null(card);
	a.describes++;
	a.lease_reactor = desc->reactor;
	if (a.describe_fails)
		return a.describe_fails;
	desc->n_bytes = a.n_bytes;
	memset(desc->bytes, (int)key->rkey, 4);
	desc->addr = 16;
	return 0;
}

static int acme_import(void *card, const struct weir_provider_desc *desc,
		       struct weir_provider_import *ret)
{
	assert_non_null(card);
	a.imports++;
	a.seen = *desc;
	if (a.import_fails)
		return a.import_fails;
	assert_int_equal(ret->addr, desc->addr);
	ret->domain = a.no_domain ? NULL : a.d;
	ret->data = &a;
	if (a.import_addr)
		ret->addr = a.import_addr;
	return 0;
}

static void acme_import_end(void *card, const struct weir_provider_import *im)
{
	assert_non_null(card);
	assert_ptr_equal(im->data, &a);
	a.import_ends++;
}

/* Copies between memory, if unit0 knows both sides. */
static int engine_can(void *arg, const struct weir_engine_query *q,
		      const char **why)
{
	assert_ptr_equal(arg, &a.jobs);
	*why = "only copies in memory";
	return q->kind == WEIR_JOB_COPY && a.dev &&
	       q->src == weir_domain_system() && q->dst == weir_domain_system();
}

static int engine_start(void *arg, struct weir_job *job)
{
	struct weir_provider_key keys[4];
	uint64_t n = weir_job_bytes(job), at = 0;
	struct iovec to, from;

	assert_ptr_equal(arg, &a.jobs);
	assert_int_equal(weir_job_keys(job, WEIR_JOB_SRC, 0, a.cpu, NULL,
				       keys, 4),
			 -EPERM);
	assert_int_equal(weir_job_keys(job, WEIR_JOB_SRC, n, a.dev, NULL,
				       keys, 4),
			 0);
	a.keys = weir_job_keys(job, WEIR_JOB_SRC, 0, a.dev, NULL, keys, 4);
	if (a.keys < 0)
		return (int)a.keys;
	a.key = keys[a.keys - 1];
	while (at < n) {
		weir_job_pieces(job, WEIR_JOB_DST, at, &to, 1);
		weir_job_pieces(job, WEIR_JOB_SRC, at, &from, 1);
		if (to.iov_len < from.iov_len)
			from.iov_len = to.iov_len;
		memcpy(to.iov_base, from.iov_base, from.iov_len);
		at += from.iov_len;
	}
	a.jobs++;
	weir_job_end(job, n, 0, 0);
	return 0;
}

static int engine_open(void *arg, struct weir_reactor *r, void **engine_arg)
{
	assert_ptr_equal(arg, &a);
	a.engine_opens++;
	a.r = r;
	*engine_arg = &a.jobs;
	return a.engine_fails;
}

static void engine_close(void *engine_arg)
{
	assert_ptr_equal(engine_arg, &a.jobs);
	a.engine_closes++;
}

static const struct weir_engine_ops engine = {
	.size = sizeof(engine), .name = "acme-dma", .can = engine_can,
	.start = engine_start,
};

static const struct weir_provider_ops acme_ops = {
	.size = sizeof(acme_ops), .name = "acme", .list = acme_list,
	.open = acme_open, .close = acme_close,
	.mem_register = acme_register, .mem_deregister = acme_deregister,
	.describe = acme_describe, .import = acme_import,
	.import_end = acme_import_end, .engine = &engine,
	.engine_open = engine_open, .engine_close = engine_close,
};

static int far_move(struct weir_domain *d, struct weir_reactor *r,
		    struct weir_op *op, const struct weir_domain_move *m)
{
	uint64_t n = side_total(&m->dst), i;

	(void)r;
	a.moves++;
	for (i = 0; i < n; i++) {
		uint64_t to = side_at(&m->dst, i), from = side_at(&m->src, i);

		if (m->dst.domain == d)
			a.far[to] = *(char *)(uintptr_t)from;
		else
			*(char *)(uintptr_t)to = a.far[from];
	}
	weir_domain_complete(op, (int64_t)n);
	return 0;
}

static void acme_begin(void)
{
	struct weir_domain_opts opts = { .size = sizeof(opts), .len = LEN,
					 .kind = WEIR_DOMAIN_USER };

	memset(&a, 0, sizeof(a));
	a.n_bytes = 4;
	a.add_caps = WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_EXPORT |
		     WEIR_DEVICE_CAP_IMPORT;
	assert_int_equal(weir_domain_create(&a.d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(a.d, far_move), 0);
	assert_int_equal(weir_domain_set_push(a.d, far_move), 0);
	assert_int_equal(weir_provider_register(&a.p, &acme_ops, &a), 0);
}

static void acme_end(void)
{
	assert_int_equal(a.closes, a.opens);
	assert_int_equal(a.deregisters, a.registers);
	assert_int_equal(a.import_ends, a.imports);
	assert_int_equal(a.engine_closes, a.engine_opens);
	assert_int_equal(weir_provider_unregister(a.p), 0);
	assert_int_equal(weir_domain_destroy(a.d), 0);
}

static struct weir_device *unit0(void)
{
	struct weir_device *dev = NULL;

	assert_int_equal(weir_device_open_name(&dev, "unit0"), 0);
	return dev;
}

static void provider_that_makes_no_sense_is_refused(void **state)
{
	static const struct weir_engine_ops no_start = {
		.size = sizeof(no_start), .name = "x", .can = engine_can,
	};
	struct { struct weir_provider_ops ops; uint64_t more; } later;
	struct weir_provider *all[WEIR_PROVIDERS_MAX], *p = NULL;
	struct weir_provider_ops ops;
	char name[40];
	int i;

#define REFUSED(err, change) \
	do { \
		ops = acme_ops; \
		change; \
		assert_int_equal(weir_provider_register(&p, &ops, &a), err); \
		assert_starts_with(weir_why(), "weir_provider_register: "); \
	} while (0)

	(void)state;
	memset(&a, 0, sizeof(a));
	REFUSED(-EINVAL, ops.name = NULL);
	REFUSED(-EINVAL, ops.name = "");
	REFUSED(-EINVAL, ops.name = "a name of more than thirty bytes");
	REFUSED(-EINVAL, ops.list = NULL);
	REFUSED(-EINVAL, ops.mem_deregister = NULL);
	REFUSED(-EINVAL, ops.import_end = NULL);
	REFUSED(-EINVAL, ops.mem_register = NULL; ops.mem_deregister = NULL);
	REFUSED(-EINVAL, ops.engine = &no_start);
	REFUSED(-EINVAL, ops.engine = NULL);
	assert_int_equal(weir_provider_register(NULL, &ops, &a), -EINVAL);
	assert_int_equal(weir_provider_register(&p, NULL, &a), -EINVAL);
	later.ops = acme_ops;
	later.ops.size = sizeof(later);
	later.more = 1;
	assert_int_equal(weir_provider_register(&p, &later.ops, &a), -E2BIG);

	for (i = 0; i < OTHERS; i++) {
		ops = (struct weir_provider_ops){
			.size = sizeof(ops), .name = name, .list = acme_list,
			.engine = i ? NULL : &engine,
		};
		snprintf(name, sizeof(name), "acme%d", i);
		assert_int_equal(weir_provider_register(&all[i], &ops, &a), 0);
		if (!i) {
			REFUSED(-EEXIST, ops.name = "acme0");
			REFUSED(-EEXIST, (void)0);
		}
	}
	REFUSED(-ENOSPC, ops.engine = NULL; ops.engine_open = NULL;
		ops.engine_close = NULL);
	for (i = 0; i < OTHERS; i++)
		assert_int_equal(weir_provider_unregister(all[i]), 0);
	assert_int_equal(weir_provider_unregister(NULL), 0);
	assert_int_equal(a.lists, 0);
}

static void devices_of_provider_are_listed_and_opened(void **state)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_device *dev, *same = NULL, *cpu = NULL;
	struct weir_devinfo **list = NULL;
	size_t n = 0, i, found = 0;

	(void)state;
	acme_begin();
	assert_int_equal(weir_device_list(&list, &n), 0);
	for (i = 0; i < n; i++) {
		assert_int_equal(weir_devinfo_caps(list[i], &caps), 0);
		if (strncmp(caps.name, "unit", 4))
			continue;
		assert_int_equal(caps.kind, WEIR_DEVICE_USER + 5);
		assert_int_equal(caps.max_size, 77);
		assert_int_equal(caps.align, 1);
		found++;
	}
	assert_int_equal(found, 2);
	assert_int_equal(weir_device_open(&dev, list[n - 1]), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "mend it"));
	weir_device_list_free(list);

	dev = unit0();
	assert_int_equal(weir_device_open_name(&same, "unit0"), 0);
	assert_ptr_equal(dev, same);
	assert_int_equal(a.opens, 1);
	assert_ptr_equal(weir_provider_card(a.p, dev), a.far + 1);
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	assert_null(weir_provider_card(a.p, cpu));
	assert_int_equal(weir_provider_lost(cpu), -EPERM);
	assert_int_equal(weir_device_close(cpu), 0);
	assert_int_equal(weir_device_close(dev), 0);
	assert_int_equal(a.closes, 0);
	assert_int_equal(weir_provider_unregister(a.p), -EBUSY);
	assert_int_equal(weir_device_close(dev), 0);
	a.open_fails = -EHOSTDOWN;
	assert_int_equal(weir_device_open_name(&dev, "unit0"), -EHOSTDOWN);
	a.closes++; /* It was not opened. */
	a.list_fails = -EHOSTUNREACH;
	assert_int_equal(weir_device_list(&list, &n), -EHOSTUNREACH);
	assert_starts_with(weir_why(), "weir_device_list: ");
	acme_end();
}

static void device_that_makes_no_sense_is_not_listed(void **state)
{
	static const struct {
		const char *name;
		uint32_t caps;
		int err;
	} rows[] = {
		{ "", 0, -EINVAL },
		{ "cpu", 0, -EEXIST },
		{ "unit0", WEIR_DEVICE_CAP_DM, -EINVAL },
		{ "unit0", WEIR_DEVICE_CAP_DM_IMPORT, -EINVAL },
		{ "unit0", WEIR_DEVICE_CAP_DM_DMABUF, -EINVAL },
		{ "unit0", WEIR_DEVICE_CAP_MW, -EINVAL },
		{ "unit0", 1u << 20, -EINVAL },
	};
	struct weir_devinfo **list;
	size_t n, i;

	(void)state;
	acme_begin();
	for (i = 0; i < N_OF(rows); i++) {
		a.name = rows[i].name;
		a.add_caps = rows[i].caps;
		assert_int_equal(weir_device_list(&list, &n), rows[i].err);
		assert_starts_with(weir_why(), "weir_provider_list_add: ");
	}
	acme_end();
}

static int call_list(void)
{
	struct weir_devinfo **list;
	size_t n;

	return weir_device_list(&list, &n);
}

static int call_open(void)
{
	struct weir_device *dev;

	return weir_device_open_name(&dev, "cpu");
}

static int call_close(void)
{
	return weir_device_close(a.dev);
}

static int call_register(void)
{
	static const struct weir_provider_ops ops = {
		.size = sizeof(ops), .name = "inner", .list = acme_list,
	};
	struct weir_provider *p;

	return weir_provider_register(&p, &ops, NULL);
}

static int call_unregister(void)
{
	return weir_provider_unregister(a.p);
}

static int call_lost(void)
{
	return weir_provider_lost(a.dev);
}

static void devices_cannot_be_asked_for_inside_their_provider(void **state)
{
	int (*const calls[])(void) = { call_list, call_open, call_close,
				       call_register, call_unregister,
				       call_lost };
	struct weir_devinfo **list;
	struct weir_device *dev;
	size_t n, i;

	(void)state;
	acme_begin();
	for (i = 0; i < N_OF(calls); i++) {
		a.dev = unit0();
		a.inside = calls[i];
		assert_int_equal(weir_device_list(&list, &n), 0);
		assert_int_equal(a.nested, -EDEADLK);
		a.nested = 0;
		weir_device_list_free(list);
		a.inside = calls[i];
		assert_int_equal(weir_device_close(a.dev), 0);
		if (a.nested)
			assert_int_equal(a.nested, -EDEADLK);
	}
	assert_int_equal(weir_device_list(&list, &n), 0);
	a.inside = call_list;
	assert_int_equal(weir_device_open(&dev, list[n - 2]), 0);
	assert_int_equal(a.nested, -EDEADLK);
	weir_device_list_free(list);
	assert_int_equal(weir_device_close(dev), 0);
	acme_end();
}

static void entry_of_unregistered_provider_cannot_be_opened(void **state)
{
	struct weir_device_caps caps = { .size = sizeof(caps) };
	struct weir_devinfo **list;
	struct weir_device *dev;
	size_t n;

	(void)state;
	acme_begin();
	assert_int_equal(weir_device_list(&list, &n), 0);
	acme_end();
	assert_int_equal(weir_device_open(&dev, list[n - 2]), -ENODEV);
	assert_int_equal(weir_devinfo_caps(list[n - 2], &caps), 0);
	assert_string_equal(caps.name, "unit0");
	weir_device_list_free(list);
	assert_int_equal(weir_device_open_name(&dev, "unit0"), -ENOENT);
}

static void lost_device_is_opened_anew(void **state)
{
	struct weir_device *old, *dev;

	(void)state;
	acme_begin();
	old = unit0();
	assert_int_equal(weir_provider_lost(old), 0);
	dev = unit0();
	assert_ptr_not_equal(dev, old);
	assert_ptr_not_equal(weir_provider_card(a.p, dev),
			     weir_provider_card(a.p, old));
	assert_int_equal(weir_device_close(old), 0);

	/* Nor does it matter if it was closed meanwhile. */
	assert_int_equal(weir_provider_lost(old), 0);
	old = unit0();
	assert_ptr_equal(old, dev);
	assert_int_equal(weir_device_close(old), 0);
	assert_int_equal(weir_device_close(dev), 0);
	acme_end();
}

/* An mmap of @mem on unit0, which peers may read and write. */
static struct weir_mmap *mmap_on(struct weir_device *dev, char *mem,
				 uint32_t permissions)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_memrange(m, mem, LEN), 0);
	assert_int_equal(weir_mmap_set_permissions(m, permissions), 0);
	assert_int_equal(weir_mmap_add_device(m, dev), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	return m;
}

static void memory_is_registered_once_until_the_stop(void **state)
{
	static char mem[LEN];
	struct weir_device *dev;
	struct weir_mmap *m;
	uint32_t lkey = 0, rkey = 0;

	(void)state;
	acme_begin();
	dev = unit0();
	/* Peers' rights are none of this process's. */
	m = mmap_on(dev, mem, WEIR_MMAP_WRITE | WEIR_MMAP_PEER_READ |
			      WEIR_MMAP_PEER_WRITE);
	assert_int_equal(a.registers, 0);
	a.register_fails = -ENOSPC;
	assert_int_equal(weir_mmap_keys(m, dev, &lkey, &rkey), -ENOSPC);
	assert_int_equal(lkey, 0);
	a.register_fails = 0;
	a.registers = 0;
	assert_int_equal(weir_mmap_keys(m, dev, &lkey, &rkey), 0);
	assert_int_equal(weir_mmap_keys(m, dev, &lkey, &rkey), 0);
	assert_int_equal(a.registers, 1);
	assert_int_equal(lkey, 101);
	assert_int_equal(rkey, 201);
	assert_ptr_equal(a.range.addr, mem);
	assert_int_equal(a.range.len, LEN);
	assert_int_equal(a.range.kind, WEIR_PROVIDER_RANGE_MEM);
	assert_int_equal(a.range.permissions, WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(weir_device_close(dev), -EBUSY);
	a.keep_fails = -EHOSTDOWN;
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), -EHOSTDOWN);
	a.keep_fails = 0;
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(a.deregisters, 1);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_device_close(dev), 0);
	acme_end();
}

static void context_has_the_engine_of_each_provider(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma[2], *none = NULL;
	char from[64] = "by the engine", to[64] = "";
	struct jrec j;

	acme_begin();
	dma[0] = start_dma(r, (struct weir_dma_opts){ 0 });
	dma[1] = start_dma(r, (struct weir_dma_opts){ 0 });
	assert_ptr_equal(a.r, r);
	assert_int_equal(a.engine_opens, 2);
	assert_int_equal(weir_provider_unregister(a.p), -EBUSY);

	/* It cannot do this one, and the library's engine does it. */
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(to, 64),
		      weir_operand_mem(from, 64));
	assert_int_equal(jrec_run(dma[0], &j), 64);
	assert_string_equal(to, from);
	assert_int_equal(a.jobs, 0);
	assert_int_equal(weir_dma_destroy(dma[0]), 0);
	assert_int_equal(a.engine_closes, 1);
	assert_int_equal(weir_dma_destroy(dma[1]), 0);

	/* None for this context; and a context that cannot be. */
	a.engine_fails = -ENODEV;
	assert_int_equal(weir_dma_create(&none, r, NULL), 0);
	assert_int_equal(weir_dma_destroy(none), 0);
	a.engine_fails = -EHOSTDOWN;
	assert_int_equal(weir_dma_create(&none, r, NULL), -EHOSTDOWN);
	assert_starts_with(weir_why(), "weir_dma_create: ");
	a.engine_closes += 2; /* Neither was opened. */
	acme_end();
}

static void engine_gets_the_registration_of_each_piece(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static char mem[LEN], other[LEN];
	struct weir_inventory *inv;
	struct weir_buf *b, *next;
	struct weir_mmap *m, *plain;
	struct weir_dma *dma;
	char to[300];
	struct jrec j;

	acme_begin();
	a.dev = unit0();
	assert_int_equal(weir_device_open_name(&a.cpu, "cpu"), 0);
	m = mmap_on(a.dev, mem, WEIR_MMAP_WRITE);
	plain = start_mmap(other, LEN, WEIR_MMAP_WRITE);
	inv = start_inventory(r, m);
	assert_int_equal(weir_inventory_attach(inv, plain), 0);
	dma = start_dma(r, (struct weir_dma_opts){ 0 });
	for (size_t i = 0; i < LEN; i++)
		mem[i] = (char)i;

	b = get_buf(inv, m, mem + 100, 100, 100);
	next = get_buf(inv, m, mem + 1000, 200, 200);
	assert_int_equal(weir_buf_chain(b, next), 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(to, 300), weir_operand_buf(b));
	assert_int_equal(jrec_run(dma, &j), 300);
	assert_int_equal(a.jobs, 1);
	assert_int_equal(a.keys, 2);
	assert_ptr_equal(a.key.data, mem);
	assert_int_equal(a.key.lkey, 101);
	assert_int_equal(a.registers, 1);
	assert_memory_equal(to, mem + 100, 100);
	assert_memory_equal(to + 100, mem + 1000, 200);
	weir_buf_put(b);

	/* Memory that it does not know. */
	b = get_buf(inv, plain, other, 100, 100);
	weir_job_copy(&j.job, weir_operand_mem(to, 100), weir_operand_buf(b));
	assert_int_equal(weir_job_start(dma, &j.job), -ENOENT);
	weir_buf_put(b);
	weir_job_copy(&j.job, weir_operand_mem(to, 100),
		      weir_operand_mem(other, 100));
	assert_int_equal(weir_job_start(dma, &j.job), -ENOENT);
	assert_int_equal(a.jobs, 1);

	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_mmap_destroy(plain), 0);
	assert_int_equal(weir_device_close(a.dev), 0);
	assert_int_equal(weir_device_close(a.cpu), 0);
	acme_end();
}

#define PEER (WEIR_MMAP_WRITE | WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

struct sharing {
	struct weir_device *dev;
	struct weir_mmap *m, *im;
	struct weir_export_desc desc;
	char mem[LEN];
};

static struct sharing *share(uint32_t permissions)
{
	struct sharing *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	acme_begin();
	s->dev = unit0();
	s->m = mmap_on(s->dev, s->mem, permissions);
	s->desc.size = sizeof(s->desc);
	return s;
}

static void share_end(struct sharing *s)
{
	assert_int_equal(weir_mmap_destroy(s->im), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	assert_int_equal(weir_device_close(s->dev), 0);
	free(s);
	acme_end();
}

static int import(struct sharing *s)
{
	return weir_mmap_import_device(&s->im, s->dev, s->desc.bytes,
				       s->desc.len, NULL);
}

static void import_is_reached_in_the_domain_of_its_device(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_inventory *inv;
	struct weir_dma *dma;
	struct sharing *s = share(PEER);
	struct weir_buf *b;
	char to[100];
	struct jrec j;
	void *addr;
	size_t len;

	a.import_addr = 64;
	assert_int_equal(weir_mmap_export_device(s->m, s->dev, NULL, &s->desc),
			 0);
	assert_int_equal(weir_mmap_is_exported(s->m), 1);
	assert_int_equal(a.range.permissions, PEER);
	assert_int_equal(s->desc.n_fds, 0);
	assert_int_equal(import(s), -EIO); /* 64 + LEN is beyond the domain. */
	assert_int_equal(a.import_ends, 1);
	assert_int_equal(weir_mmap_revoke(s->m, NULL, NULL), 0);
	assert_int_equal(a.deregisters, 1);
	assert_int_equal(weir_mmap_destroy(s->m), 0);

	/* A smaller range has space. */
	assert_int_equal(weir_mmap_create(&s->m, NULL), 0);
	assert_int_equal(weir_mmap_set_memrange(s->m, s->mem, 200), 0);
	assert_int_equal(weir_mmap_set_permissions(s->m, PEER), 0);
	assert_int_equal(weir_mmap_add_device(s->m, s->dev), 0);
	assert_int_equal(weir_mmap_start(s->m), 0);
	assert_int_equal(weir_mmap_export_device(s->m, s->dev, NULL, &s->desc),
			 0);
	assert_int_equal(import(s), 0);
	assert_int_equal(a.seen.addr, 16);
	assert_int_equal(a.seen.len, 200);
	assert_int_equal(a.seen.n_bytes, 4);
	assert_int_equal(a.seen.bytes[3], 202);
	assert_int_equal(a.seen.permissions, WEIR_MMAP_PEER_READ |
					     WEIR_MMAP_PEER_WRITE);
	assert_int_equal(weir_mmap_is_imported(s->im), 1);
	assert_int_equal(weir_mmap_part(s->im, 0, 1, 0, &a.range), -EPERM);
	assert_ptr_equal(weir_mmap_domain(s->im), a.d);
	assert_int_equal(weir_mmap_memrange(s->im, &addr, &len), 0);
	assert_int_equal((uintptr_t)addr, 64);
	assert_int_equal(len, 200);
	assert_int_equal(weir_device_close(s->dev), -EBUSY);

	/* Jobs with bufs of it are the domain's. */
	for (size_t i = 0; i < LEN; i++)
		a.far[i] = (char)(i * 7);
	inv = start_inventory(r, s->im);
	dma = start_dma(r, (struct weir_dma_opts){ 0 });
	b = get_buf(inv, s->im, (char *)(uintptr_t)70, 100, 100);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(to, 100), weir_operand_buf(b));
	assert_int_equal(jrec_run(dma, &j), 100);
	assert_int_equal(a.moves, 1);
	assert_memory_equal(to, a.far + 70, 100);

	/* Until the exporter revokes it. */
	assert_int_equal(weir_provider_revoked(s->m), -EPERM);
	assert_int_equal(weir_mmap_export_device(s->im, s->dev, NULL, &s->desc),
			 -EPERM);
	assert_int_equal(weir_provider_revoked(s->im), 0);
	assert_int_equal(weir_mmap_is_stale(s->im), 1);
	assert_int_equal(weir_job_start(dma, &j.job), -ESTALE);
	assert_int_equal(a.moves, 1);
	weir_buf_put(b);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	share_end(s);
}

static struct weir_mmap *mmap_of_far(struct weir_device *dev, uint64_t addr)
{
	struct weir_mmap *m = NULL;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_domain(m, a.d, addr, 300), 0);
	assert_int_equal(weir_mmap_set_permissions(m, PEER), 0);
	assert_int_equal(weir_mmap_add_device(m, dev), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	return m;
}

static void memory_of_a_domain_has_bufs_and_exports(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct weir_mmap *m, *other;
	struct weir_inventory *inv;
	struct weir_buf *b, *next;
	struct weir_dma *dma;
	char to[100];
	struct jrec j;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_domain(m, a.d, 64, 300), 0);
	assert_int_equal(weir_mmap_add_device(m, s->dev), -EOPNOTSUPP);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_device_close(s->dev), -EBUSY);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	assert_int_equal(weir_device_close(s->dev), 0);
	a.add_caps |= WEIR_DEVICE_CAP_DOMAIN;
	s->dev = unit0();
	m = mmap_of_far(s->dev, 64);
	other = mmap_of_far(s->dev, 164);
	s->m = mmap_on(s->dev, s->mem, PEER);

	/* Jobs with its bufs are the domain's; addresses are those of the domain,
	 * whatever mmap they are in. */
	for (size_t i = 0; i < LEN; i++)
		a.far[i] = (char)(i * 7);
	inv = start_inventory(r, m);
	assert_int_equal(weir_inventory_attach(inv, other), 0);
	dma = start_dma(r, (struct weir_dma_opts){ 0 });
	b = get_buf(inv, m, (char *)(uintptr_t)200, 100, 100);
	next = get_buf(inv, other, (char *)(uintptr_t)250, 100, 100);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(to, 100), weir_operand_buf(b));
	assert_int_equal(jrec_run(dma, &j), 100);
	assert_int_equal(a.moves, 1);
	assert_memory_equal(to, a.far + 200, 100);
	weir_buf_reset(next);
	weir_job_copy(&j.job, weir_operand_buf(next), weir_operand_buf(b));
	assert_int_equal(weir_job_start(dma, &j.job), -EINVAL);
	weir_buf_put(b);
	weir_buf_put(next);

	/* The device gets the domain, and the part. */
	assert_int_equal(weir_mmap_export_device(m, s->dev, NULL, &s->desc), 0);
	assert_int_equal(a.range.kind, WEIR_PROVIDER_RANGE_DOMAIN);
	assert_ptr_equal(a.range.domain, a.d);
	assert_int_equal((uintptr_t)a.range.addr, 64);
	assert_int_equal(a.range.len, 300);
	assert_int_equal(a.range.permissions, PEER);
	assert_int_equal(import(s), 0);
	assert_int_equal(a.seen.len, 300);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_mmap_destroy(other), 0);
	share_end(s);
}

static int other_list(void *arg, struct weir_provider_list *list)
{
	struct weir_device_caps caps = {
		.size = sizeof(caps), .name = "unit9",
		.kind = WEIR_DEVICE_USER, .flags = WEIR_DEVICE_USABLE,
		.caps = WEIR_DEVICE_CAP_IMPORT,
	};

	(void)arg;
	return weir_provider_list_add(list, &caps);
}

/* The bytes would mean something else to it, or nothing. */
static void export_is_imported_by_its_own_provider_alone(void **state)
{
	struct weir_provider_ops ops = acme_ops;
	struct sharing *s = share(WEIR_MMAP_PEER_READ);
	struct weir_provider *other = NULL;
	struct weir_device *dev = NULL;

	(void)state;
	ops.name = "acm";
	ops.list = other_list;
	ops.engine = NULL;
	ops.engine_open = NULL;
	ops.engine_close = NULL;
	assert_int_equal(weir_provider_register(&other, &ops, &a), 0);
	assert_int_equal(weir_device_open_name(&dev, "unit9"), 0);
	assert_null(weir_provider_card(a.p, dev));
	assert_int_equal(weir_mmap_export_device(s->m, s->dev, NULL, &s->desc),
			 0);
	assert_int_equal(weir_mmap_import_device(&s->im, dev, s->desc.bytes,
						 s->desc.len, NULL),
			 -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "provider acme"));
	assert_int_equal(a.imports, 0);
	assert_int_equal(weir_device_close(dev), 0);
	assert_int_equal(weir_provider_unregister(other), 0);
	share_end(s);
}

static void export_by_device_is_checked_and_authenticated(void **state)
{
	static const char key[] = "a key of at least sixteen bytes";
	struct weir_export_opts opts = { .size = sizeof(opts) };
	struct weir_import_opts in = { .size = sizeof(in) };
	struct weir_export_desc again = { .size = sizeof(again) };
	struct sharing *s = share(WEIR_MMAP_PEER_READ);
	struct weir_device *cpu = NULL;
	struct weir_mmap *plain;
	unsigned char bad[1024];

	(void)state;
#define EXPORTS(err) \
	assert_int_equal(weir_mmap_export_device(s->m, s->dev, &opts, \
						 &s->desc), err)
	opts.flags = 1;
	EXPORTS(-EINVAL);
	opts.flags = 0;
	opts.permissions = WEIR_MMAP_RDMA_READ;
	EXPORTS(-EINVAL);
	opts.permissions = WEIR_MMAP_PEER_WRITE;
	EXPORTS(-EACCES);
	opts.permissions = 0;
	opts.key_len = 3;
	EXPORTS(-EINVAL);
	opts.key_len = 0;
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	assert_int_equal(weir_mmap_export_device(s->m, cpu, NULL, &s->desc),
			 -ENOENT);
	plain = mmap_on(cpu, s->mem, WEIR_MMAP_PEER_READ);
	assert_int_equal(weir_mmap_export_device(plain, cpu, NULL, &s->desc),
			 -EOPNOTSUPP);
	assert_int_equal(weir_mmap_stop(plain, NULL, NULL), 0);
	assert_int_equal(weir_mmap_export_device(plain, cpu, NULL, &s->desc),
			 -EBADFD);
	assert_int_equal(weir_mmap_destroy(plain), 0);
	assert_int_equal(a.registers, 0);
	a.n_bytes = WEIR_PROVIDER_DESC_MAX + 1;
	EXPORTS(-EIO);
	a.n_bytes = WEIR_PROVIDER_DESC_MAX;
	a.describe_fails = -EHOSTDOWN;
	EXPORTS(-EHOSTDOWN);
	a.describe_fails = 0;
	EXPORTS(0);
	assert_int_equal(weir_mmap_export_device(s->m, s->dev, &opts, &again),
			 0);
	assert_ptr_equal(again.bytes, s->desc.bytes);
	assert_int_equal(a.registers, 1);

#define IMPORTS(err) \
	assert_int_equal(weir_mmap_import_device(&s->im, s->dev, bad, \
						 s->desc.len, &in), err)
	assert_int_equal(weir_mmap_import_device(&s->im, s->dev, NULL, 0,
						 &in), -EINVAL);
	memcpy(bad, s->desc.bytes, s->desc.len);
	in.flags = WEIR_IMPORT_COPY;
	IMPORTS(-EINVAL);
	in.flags = 0;
	in.permissions = WEIR_MMAP_WRITE;
	IMPORTS(-EACCES);
	in.permissions = 0;
	assert_int_equal(weir_mmap_import_device(&s->im, cpu, bad,
						 s->desc.len, &in),
			 -EOPNOTSUPP);
	assert_int_equal(weir_mmap_import(&s->im, bad, s->desc.len, (int[]){ 0 },
					  1, &in), -EOPNOTSUPP);
	bad[200] ^= 1;
	IMPORTS(-EBADMSG);
	bad[200] ^= 1;
	bad[8]++;
	IMPORTS(-EPROTONOSUPPORT);
	bad[8]--;
	a.import_fails = -EHOSTDOWN;
	IMPORTS(-EHOSTDOWN);
	a.import_ends++; /* It was not imported. */
	a.import_fails = 0;
	a.no_domain = 1;
	IMPORTS(-EIO);
	a.no_domain = 0;
	opts.not_after = 1;
	EXPORTS(0);
	memcpy(bad, s->desc.bytes, s->desc.len);
	IMPORTS(-EKEYEXPIRED);
	opts.not_after = 0;
	opts.key = key;
	opts.key_len = sizeof(key);
	if (!weir_mmap_export_device(s->m, s->dev, &opts, &s->desc)) {
		memcpy(bad, s->desc.bytes, s->desc.len);
		IMPORTS(-EKEYREJECTED);
	}
	assert_int_equal(weir_device_close(cpu), 0);
	share_end(s);
}

/* Leases by a device. */

static struct weir_lease *lease_of(struct weir_reactor *r, struct sharing *s)
{
	struct weir_lease_opts opts = {
		.size = sizeof(opts), .device = s->dev,
	};
	struct weir_lease *lease = NULL;

	assert_int_equal(weir_lease_create(&lease, r, s->m, &opts), 0);
	return lease;
}

static uint32_t state_of(const struct weir_lease *lease)
{
	struct weir_lease_info info = { .size = sizeof(info) };

	assert_int_equal(weir_lease_info(lease, &info), 0);
	return info.state;
}

static void lease_by_device_has_a_registration_of_its_own(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct weir_lease *lease[2];
	int i;

	assert_int_equal(weir_mmap_export_device(s->m, s->dev, NULL, &s->desc),
			 0);
	assert_null(a.lease_reactor);
	for (i = 0; i < 2; i++) {
		lease[i] = lease_of(r, s);
		assert_ptr_equal(a.lease_reactor, r);
		assert_int_equal(a.registers, 2 + i);
		assert_int_equal(a.range.permissions, PEER);
		assert_int_equal(weir_lease_export(lease[i], &s->desc), 0);
		assert_int_equal(s->desc.n_fds, 0);
		assert_int_equal(s->desc.fds[0], -1);
		/* The domain is too small for it. */
		assert_int_equal(import(s), -EIO);
		assert_int_equal(a.seen.bytes[3], 202 + i);
	}
	assert_int_equal(weir_lease_revoke(lease[0], NULL), 0);
	assert_int_equal(a.deregisters, 1);
	assert_int_equal(state_of(lease[0]), WEIR_LEASE_OVER);
	assert_int_equal(weir_lease_renew(lease[0], 0), -ESTALE);
	assert_int_equal(weir_lease_export(lease[0], &s->desc), -ESTALE);
	assert_int_equal(state_of(lease[1]), WEIR_LEASE_OPEN);
	assert_int_equal(weir_lease_renew(lease[1], WEIR_MSEC), 0);
	UNTIL(r, a.deregisters == 2);
	assert_int_equal(state_of(lease[1]), WEIR_LEASE_OVER);
	assert_int_equal(weir_lease_destroy(lease[0]), 0);
	assert_int_equal(weir_lease_destroy(lease_of(r, s)), 0);
	assert_int_equal(a.deregisters, 3);
	assert_int_equal(weir_mmap_stop(s->m, NULL, NULL), 0);
	assert_int_equal(weir_lease_destroy(lease[1]), 0);
	share_end(s);
}

static void device_that_keeps_a_lease_is_waited_for(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct weir_lease *lease = lease_of(r, s);
	struct rec rec;

	a.keep_fails = -EBUSY;
	assert_int_equal(weir_lease_revoke(lease, NULL), -EINPROGRESS);
	assert_non_null(strstr(weir_why(), "device unit0 (Device or resource"));
	assert_int_equal(state_of(lease), WEIR_LEASE_ENDING);
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, WEIR_USEC);
	STARTS(weir_lease_wait(lease, &rec.op));
	assert_int_equal(finish(r, &rec), -ETIMEDOUT);
	assert_int_equal(weir_lease_destroy(lease), -EBUSY);
	assert_int_equal(weir_mmap_stop(s->m, NULL, NULL), -EBUSY);
	rec_init(&rec);
	STARTS(weir_lease_revoke(lease, &rec.op));
	some_turns(r, 5);
	assert_int_equal(rec.calls, 0);
	a.keep_fails = 0;
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(a.deregisters, 1);
	assert_int_equal(state_of(lease), WEIR_LEASE_OVER);
	assert_int_equal(weir_lease_destroy(lease), 0);
	share_end(s);
}

static int export_again(struct sharing *s)
{
	return weir_mmap_export_device(s->m, s->dev, NULL, &s->desc);
}

/* A revoke waits as for importers of memory, and other exports are others. */
static void revoke_waits_for_peers_of_a_device(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct rec rec;

	assert_int_equal(export_again(s), 0);
	assert_int_equal(a.registers, 1);
	a.keep_fails = -EINPROGRESS;
	assert_int_equal(weir_mmap_revoke(s->m, NULL, NULL), -EINPROGRESS);
	assert_non_null(strstr(weir_why(), "still use the memory: device unit0"));
	a.keep_says = "process 12";
	assert_int_equal(weir_mmap_revoke(s->m, NULL, NULL), -EINPROGRESS);
	assert_non_null(strstr(weir_why(), "still use the memory: process 12;"));

	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(r) + WEIR_MSEC);
	STARTS(weir_mmap_revoke(s->m, r, &rec.op));
	assert_int_equal(finish(r, &rec), -ETIMEDOUT);
	assert_non_null(strstr(weir_why(), "process 12"));

	/* Meanwhile it is exported anew, and the old one ends alone. */
	assert_int_equal(export_again(s), 0);
	assert_int_equal(a.registers, 2);
	assert_int_equal(export_again(s), 0);
	assert_int_equal(a.registers, 2);
	rec_init(&rec);
	STARTS(weir_mmap_revoke(s->m, r, &rec.op));
	some_turns(r, 5);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(export_again(s), 0);
	assert_int_equal(a.registers, 3);
	a.keep_fails = 0;
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(a.deregisters, 2);
	assert_int_equal(weir_mmap_revoke(s->m, NULL, NULL), 0);
	assert_int_equal(a.deregisters, 3);
	share_end(s);
}

static void lease_that_all_exports_end_with_is_waited_for(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct weir_lease *lease = lease_of(r, s);
	struct rec waits;

	rec_init(&waits);
	STARTS(weir_lease_wait(lease, &waits.op));
	a.keep_fails = -EINPROGRESS;
	assert_int_equal(weir_mmap_revoke(s->m, NULL, NULL), -EINPROGRESS);
	some_turns(r, 5);
	assert_int_equal(waits.calls, 0);
	assert_int_equal(state_of(lease), WEIR_LEASE_ENDING);
	a.keep_fails = 0;
	assert_int_equal(finish(r, &waits), 0);
	assert_int_equal(a.deregisters, 1);
	assert_int_equal(weir_lease_destroy(lease), 0);
	share_end(s);
}

/* Its callback is due when the device begins to wait. */
static void cancelled_wait_for_a_lease_ends_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct weir_lease *lease = lease_of(r, s);
	struct rec waits, stops;

	rec_init(&waits);
	rec_init(&stops);
	STARTS(weir_lease_wait(lease, &waits.op));
	a.keep_fails = -EINPROGRESS;
	assert_int_equal(weir_op_cancel(&waits.op), 0);
	STARTS(weir_mmap_stop(s->m, r, &stops.op));
	assert_int_equal(weir_mmap_is_exported(s->m), 0);
	assert_int_equal(finish(r, &waits), -ECANCELED);
	some_turns(r, 20);
	assert_int_equal(stops.calls, 0);
	a.keep_fails = 0;
	assert_int_equal(finish(r, &stops), 0);
	assert_int_equal(waits.calls, 1);
	assert_int_equal(weir_lease_destroy(lease), 0);
	share_end(s);
}

/* A device that fails while it is waited for. */
static void errno_of_a_device_ends_what_waits_for_its_peers(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct rec stops, revokes;

	assert_int_equal(export_again(s), 0);
	a.keep_fails = -EINPROGRESS;
	rec_init(&stops);
	STARTS(weir_mmap_stop(s->m, r, &stops.op));
	some_turns(r, 3);
	assert_int_equal(stops.calls, 0);
	a.keep_fails = -EHOSTDOWN;
	assert_int_equal(finish(r, &stops), -EHOSTDOWN);
	assert_int_equal(weir_mmap_state(s->m), WEIR_MMAP_STARTED);
	assert_int_equal(weir_mmap_stop(s->m, NULL, NULL), -EHOSTDOWN);
	assert_int_equal(weir_mmap_revoke(s->m, NULL, NULL), -EHOSTDOWN);

	a.keep_fails = -EINPROGRESS;
	rec_init(&revokes);
	STARTS(weir_mmap_revoke(s->m, r, &revokes.op));
	some_turns(r, 3);
	assert_int_equal(revokes.calls, 0);
	a.keep_fails = -EHOSTDOWN;
	assert_int_equal(finish(r, &revokes), -EHOSTDOWN);
	a.keep_fails = 0;
	share_end(s);
}

/* The mmap is as it was, but for the exports. */
static void stop_that_peers_refuse_takes_no_keys_back(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	uint32_t lkey = 0, again = 0;

	(void)r;
	assert_int_equal(weir_mmap_keys(s->m, s->dev, &lkey, NULL), 0);
	assert_int_equal(export_again(s), 0);
	a.keep_is_of = a.registers;
	a.keep_fails = -EINPROGRESS;
	assert_int_equal(weir_mmap_stop(s->m, NULL, NULL), -EBUSY);
	assert_int_equal(a.deregisters, 0);
	assert_int_equal(weir_mmap_keys(s->m, s->dev, &again, NULL), 0);
	assert_int_equal(again, lkey);
	a.keep_fails = 0;
	share_end(s);
}

static void lease_whose_device_fails_later_is_not_open(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct weir_lease *lease;

	assert_int_equal(export_again(s), 0);
	lease = lease_of(r, s);
	/* The lease is asked first, and then the other. */
	a.keep_is_of = a.registers;
	a.keep_fails = -EINPROGRESS;
	a.other_fails = -EHOSTDOWN;
	assert_int_equal(weir_mmap_revoke(s->m, NULL, NULL), -EHOSTDOWN);
	assert_int_equal(state_of(lease), WEIR_LEASE_ENDING);
	assert_int_equal(weir_lease_export(lease, &s->desc), -ESTALE);
	a.keep_fails = a.other_fails = 0;
	assert_int_equal(state_of(lease), WEIR_LEASE_OVER);
	assert_int_equal(weir_lease_destroy(lease), 0);
	share_end(s);
}

static void stop_waits_for_peers_of_a_device(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct rec rec;

	assert_int_equal(export_again(s), 0);
	a.keep_fails = -EINPROGRESS;
	a.keep_says = "process 12";
	assert_int_equal(weir_mmap_stop(s->m, NULL, NULL), -EBUSY);
	assert_starts_with(weir_why(), "weir_mmap_stop: ");
	assert_non_null(strstr(weir_why(), ": process 12;"));
	assert_int_equal(weir_mmap_state(s->m), WEIR_MMAP_STARTED);
	assert_int_equal(export_again(s), 0);

	rec_init(&rec);
	STARTS(weir_mmap_stop(s->m, r, &rec.op));
	some_turns(r, 5);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_mmap_state(s->m), WEIR_MMAP_STOPPING);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_non_null(strstr(weir_why(), ": process 12"));
	assert_int_equal(weir_mmap_state(s->m), WEIR_MMAP_STARTED);

	rec_init(&rec);
	STARTS(weir_mmap_stop(s->m, r, &rec.op));
	some_turns(r, 5);
	assert_int_equal(rec.calls, 0);
	a.keep_fails = 0;
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(weir_mmap_state(s->m), WEIR_MMAP_STOPPED);
	assert_int_equal(a.deregisters, 2);
	share_end(s);
}

/* It begins to end peers' access at once, and then waits for them and for bufs. */
static void drain_waits_for_peers_of_a_device(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct weir_inventory *inv = start_inventory(r, s->m);
	struct weir_buf *buf = get_buf(inv, s->m, s->mem, 100, 0);
	struct weir_lease *lease = lease_of(r, s);
	struct rec rec, waits;

	assert_int_equal(export_again(s), 0);
	rec_init(&rec);
	rec_init(&waits);
	STARTS(weir_lease_wait(lease, &waits.op));
	a.keep_fails = -EINPROGRESS;
	STARTS(weir_mmap_drain(s->m, r, &rec.op));
	weir_buf_put(buf);
	some_turns(r, 5);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(waits.calls, 0);
	assert_int_equal(state_of(lease), WEIR_LEASE_ENDING);
	a.keep_fails = 0;
	assert_int_equal(finish(r, &rec), 0);
	UNTIL(r, waits.calls);
	assert_int_equal(waits.res, 0);
	assert_int_equal(state_of(lease), WEIR_LEASE_OVER);
	assert_int_equal(a.deregisters, 2);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	s->m = NULL;
	assert_int_equal(weir_lease_destroy(lease), 0);
	share_end(s);
}

/* Also while the exporter's own bufs are out. */
static void leases_by_device_end_with_all_exports(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct sharing *s = share(PEER);
	struct weir_inventory *inv = start_inventory(r, s->m);
	struct weir_buf *buf = get_buf(inv, s->m, s->mem, 100, 0);
	struct weir_lease *lease[2] = { lease_of(r, s), NULL };
	struct rec waits, drains;

	assert_int_equal(weir_mmap_revoke(s->m, NULL, NULL), 0);
	assert_int_equal(a.deregisters, 1);
	assert_int_equal(state_of(lease[0]), WEIR_LEASE_OVER);
	lease[1] = lease_of(r, s);
	rec_init(&waits);
	rec_init(&drains);
	STARTS(weir_lease_wait(lease[1], &waits.op));
	STARTS(weir_mmap_drain(s->m, r, &drains.op));
	assert_int_equal(finish(r, &waits), 0);
	assert_int_equal(a.deregisters, 2);
	assert_int_equal(drains.calls, 0);
	weir_buf_put(buf);
	assert_int_equal(finish(r, &drains), 0);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	s->m = NULL;
	assert_int_equal(weir_lease_destroy(lease[0]), 0);
	assert_int_equal(weir_lease_destroy(lease[1]), 0);
	share_end(s);
}

/* An exporter sends descriptors, of which it has none. */
static void lease_by_device_is_not_for_an_exporter(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	char dir[] = "/tmp/weir-provider-XXXXXX", path[64];
	struct sharing *s = share(WEIR_MMAP_PEER_READ);
	struct weir_lease *lease = lease_of(r, s);
	struct weir_exporter *x = NULL;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	assert_int_equal(weir_exporter_create(&x, r, path, NULL), 0);
	assert_int_equal(weir_exporter_add_lease(x, "a", lease), -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_exporter_add_lease: ");
	weir_exporter_destroy(x);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(weir_lease_destroy(lease), 0);
	share_end(s);
}

static void lease_that_a_device_cannot_give_is_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_lease_opts opts = { .size = sizeof(opts) };
	struct sharing *s = share(WEIR_MMAP_PEER_READ);
	struct weir_lease *lease = NULL;
	struct weir_device *cpu = NULL;

#define LEASE_IS(err) \
	do { \
		assert_int_equal(weir_lease_create(&lease, r, s->m, &opts), \
				 err); \
		assert_starts_with(weir_why(), "weir_lease_create: "); \
		assert_null(lease); \
	} while (0)
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	opts.device = cpu;
	LEASE_IS(-ENOENT);
	opts.device = s->dev;
	opts.flags = WEIR_EXPORT_COPY;
	LEASE_IS(-EINVAL);
	opts.flags = 0;
	opts.permissions = WEIR_MMAP_PEER_WRITE;
	LEASE_IS(-EACCES);
	opts.permissions = 0;
	a.describe_fails = -EHOSTDOWN;
	assert_int_equal(weir_lease_create(&lease, r, s->m, &opts),
			 -EHOSTDOWN);
	a.describe_fails = 0;
	assert_int_equal(a.registers, 1);
	assert_int_equal(a.deregisters, 1);
	a.register_fails = -ENOSPC;
	assert_int_equal(weir_lease_create(&lease, r, s->m, &opts), -ENOSPC);
	a.register_fails = 0;
	a.deregisters++; /* It was not registered. */
	for (long i = 0; has_counts(); i++) {
		int err;

		atomic_store(&allocations_left, i);
		err = weir_lease_create(&lease, r, s->m, &opts);
		atomic_store(&allocations_left, -1);
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
	}
	assert_int_equal(weir_lease_destroy(lease), 0);
	assert_int_equal(weir_device_close(cpu), 0);
	share_end(s);
}

/* More than a version knows, more than an mmap keeps, and more than there is. */
static void limits_of_providers_are_told(void **state)
{
	struct { struct weir_export_opts opts; uint64_t more; } out = {
		{ .size = sizeof(out) }, 1
	};
	struct { struct weir_import_opts opts; uint64_t more; } in = {
		{ .size = sizeof(in) }, 1
	};
	struct weir_export_opts opts = { .size = sizeof(opts) };
	struct sharing *s = share(WEIR_MMAP_PEER_READ);
	struct weir_devinfo **list;
	struct weir_provider *p;
	size_t n, i;
	int err = 0;

	(void)state;
	assert_int_equal(weir_mmap_export_device(s->m, s->dev, &out.opts,
						 &s->desc), -E2BIG);
	a.later = 1;
	assert_int_equal(weir_device_list(&list, &n), -E2BIG);
	assert_starts_with(weir_why(), "weir_provider_list_add: ");
	a.later = 0;
	if (has_counts()) {
		atomic_store(&allocations_left, 0);
		err = weir_mmap_export_device(s->m, s->dev, NULL, &s->desc);
		atomic_store(&allocations_left, -1);
		assert_int_equal(err, -ENOMEM);
	}
	for (i = 0; !err || err == -ENOMEM; i++) {
		opts.not_after = UINT64_MAX - i;
		err = weir_mmap_export_device(s->m, s->dev, &opts, &s->desc);
	}
	assert_int_equal(i, 257);
	assert_int_equal(err, -EAGAIN);
	assert_int_equal(weir_mmap_import_device(&s->im, s->dev, s->desc.bytes,
						 s->desc.len, &in.opts),
			 -E2BIG);
	for (i = 0; i < 2 && has_counts(); i++) {
		atomic_store(&allocations_left, (long)i);
		err = import(s);
		atomic_store(&allocations_left, -1);
		assert_int_equal(err, -ENOMEM);
	}
	for (i = 0; has_counts(); i++) {
		atomic_store(&allocations_left, (long)i);
		err = weir_device_list(&list, &n);
		atomic_store(&allocations_left, -1);
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
	}
	if (has_counts()) {
		weir_device_list_free(list);
		atomic_store(&allocations_left, 0);
		err = weir_provider_register(&p, &acme_ops, &a);
		atomic_store(&allocations_left, -1);
		assert_int_equal(err, -ENOMEM);
	}
	share_end(s);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(provider_that_makes_no_sense_is_refused),
		CASE(devices_of_provider_are_listed_and_opened),
		CASE(device_that_makes_no_sense_is_not_listed),
		CASE(devices_cannot_be_asked_for_inside_their_provider),
		CASE(entry_of_unregistered_provider_cannot_be_opened),
		CASE(lost_device_is_opened_anew),
		CASE(memory_is_registered_once_until_the_stop),
		CASE(context_has_the_engine_of_each_provider),
		CASE(engine_gets_the_registration_of_each_piece),
		CASE(import_is_reached_in_the_domain_of_its_device),
		CASE(memory_of_a_domain_has_bufs_and_exports),
		CASE(export_by_device_is_checked_and_authenticated),
		CASE(export_is_imported_by_its_own_provider_alone),
		CASE(lease_by_device_has_a_registration_of_its_own),
		CASE(device_that_keeps_a_lease_is_waited_for),
	CASE(revoke_waits_for_peers_of_a_device),
	CASE(lease_that_all_exports_end_with_is_waited_for),
	CASE(cancelled_wait_for_a_lease_ends_once),
	CASE(errno_of_a_device_ends_what_waits_for_its_peers),
	CASE(stop_that_peers_refuse_takes_no_keys_back),
	CASE(lease_whose_device_fails_later_is_not_open),
	CASE(stop_waits_for_peers_of_a_device),
	CASE(drain_waits_for_peers_of_a_device),
		CASE(leases_by_device_end_with_all_exports),
		REAL(lease_by_device_is_not_for_an_exporter),
		CASE(lease_that_a_device_cannot_give_is_refused),
		CASE(limits_of_providers_are_told),
	};

	return harness_run_all(cases, N_OF(cases));
}

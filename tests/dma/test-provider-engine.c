/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What the engine of a provider's device has of a job: keys of its memory, the
 * library's staging where the device knows none, its place in it, and what there
 * is to verify before anything begins.
 */

#include "tests/support/export-fixture.h"
#include "tests/support/job-fixture.h"

#include <weir/buf.h>
#include <weir/device.h>
#include <weir/engine.h>
#include <weir/export.h>
#include <weir/provider.h>

#define LEN 65536u
#define RIGHTS (WEIR_MMAP_WRITE | WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

/* A device whose engine moves bytes between memory that it has registered and a
 * domain of its own. */
static struct unit {
	struct weir_provider *p;
	struct weir_domain *d;
	struct weir_device *dev;
	struct weir_reactor *r;
	struct weir_dma *dma;
	char far[LEN];
	int opens, closes, registers, deregisters, register_fails;
	int keeps;		/* So many deregistrations are refused. */
	struct weir_provider_range range;	/* The last one. */
	int jobs, steps;	/* That it has begun. */
	int refuses, code;	/* Steps, so. */
	uint32_t max;		/* Bytes that it moves at once. */
	struct weir_provider_key key;	/* Of the last piece. */
	uint32_t verified;	/* Bits: sides. */
	int refused_side, refused_with;
	bool holds;
	struct weir_job *held;
	int is_import;		/* What .import() has given for its data. */
	int far_keys;		/* Pieces with that on the far side. */
} u;

static int unit_list(void *arg, struct weir_provider_list *list)
{
	struct weir_device_caps caps = {
		.size = sizeof(caps),
		.name = "unit",
		.kind = WEIR_DEVICE_USER + 1,
		.flags = WEIR_DEVICE_USABLE,
		.caps = WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_EXPORT |
			WEIR_DEVICE_CAP_IMPORT,
	};

	(void)arg;
	return weir_provider_list_add(list, &caps);
}

static int unit_open(void *arg, struct weir_device *dev, void **card)
{
	(void)dev;
	u.opens++;
	*card = arg;
	return 0;
}

static void unit_close(void *card)
{
	(void)card;
	u.closes++;
}

static int unit_register(void *card, const struct weir_provider_range *range,
			 struct weir_provider_key *ret)
{
	(void)card;
	if (u.register_fails)
		return weir_why_set(u.register_fails, "weir_mmap_keys: no");
	u.registers++;
	u.range = *range;
	*ret = (struct weir_provider_key){
		.data = range->addr,
		.lkey = (uint32_t)u.registers,
	};
	return 0;
}

static int unit_deregister(void *card, const struct weir_provider_key *key)
{
	(void)card, (void)key;
	if (u.keeps && u.keeps--)
		return weir_why_set(-EBUSY, "weir_mmap_stop: not yet");
	u.deregisters++;
	return 0;
}

static int unit_describe(void *card, const struct weir_provider_key *key,
			 struct weir_provider_desc *desc)
{
	(void)card, (void)key;
	desc->addr = 0;
	return 0;
}

static int unit_import(void *card, const struct weir_provider_desc *desc,
		       struct weir_provider_import *ret)
{
	(void)card, (void)desc;
	ret->domain = u.d;
	ret->data = &u.is_import;
	return 0;
}

static void unit_import_end(void *card, const struct weir_provider_import *im)
{
	(void)card;
	assert_ptr_equal(im->data, &u.is_import);
}

static int unit_can(void *arg, const struct weir_engine_query *q,
		    const char **why)
{
	(void)arg;
	*why = "only copies between memory and the unit";
	if (q->kind == WEIR_JOB_FILL)
		return q->dst == u.d;
	return (q->src == u.d || q->dst == u.d) &&
	       (q->src == weir_domain_system() ||
		q->dst == weir_domain_system()) && q->kind <= WEIR_JOB_PUSH;
}

static int unit_verify(void *arg, const struct weir_job *job, int side)
{
	(void)arg, (void)job;
	u.verified |= 1u << side;
	if (side == u.refused_side && u.refused_with)
		return weir_why_set(u.refused_with, "weir_job_start: no");
	return 0;
}

static void *far_at(const struct iovec *iov, bool far)
{
	return far ? u.far + (uintptr_t)iov->iov_base : iov->iov_base;
}

/* Piece by piece, and never more than .max, from where it is in @job. */
static void move_all(struct weir_job *job)
{
	bool push = weir_job_domain(job, WEIR_JOB_DST) == u.d;
	uint64_t left = weir_job_bytes(job), n;
	struct iovec to, from;

	for (; left; left -= n) {
		assert_int_equal(weir_job_pieces(job, WEIR_JOB_DST, 0, &to, 1),
				 1);
		assert_int_equal(weir_job_pieces(job, WEIR_JOB_SRC, 0, &from,
						 1), 1);
		n = to.iov_len < from.iov_len ? to.iov_len : from.iov_len;
		n = n < u.max ? n : u.max;
		memcpy(far_at(&to, push), far_at(&from, !push), n);
		weir_job_skip(job, n);
	}
	weir_job_skip(job, 9);	/* Beyond the end. */
	assert_int_equal(weir_job_pieces(job, WEIR_JOB_DST, 0, &to, 1), 0);
	weir_job_end(job, weir_job_bytes(job), 0, 0);
}

static int unit_start(void *arg, struct weir_job *job)
{
	bool push = weir_job_domain(job, WEIR_JOB_DST) == u.d;
	struct iovec iov[8], same[8];
	struct weir_provider_key keys[8];
	int side = push ? WEIR_JOB_SRC : WEIR_JOB_DST;
	int n;

	(void)arg;
	if (u.holds) {
		u.held = job;
		return 0;
	}
	if (job->kind == WEIR_JOB_FILL)
		return weir_job_stage(job, -ENOENT);
	n = weir_job_keys(job, side, 0, u.dev, iov, keys, 8);
	if (n < 0)
		return weir_job_stage(job, n);
	assert_true(n > 0);
	assert_int_equal(weir_job_pieces(job, side, 0, same, 8), n);
	assert_memory_equal(iov, same, (size_t)n * sizeof(iov[0]));
	if (weir_job_is_step(job) && u.refuses) {
		weir_job_set_code(job, u.code);
		return u.refuses;
	}
	u.key = keys[n - 1];
	if (weir_job_keys(job, push ? WEIR_JOB_DST : WEIR_JOB_SRC, 0, u.dev,
			  NULL, keys, 1) == 1)
		u.far_keys += keys[0].data == &u.is_import;
	u.jobs += !weir_job_is_step(job);
	u.steps += weir_job_is_step(job);
	assert_int_equal(weir_job_is_stale(job), 0);
	move_all(job);
	return 0;
}

static const struct weir_engine_ops engine = {
	.size = sizeof(engine),
	.name = "unit-dma",
	.can = unit_can,
	.start = unit_start,
	.flags = WEIR_ENGINE_FOREIGN,
	.verify = unit_verify,
};

static const struct weir_provider_ops unit_ops = {
	.size = sizeof(unit_ops),
	.name = "unit",
	.list = unit_list,
	.open = unit_open,
	.close = unit_close,
	.mem_register = unit_register,
	.mem_deregister = unit_deregister,
	.describe = unit_describe,
	.import = unit_import,
	.import_end = unit_import_end,
	.engine = &engine,
};

static void unit_begin(void **state)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts),
		.len = LEN,
		.kind = WEIR_DOMAIN_USER,
	};

	memset(&u, 0, sizeof(u));
	u.max = 1000;
	u.r = start_reactor(state);
	assert_int_equal(weir_domain_create(&u.d, &opts), 0);
	assert_int_equal(weir_provider_register(&u.p, &unit_ops, &u), 0);
	assert_int_equal(weir_device_open_name(&u.dev, "unit"), 0);
	u.dma = start_dma(u.r, (struct weir_dma_opts){ 0 });
}

/* Nothing is left with the device. */
static void unit_end(void)
{
	assert_int_equal(weir_dma_destroy(u.dma), 0);
	if (u.dev)
		assert_int_equal(weir_device_close(u.dev), 0);
	assert_int_equal(u.deregisters, u.registers);
	assert_int_equal(u.closes, u.opens);
	assert_int_equal(weir_provider_unregister(u.p), 0);
	assert_int_equal(weir_domain_destroy(u.d), 0);
}

static struct weir_operand far_operand(uint64_t addr, uint64_t len)
{
	return weir_operand_at(u.d, addr, len);
}

static void memory_that_the_device_does_not_know_goes_through_staging(
	void **state)
{
	static char from[LEN], to[LEN];
	struct jrec j;

	unit_begin(state);
	fill_pattern(from, LEN, 0, 1);
	jrec_init(&j);
	weir_job_copy(&j.job, far_operand(0, LEN), weir_operand_mem(from, LEN));
	assert_int_equal(jrec_run(u.dma, &j), LEN);
	assert_memory_equal(u.far, from, LEN);
	assert_int_equal(u.jobs, 0);
	assert_true(u.steps > 0);
	assert_int_equal(dma_stats_of(u.dma).fallbacks, 1);
	/* One registration, which is of staging. */
	assert_int_equal(u.registers, 1);
	assert_int_equal(u.key.lkey, 1);
	assert_int_equal(u.range.kind, WEIR_PROVIDER_RANGE_MEM);
	assert_ptr_not_equal(u.range.addr, from);
	/* And back. */
	weir_job_copy(&j.job, weir_operand_mem(to, LEN), far_operand(0, LEN));
	assert_int_equal(jrec_run(u.dma, &j), LEN);
	assert_memory_equal(to, from, LEN);
	assert_int_equal(u.registers, 1);
	unit_end();
}

static void staging_stays_registered_until_the_context_ends(void **state)
{
	char mem[64] = "some bytes";
	struct jrec j;

	unit_begin(state);
	jrec_init(&j);
	weir_job_copy(&j.job, far_operand(0, 64), weir_operand_mem(mem, 64));
	assert_int_equal(jrec_run(u.dma, &j), 64);
	/* The user's close is not the last. */
	assert_int_equal(weir_device_close(u.dev), 0);
	assert_int_equal(u.closes + u.deregisters, 0);
	weir_job_copy(&j.job, far_operand(64, 64), weir_operand_mem(mem, 64));
	assert_int_equal(jrec_run(u.dma, &j), 64);
	assert_memory_equal(u.far + 64, mem, 64);
	assert_int_equal(weir_provider_unregister(u.p), -EBUSY);
	u.dev = NULL;
	unit_end();
}

/* A device that is there again has staging of its own, and that of the one before is
 * given back, now or later. */
static void staging_that_a_device_keeps_is_asked_for_again(void **state)
{
	static const int keeps[] = { 0, 1, 0 };
	char mem[64] = "some bytes";
	struct jrec j;

	unit_begin(state);
	jrec_init(&j);
	weir_job_copy(&j.job, far_operand(0, 64), weir_operand_mem(mem, 64));
	assert_int_equal(jrec_run(u.dma, &j), 64);
	for (size_t i = 0; i < N_OF(keeps); i++) {
		assert_int_equal(weir_provider_lost(u.dev), 0);
		assert_int_equal(weir_device_close(u.dev), 0);
		assert_int_equal(weir_device_open_name(&u.dev, "unit"), 0);
		u.keeps = keeps[i];
		assert_int_equal(jrec_run(u.dma, &j), 64);
		assert_int_equal(u.keeps, 0);
		assert_int_equal(u.registers - u.deregisters, 1 + keeps[i]);
	}
	u.keeps = 1;
	unit_end();
}

static void job_that_is_no_copy_does_not_go_through_staging(void **state)
{
	struct jrec j;

	unit_begin(state);
	jrec_init(&j);
	weir_job_fill(&j.job, far_operand(0, 64), 7);
	assert_int_equal(weir_job_start(u.dma, &j.job), -EOPNOTSUPP);
	unit_end();
}

static void failure_to_register_staging_ends_the_job(void **state)
{
	char mem[64] = "some bytes";
	struct jrec j;

	unit_begin(state);
	u.register_fails = -ENOSPC;
	jrec_init(&j);
	weir_job_copy(&j.job, far_operand(0, 64), weir_operand_mem(mem, 64));
	assert_int_equal(jrec_run(u.dma, &j), -ENOSPC);
	assert_int_equal(u.steps, 0);
	u.register_fails = 0;
	assert_int_equal(jrec_run(u.dma, &j), 64);
	unit_end();
}

static void step_that_is_refused_ends_the_job_with_its_code(void **state)
{
	char mem[64] = "some bytes";
	struct jrec j;

	unit_begin(state);
	u.refuses = -EHOSTDOWN;
	u.code = 77;
	jrec_init(&j);
	weir_job_copy(&j.job, far_operand(0, 64), weir_operand_mem(mem, 64));
	assert_int_equal(jrec_run(u.dma, &j), -EHOSTDOWN);
	assert_int_equal(j.detail.code, 77);
	unit_end();
}

/* Both sides in pieces that end at different places. */
static void engine_goes_on_in_a_job_by_what_it_skips(void **state)
{
	static char mem[4096];
	struct iovec iov[] = { { (void *)3, 700 }, { (void *)2000, 1 },
			       { (void *)5000, 299 } };
	struct weir_inventory *inv;
	struct weir_buf *b, *next;
	struct weir_mmap *m;
	struct jrec j;

	unit_begin(state);
	fill_pattern(mem, sizeof(mem), 0, 1);
	m = start_mmap_on(u.dev, mem, sizeof(mem), WEIR_MMAP_WRITE);
	inv = start_inventory(u.r, m);
	b = get_buf(inv, m, mem + 100, 650, 650);
	next = get_buf(inv, m, mem + 1000, 350, 350);
	assert_int_equal(weir_buf_chain(b, next), 0);
	for (u.max = 1; u.max < 1000; u.max *= 3) {
		memset(u.far, 0, LEN);
		jrec_init(&j);
		weir_job_copy(&j.job, weir_operand_iov(u.d, iov, 3),
			      weir_operand_buf(b));
		assert_int_equal(jrec_run(u.dma, &j), 1000);
		assert_memory_equal(u.far + 3, mem + 100, 650);
		assert_memory_equal(u.far + 653, mem + 1000, 50);
		assert_int_equal(u.far[2000], mem[1050]);
		assert_memory_equal(u.far + 5000, mem + 1051, 299);
	}
	/* By the registration of the mmap, which is made once. */
	assert_int_equal(u.registers, 1);
	assert_ptr_equal(u.key.data, mem);
	assert_int_equal(u.steps, 0);
	weir_buf_put(b);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	unit_end();
}

static void sides_are_verified_before_anything_begins(void **state)
{
	char mem[64] = "some bytes";
	struct jrec j;
	int side;

	unit_begin(state);
	jrec_init(&j);
	for (side = WEIR_JOB_SRC; side <= WEIR_JOB_DST; side++) {
		u.refused_side = side;
		u.refused_with = -EACCES;
		weir_job_copy(&j.job, far_operand(0, 64),
			      weir_operand_mem(mem, 64));
		assert_int_equal(weir_job_start(u.dma, &j.job), -EACCES);
		assert_starts_with(weir_why(), "weir_job_start: no");
		assert_int_equal(u.verified & 1u << side, 1u << side);
	}
	assert_int_equal(u.jobs + u.steps + u.registers, 0);
	u.refused_with = 0;
	u.verified = 0;
	assert_int_equal(jrec_run(u.dma, &j), 64);
	assert_int_equal(u.verified, 3);
	unit_end();
}

/* Those of an XOR that goes through staging. */
static void extra_sides_are_verified(void **state)
{
	static char to[64], from[64];
	struct weir_operand srcs[2];
	struct jrec j;

	unit_begin(state);
	srcs[0] = weir_operand_mem(from, 64);
	srcs[1] = far_operand(0, 64);
	jrec_init(&j);
	memset(u.far, 3, 64);
	memset(from, 5, 64);
	weir_job_xor(&j.job, weir_operand_mem(to, 64), srcs, 2);
	u.refused_side = WEIR_JOB_EXTRA;
	u.refused_with = -EACCES;
	assert_int_equal(weir_job_start(u.dma, &j.job), -EACCES);
	u.refused_with = 0;
	u.verified = 0;
	assert_int_equal(jrec_run(u.dma, &j), 64);
	assert_int_equal(u.verified, 1u << WEIR_JOB_EXTRA);
	assert_int_equal(to[63], 3 ^ 5);
	unit_end();
}

/* It is asked about the side that it moves, and not about the other engine's. */
static void side_through_staging_is_verified_alone(void **state)
{
	int fd = memfd_create("weir-test", MFD_CLOEXEC);
	struct weir_domain *file;
	struct jrec j;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	file = file_domain(fd);
	unit_begin(state);
	jrec_init(&j);
	u.refused_side = WEIR_JOB_DST;
	u.refused_with = -EACCES;
	weir_job_copy(&j.job, far_operand(0, 4096),
		      weir_operand_at(file, 0, 4096));
	assert_int_equal(weir_job_start(u.dma, &j.job), -EACCES);
	assert_int_equal(u.verified, 1u << WEIR_JOB_DST);
	u.refused_with = 0;
	assert_int_equal(jrec_run(u.dma, &j), 4096);
	u.verified = 0;
	u.refused_side = WEIR_JOB_SRC;
	u.refused_with = -EACCES;
	weir_job_copy(&j.job, weir_operand_at(file, 0, 4096),
		      far_operand(0, 4096));
	assert_int_equal(weir_job_start(u.dma, &j.job), -EACCES);
	assert_int_equal(u.verified, 1u << WEIR_JOB_SRC);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	unit_end();
}

/* The exporter is this process, too. */
static void revoked_memory_is_stale_for_an_engine_that_has_it(void **state)
{
	struct weir_mmap *m, *im = NULL;
	struct weir_inventory *inv;
	struct parcel p;
	struct weir_buf *b;
	struct rec revoke;
	struct jrec j;

	unit_begin(state);
	m = fixture_started(FIXTURE_LEN, RW);
	parcel_of(&p, m, NULL);
	assert_int_equal(parcel_import(&im, &p, NULL), 0);
	parcel_drop(&p);
	inv = start_inventory(u.r, im);
	b = get_buf(inv, im, fixture_addr(im), 256, 256);
	u.holds = true;
	jrec_init(&j);
	weir_job_copy(&j.job, far_operand(0, 256), weir_operand_buf(b));
	STARTS(weir_job_start(u.dma, &j.job));
	assert_non_null(u.held);
	assert_int_equal(weir_job_is_stale(u.held), 0);
	rec_init(&revoke);
	STARTS(weir_mmap_revoke(m, u.r, &revoke.op));
	assert_int_equal(weir_job_is_stale(u.held), 1);
	weir_job_end(u.held, 0, -ESTALE, 0);
	assert_int_equal(jrec_finish(u.r, &j), -ESTALE);
	assert_int_equal(finish(u.r, &revoke), 0);
	weir_buf_put(b);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	unit_end();
}

/* Each block of an import has the key of its buf. */
static void steps_have_the_keys_of_imports(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	static char mem[4096], from[4096];
	struct weir_inventory *inv;
	struct weir_mmap *m, *im = NULL;
	struct weir_buf *b;
	struct jrec j;

	unit_begin(state);
	fill_pattern(from, sizeof(from), 0, 1);
	m = start_mmap_on(u.dev, mem, 4096, RIGHTS);
	assert_int_equal(weir_mmap_export_device(m, u.dev, NULL, &desc), 0);
	assert_int_equal(weir_mmap_import_device(&im, u.dev, desc.bytes,
						 desc.len, NULL), 0);
	inv = start_inventory(u.r, im);
	b = get_buf(inv, im, NULL, 4096, 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_buf(b),
		      weir_operand_mem(from, 4096));
	assert_int_equal(jrec_run(u.dma, &j), 4096);
	assert_memory_equal(u.far, from, 4096);
	assert_true(u.steps > 0);
	assert_int_equal(u.far_keys, u.steps);
	weir_buf_put(b);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	unit_end();
}

static void key_of_a_buf_is_its_mmaps_or_its_imports(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_mmap *m, *plain, *im = NULL;
	static char mem[256], other[256];
	struct weir_provider_key key = { NULL, 9, 9 };
	struct weir_inventory *inv;
	struct weir_device *cpu;
	struct weir_buf *b;

	unit_begin(state);
	assert_int_equal(weir_device_open_name(&cpu, "cpu"), 0);
	m = start_mmap_on(u.dev, mem, 256, RIGHTS);
	plain = start_mmap(other, 256, WEIR_MMAP_WRITE);
	inv = start_inventory(u.r, m);
	assert_int_equal(weir_inventory_attach(inv, plain), 0);
	b = get_buf(inv, plain, other, 256, 0);
	assert_int_equal(weir_buf_key(b, u.dev, &key), -ENOENT);
	assert_int_equal(weir_buf_key(b, cpu, &key), -EPERM);
	assert_starts_with(weir_why(), "weir_buf_key: ");
	assert_int_equal(key.lkey, 9);
	weir_buf_put(b);
	b = get_buf(inv, m, mem, 256, 0);
	assert_int_equal(weir_buf_key(b, u.dev, &key), 0);
	assert_ptr_equal(key.data, mem);
	assert_int_equal(key.lkey, 1);
	weir_buf_put(b);
	assert_int_equal(weir_mmap_export_device(m, u.dev, NULL, &desc), 0);
	assert_int_equal(weir_mmap_import_device(&im, u.dev, desc.bytes,
						 desc.len, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, im), 0);
	b = get_buf(inv, im, NULL, 256, 0);
	assert_int_equal(weir_buf_key(b, u.dev, &key), 0);
	assert_ptr_equal(key.data, &u.is_import);
	weir_buf_put(b);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(im), 0);
	assert_int_equal(weir_mmap_destroy(plain), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(weir_device_close(cpu), 0);
	unit_end();
}

static void held_bufs_are_a_source_until_their_release(void **state)
{
	static char mem[1024];
	struct weir_inventory *inv;
	struct weir_buf *b, *next, *more;
	struct weir_mmap *m;
	struct jrec j;
	uint32_t n = 0;

	unit_begin(state);
	m = start_mmap(mem, sizeof(mem), WEIR_MMAP_WRITE);
	inv = start_inventory(u.r, m);
	b = get_buf(inv, m, mem, 200, 100);
	next = get_buf(inv, m, mem + 200, 200, 150);
	more = get_buf(inv, m, mem + 400, 200, 0);
	assert_int_equal(weir_buf_chain(b, next), 0);
	assert_int_equal(weir_buf_hold(next, u.r, &n), -EPERM);
	assert_starts_with(weir_why(), "weir_buf_hold: ");
	assert_int_equal(weir_buf_hold(b, u.r, &n), 250);
	assert_int_equal(n, 2);
	/* As of a job: it is read by others, and written by none. */
	assert_int_equal(weir_buf_chain(b, more), -EBUSY);
	assert_int_equal(weir_buf_reset(next), -EBUSY);
	jrec_init(&j);
	weir_job_fill(&j.job, weir_operand_buf(b), 0);
	assert_int_equal(weir_job_start(u.dma, &j.job), -EBUSY);
	assert_int_equal(weir_buf_hold(b, u.r, &n), 250);
	weir_buf_release(b, u.r);
	assert_int_equal(weir_buf_chain(b, more), -EBUSY);
	weir_buf_release(b, u.r);
	assert_int_equal(weir_buf_refs(b), 1);
	assert_int_equal(weir_buf_chain(b, more), 0);
	weir_buf_put(b);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	unit_end();
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(memory_that_the_device_does_not_know_goes_through_staging),
		CASE(staging_stays_registered_until_the_context_ends),
		CASE(staging_that_a_device_keeps_is_asked_for_again),
		CASE(job_that_is_no_copy_does_not_go_through_staging),
		CASE(failure_to_register_staging_ends_the_job),
		CASE(step_that_is_refused_ends_the_job_with_its_code),
		CASE(engine_goes_on_in_a_job_by_what_it_skips),
		CASE(sides_are_verified_before_anything_begins),
		REAL(side_through_staging_is_verified_alone),
		REAL(revoked_memory_is_stale_for_an_engine_that_has_it),
		CASE(steps_have_the_keys_of_imports),
		CASE(extra_sides_are_verified),
		CASE(key_of_a_buf_is_its_mmaps_or_its_imports),
		CASE(held_bufs_are_a_source_until_their_release),
	};

	return harness_run_all(cases, N_OF(cases));
}

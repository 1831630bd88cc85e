/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A rogue peer.  It has a connection and a window that it was given, does not
 * use what checks descriptors and rights here, and tries for more: its attempt
 * ends in its error, changes not a byte, and costs its own connection alone.
 * Another one to the same exporter goes on.  Descriptors that are forged, cut,
 * or old come to nothing.
 */

#include "tests/support/mw-fixture.h"

#include <time.h>

#include <weir/rdma/export.h>

#include "mem/export/descriptor.h"
#include "tests/fuzz/descriptor-fixture.h"

#define A WEIR_MMAP_RDMA_ATOMIC

/* An exporter with two peers. */
struct two {
	struct sharing bad, good;
};

static void two_begin(struct two *t, void **state, uint32_t rights)
{
	sharing_begin(&t->good, state);
	sharing_export(&t->good, R | W);
	sharing_import(&t->good);
	sharing_init(&t->bad, state);
	t->bad.e.others = true;
	sharing_open(&t->bad);
	sharing_export(&t->bad, rights);
}

static void two_end(struct two *t)
{
	sharing_end(&t->bad);
	sharing_end(&t->good);
}

static void the_other_goes_on(struct two *t)
{
	struct sharing *s = &t->good;
	struct jrec j;

	assert_int_equal(s->e.n_ends[0] + s->e.n_ends[1], 0);
	nothing_has_changed(s);
	assert_int_equal(sharing_write(s, &j, 0, PART_LEN), PART_LEN);
	assert_true(all_are(s->mem + PART_OFF, PART_LEN, 'n'));
	memset(s->mem, 'm', MEM_LEN);
	assert_int_equal(sharing_read(s, &j, 0, PART_LEN), PART_LEN);
	assert_true(all_are(s->near, PART_LEN, 'm'));
	memset(s->near, 'n', MEM_LEN);
}

static void the_rogue_is_out(struct two *t, const struct jrec *j, int64_t res,
			     const char *what)
{
	if (res != -EACCES || j->detail.code != IBV_WC_REM_ACCESS_ERR)
		fail_msg("%s: %lld, and status %d", what, (long long)res,
			 j->detail.code);
	assert_int_equal(j->detail.bytes, 0);
	UNTIL(t->bad.r, t->bad.e.n_ends[0] && t->bad.e.n_ends[1]);
	assert_int_equal(t->bad.e.why[0], -EIO);
	nothing_has_changed(&t->bad);
	assert_true(all_are(t->bad.near, MEM_LEN, 'n'));
	the_other_goes_on(t);
}

/* By a key, which it has learnt from the bytes, or has guessed. */

static struct descriptor read_bytes(const struct sharing *s)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct descriptor d;

	assert_int_equal(weir_mw_export(s->w, &desc), 0);
	assert_int_equal(descriptor_parse(&d, desc.bytes, desc.len, NULL, 0, 0,
					  "test"), 0);
	return d;
}

enum how { WRITE, READ, ADD };

/* When it tries: nothing has happened; or the window was taken back, by this;
 * or it is the other peer's. */
enum when { AT_ONCE, REVOKED, FREED, STOPPED, OTHERS };

static const struct attempt {
	const char *name;
	uint32_t rights;
	enum how how;
	int64_t off;		/* From the beginning of the part. */
	size_t len;
	uint32_t key;		/* So many bits of it are others. */
	enum when when;
} attempts[] = {
	{ "another tag", R | W, WRITE, 0, 64, 1, AT_ONCE },
	{ "another index", R | W, WRITE, 0, 64, 0x5a5a00, AT_ONCE },
	{ "no key", R | W, READ, 0, 64, UINT32_MAX, AT_ONCE },
	{ "to one before", R | W, WRITE, -1, 1, 0, AT_ONCE },
	{ "to one before and the first", R | W, WRITE, -1, 2, 0, AT_ONCE },
	{ "from one before", R | W, READ, -1, 2, 0, AT_ONCE },
	{ "to one behind", R | W, WRITE, PART_LEN, 1, 0, AT_ONCE },
	{ "to the last and one behind", R | W, WRITE, PART_LEN - 1, 2, 0,
	  AT_ONCE },
	{ "from one behind", R | W, READ, PART_LEN - 1, 2, 0, AT_ONCE },
	{ "all and one more", R | W, WRITE, 0, PART_LEN + 1, 0, AT_ONCE },
	{ "all, one further on", R | W, READ, 1, PART_LEN, 0, AT_ONCE },
	{ "elsewhere in the mmap", R | W, WRITE, -(int)PART_OFF, 64, 0,
	  AT_ONCE },
	{ "to what is read only", R, WRITE, 0, 64, 0, AT_ONCE },
	{ "from what is write only", W, READ, 0, 64, 0, AT_ONCE },
	{ "an atomic without the right", R | W, ADD, 0, 8, 0, AT_ONCE },
	{ "to what has atomics alone", A, WRITE, 0, 8, 0, AT_ONCE },
	{ "to what was revoked", R | W, WRITE, 0, 64, 0, REVOKED },
	{ "from what was revoked", R | W, READ, 0, PART_LEN, 0, REVOKED },
	{ "to what was freed", R | W, WRITE, 0, 64, 0, FREED },
	{ "to what was stopped", R | W, WRITE, 0, PART_LEN, 0, STOPPED },
	{ "to what is another queue pair's", R | W, WRITE, 0, 64, 0, OTHERS },
	{ "from what is another queue pair's", R | W, READ, 0, 64, 0, OTHERS },
};

static void take_back(struct sharing *s, enum when when)
{
	if (when == REVOKED)
		assert_int_equal(sharing_revoke(s), 0);
	if (when == STOPPED)
		assert_int_equal(weir_mmap_stop(s->m, NULL, NULL), 0);
	if (when != FREED)
		return;
	assert_int_equal(weir_mw_destroy(s->w), 0);
	s->w = NULL;
}

/* Where rdma/export.c has it. */
static uint32_t key_of(const struct descriptor *d)
{
	uint32_t key;

	memcpy(&key, d->bytes + 8, sizeof(key));
	return le32toh(key);
}

static int64_t move_raw(struct sharing *s, struct jrec *j, enum how how,
			struct weir_operand far, size_t len)
{
	if (how != ADD)
		return move_by(s, j, far, len, how == READ);
	jrec_init(j);
	weir_job_fetch_add(&j->job, far, 1);
	return jrec_run(s->dma, j);
}

static void try(void **state, const struct attempt *a)
{
	struct weir_remote_key key = { 0 };
	struct descriptor d;
	struct weir_operand far;
	struct jrec j;
	struct two t;
	int64_t res;

	two_begin(&t, state, a->rights);
	d = read_bytes(a->when == OTHERS ? &t.good : &t.bad);
	key.rkey = key_of(&d) ^ a->key;
	far = weir_operand_at(t.bad.there, d.addr + (uint64_t)a->off, a->len);
	far.ctx = &key;
	take_back(&t.bad, a->when);
	res = move_raw(&t.bad, &j, a->how, far, a->len);
	the_rogue_is_out(&t, &j, res, a->name);
	two_end(&t);
}

static void a_key_opens_what_was_given_and_no_more(void **state)
{
	size_t i;

	for (i = 0; i < N_OF(attempts); i++)
		try(state, &attempts[i]);
}

/* Of which the windows have no range of their own. */
static void key_opens_what_was_given_on_a_device_like_soft_roce(void **state)
{
	if (!mocked)
		skip_because("this is soft-RoCE");
	mocked()->cm_device = "mock_rxe";
	a_key_opens_what_was_given_and_no_more(state);
	mocked()->cm_device = NULL;
}

/* Nor is there a window at all: so a key of another peer's does open. */
static void and_of_a_device_without_windows(void **state)
{
	size_t i;

	if (!mocked)
		skip_because("soft-RoCE has windows");
	mocked()->cm_device = "mock_mana";
	for (i = 0; i < N_OF(attempts); i++)
		if (attempts[i].when != OTHERS)
			try(state, &attempts[i]);
	mocked()->cm_device = NULL;
}

/* By a descriptor, with all that is seen of it made sound. */

static int import(struct sharing *s, const uint8_t *bytes, size_t len)
{
	return weir_mmap_import_rdma(&s->im, s->there, bytes, len, NULL);
}

static int import_forged(struct sharing *s, const struct descriptor *d)
{
	uint8_t bytes[DESCRIPTOR_MAX];
	int n = descriptor_format(bytes, d, NULL, 0, "test");

	assert_true(n > 0);
	return import(s, bytes, (size_t)n);
}

static void more_rights(struct descriptor *d)
{
	d->permissions |= DESCRIPTOR_WRITE;
}

static void more_bytes(struct descriptor *d)
{
	d->len = MEM_LEN - PART_OFF;
}

static void other_bytes(struct descriptor *d)
{
	d->addr -= PART_OFF;
}

static void another_key(struct descriptor *d)
{
	d->bytes[9] ^= 0x5a;
}

static void no_queue_pair(struct descriptor *d)
{
	memset(d->bytes + 12, 0, 4);
	d->bytes[8] ^= 1;
}

static const struct forgery {
	const char *name;
	uint32_t rights;
	void (*forge)(struct descriptor *d);
	uint64_t off;		/* That it is used at. */
} forgeries[] = {
	{ "more rights", R, more_rights, 0 },
	{ "more bytes", R | W, more_bytes, PART_LEN - 1 },
	{ "other bytes", R | W, other_bytes, 0 },
	{ "another key", R | W, another_key, 0 },
	{ "another key, for any queue pair", R | W, no_queue_pair, 0 },
};

/* Bufs of it look as they do of a sound one. */
static void use(struct two *t, const struct forgery *f)
{
	struct sharing *s = &t->bad;
	struct weir_buf *far;
	struct jrec j;
	int64_t res;
	void *addr;

	assert_int_equal(weir_inventory_attach(s->inv, s->im), 0);
	assert_int_equal(weir_mmap_memrange(s->im, &addr, NULL), 0);
	far = buf_of(s, s->im, (char *)addr + f->off, 2, false);
	res = move_by(s, &j, weir_operand_buf(far), 2, false);
	the_rogue_is_out(t, &j, res, f->name);
}

static void device_refuses_what_a_forged_descriptor_claims(void **state)
{
	struct descriptor d;
	struct two t;
	size_t i;

	for (i = 0; i < N_OF(forgeries); i++) {
		two_begin(&t, state, forgeries[i].rights);
		d = read_bytes(&t.bad);
		forgeries[i].forge(&d);
		assert_int_equal(import_forged(&t.bad, &d), 0);
		use(&t, &forgeries[i]);
		two_end(&t);
	}
}

static void damaged_descriptor_of_a_peer_is_refused(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	uint8_t copy[DESCRIPTOR_MAX];
	struct sharing s;
	size_t i;

	sharing_begin(&s, state);
	sharing_export(&s, R);
	assert_int_equal(weir_mw_export(s.w, &desc), 0);
	for (i = 0; i < desc.len; i++)
		assert_int_equal(import(&s, desc.bytes, i), -EBADMSG);
	memcpy(copy, desc.bytes, desc.len);
	for (i = 0; i < 8 * desc.len; i++) {
		copy[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_true(import(&s, copy, desc.len) < 0);
		copy[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	assert_null(s.im);
	sharing_end(&s);
}

static void descriptor_with_an_unknown_mandatory_part_is_refused(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	uint8_t copy[DESCRIPTOR_MAX] = { 0 };
	struct sharing s;

	sharing_begin(&s, state);
	sharing_export(&s, R);
	assert_int_equal(weir_mw_export(s.w, &desc), 0);
	memcpy(copy, desc.bytes, desc.len);
	fixture_put(copy + desc.len, 31 | DESCRIPTOR_CRITICAL, 2);
	fixture_repair(copy, desc.len + 8, 0);
	assert_int_equal(import(&s, copy, desc.len + 8), -EPROTONOSUPPORT);
	assert_null(s.im);
	fixture_put(copy + desc.len, 31, 2);
	fixture_repair(copy, desc.len + 8, 0);
	assert_int_equal(import(&s, copy, desc.len + 8), 0);
	assert_int_equal(weir_inventory_attach(s.inv, s.im), 0);
	sharing_end(&s);
}

/* With a key, nobody else can make one. */
static void descriptor_cannot_be_forged_without_the_key(void **state)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts),
		.key = fixture_key,
		.key_len = 32,
		.not_after = (uint64_t)time(NULL) + 1000,
	};
	struct weir_import_opts with = {
		.size = sizeof(with),
		.key = fixture_key,
		.key_len = 32,
	};
	struct weir_export_desc desc = { .size = sizeof(desc) };
	uint8_t copy[DESCRIPTOR_MAX];
	struct sharing s;
	int err;

	sharing_begin(&s, state);
	rec_init(&s.opened);
	err = weir_mw_create(&s.w, s.e.server, &s.opened.op, s.m, &opts);
	if (err == -EOPNOTSUPP) {
		sharing_end(&s);
		skip_because("this weir was built without libsodium");
	}
	assert_int_equal(result_of(s.r, &s.opened), 0);
	assert_int_equal(weir_mw_export(s.w, &desc), 0);
	memcpy(copy, desc.bytes, desc.len);
	assert_int_equal(import(&s, copy, desc.len), -EKEYREJECTED);
	fixture_put(copy + 56, 0, 8);
	fixture_put(copy + 16, 0, 4);
	fixture_put(copy + 16, crc32c(0, copy, desc.len), 4);
	assert_int_equal(weir_mmap_import_rdma(&s.im, s.there, copy, desc.len,
					       &with), -EKEYREJECTED);
	assert_int_equal(weir_mmap_import_rdma(&s.im, s.there, desc.bytes,
					       desc.len, &with), 0);
	assert_int_equal(weir_inventory_attach(s.inv, s.im), 0);
	sharing_end(&s);
}

/* The exporter begins anew: its memory, its connection, and a window like the
 * old one; the descriptor is of before. */
static struct descriptor restart(struct sharing *s)
{
	struct descriptor old = read_bytes(s);

	assert_int_equal(do_disconnect(&s->e, s->e.client), 0);
	UNTIL(s->r, s->e.n_ends[1]);
	assert_int_equal(weir_mw_destroy(s->w), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	assert_int_equal(weir_conn_destroy(s->e.server), 0);
	s->e.n_ends[1] = 0;
	s->m = start_mmap_on(s->dev, s->mem, MEM_LEN, WEIR_MMAP_WRITE | R | W);
	sharing_connect(s);
	sharing_export(s, R | W);
	return old;
}

static void a_descriptor_of_before_a_restart_is_stale(void **state)
{
	struct forgery f = { "of before, for any queue pair", 0, NULL, 0 };
	struct descriptor d;
	struct two t;
	struct jrec j;

	two_begin(&t, state, R | W);
	d = restart(&t.bad);
	assert_int_equal(import_forged(&t.bad, &d), 0);
	assert_int_equal(weir_inventory_attach(t.bad.inv, t.bad.im), 0);
	assert_int_equal(sharing_write(&t.bad, &j, 0, 64), -ESTALE);
	assert_int_equal(sharing_read(&t.bad, &j, 0, 64), -ESTALE);
	sharing_forget(&t.bad);
	sharing_import(&t.bad);
	assert_int_equal(sharing_write(&t.bad, &j, 0, 64), 64);
	memset(t.bad.mem, 'm', MEM_LEN);
	sharing_forget(&t.bad);
	memset(d.bytes + 12, 0, 4);
	assert_int_equal(import_forged(&t.bad, &d), 0);
	use(&t, &f);
	two_end(&t);
}

/* The other's, as it came: refused before it costs the connection. */
static void descriptor_of_another_connection_is_refused(void **state)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct jrec j;
	struct two t;

	two_begin(&t, state, R | W);
	assert_int_equal(weir_mw_export(t.good.w, &desc), 0);
	assert_int_equal(import(&t.bad, desc.bytes, desc.len), 0);
	assert_int_equal(weir_inventory_attach(t.bad.inv, t.bad.im), 0);
	assert_int_equal(move_by(&t.bad, &j,
				 weir_operand_buf(buf_of(&t.bad, t.bad.im,
							 t.good.mem + PART_OFF,
							 64, false)),
				 64, false),
			 -ESTALE);
	the_other_goes_on(&t);
	sharing_forget(&t.bad);
	sharing_import(&t.bad);
	assert_int_equal(sharing_write(&t.bad, &j, 0, 64), 64);
	two_end(&t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_key_opens_what_was_given_and_no_more),
		CASE(key_opens_what_was_given_on_a_device_like_soft_roce),
		CASE(and_of_a_device_without_windows),
		CASE(device_refuses_what_a_forged_descriptor_claims),
		CASE(damaged_descriptor_of_a_peer_is_refused),
		CASE(descriptor_with_an_unknown_mandatory_part_is_refused),
		CASE(descriptor_cannot_be_forged_without_the_key),
		CASE(a_descriptor_of_before_a_restart_is_stale),
		CASE(descriptor_of_another_connection_is_refused),
	};

	return run_over_rdma(cases, N_OF(cases));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An inventory and a pool, called as the input says, against a model: lists as
 * arrays, and windows as numbers.  Every call must answer what the model
 * foretells, and after each all bufs must be as they are in it.
 */

#include <sys/mman.h>

#include <weir/inventory.h>
#include <weir/mmap.h>
#include <weir/op.h>
#include <weir/pool.h>
#include <weir/reactor.h>

#include "tests/fuzz/fuzz-fixture.h"

const char fuzz_name[] = "inventory";

#define LEN 4096
#define BUFS 12		/* Of the inventory. */
#define POOLED 4
#define POOLED_LEN 512
#define ALL (BUFS + POOLED)
#define REFS_MAX 5
#define WAITS 3

/* A buf that is out, as it should be. */
struct model {
	struct weir_buf *buf;	/* NULL: it is not out. */
	size_t off, len, data, data_len;	/* From .base. */
	char *base;
	unsigned int refs;	/* Of a head. */
	int next;		/* -1: the last. */
	int head;		/* Which; itself, for a head. */
};

/* A wait for a buffer of the pool. */
struct wait {
	struct weir_op op;
	unsigned int order;	/* 0: not in flight. */
	bool cancelled;
};

static struct {
	struct input in;
	struct weir_reactor *r;
	struct weir_mmap *mmap;
	struct weir_inventory *inv;
	struct weir_pool *pool;
	char *mem;
	struct model m[ALL];	/* The pool's are from BUFS on. */
	struct wait wait[WAITS];
	unsigned int waits;	/* Begun so far. */
	unsigned int served;	/* The last that was. */
} f;

/* Also where there can be nothing. */
static void *at(char *base, size_t off)
{
	return (void *)((uintptr_t)base + off);
}

static bool is_head(int i)
{
	return f.m[i].buf && f.m[i].head == i;
}

static int any(void)
{
	return (int)take(&f.in, ALL);
}

static unsigned int out(int from, int to)
{
	unsigned int n = 0;
	int i;

	for (i = from; i < to; i++)
		n += f.m[i].buf != NULL;
	return n;
}

static unsigned int waiting(void)
{
	unsigned int n = 0;
	int i;

	for (i = 0; i < WAITS; i++)
		n += f.wait[i].order != 0;
	return n;
}

static int list_len(int i)
{
	int n = 0;

	for (; i >= 0; i = f.m[i].next)
		n++;
	return n;
}

static int last_of(int i)
{
	while (f.m[i].next >= 0)
		i = f.m[i].next;
	return i;
}

static void note(int i, struct weir_buf *buf, char *base, size_t off,
		 size_t len)
{
	f.m[i] = (struct model){
		.buf = buf, .base = base, .off = off, .len = len, .data = off,
		.refs = 1, .next = -1, .head = i,
	};
}

static int free_slot(int from, int to)
{
	while (from < to && f.m[from].buf)
		from++;
	return from;
}

static void check_buf(int i)
{
	const struct model *m = &f.m[i];
	int last = last_of(i);

	MUST(weir_buf_addr(m->buf) == m->base + m->off);
	MUST(weir_buf_len(m->buf) == m->len);
	MUST(weir_buf_data(m->buf) == m->base + m->data);
	MUST(weir_buf_data_len(m->buf) == m->data_len);
	MUST(weir_buf_headroom(m->buf) == m->data - m->off);
	MUST(weir_buf_tailroom(m->buf) ==
	     m->off + m->len - m->data - m->data_len);
	MUST(weir_buf_refs(m->buf) == (is_head(i) ? m->refs : 0));
	MUST(weir_buf_next(m->buf) ==
	     (m->next < 0 ? NULL : f.m[m->next].buf));
	MUST(weir_buf_is_in_list(m->buf) == (!is_head(i) || m->next >= 0));
	if (!is_head(i))
		return;
	MUST(weir_buf_list_len(m->buf) == list_len(i));
	MUST(weir_buf_last(m->buf) == f.m[last].buf);
}

static void check_all(void)
{
	struct weir_inventory_stats inv = { .size = sizeof(inv) };
	struct weir_pool_stats pool = { .size = sizeof(pool) };
	int i;

	for (i = 0; i < ALL; i++)
		if (f.m[i].buf)
			check_buf(i);
	MUST(!weir_inventory_stats(f.inv, &inv));
	MUST(inv.total == BUFS && inv.free == BUFS - out(0, BUFS));
	MUST(!weir_pool_stats(f.pool, &pool));
	MUST(pool.total == POOLED && pool.waiting == waiting());
	MUST(pool.free + pool.out + pool.in_transit == POOLED);
	MUST(!pool.waiting || !pool.free);
}

/* What a get of the inventory should say. */
static int foretell(size_t off, size_t len, size_t data, size_t data_len)
{
	if (!len || off > LEN || len > LEN - off)
		return -ERANGE;
	if (data < off || data - off > len || data_len > len - (data - off))
		return -ERANGE;
	return out(0, BUFS) == BUFS ? -EAGAIN : 0;
}

static void get(void)
{
	size_t off = take_rubbish(&f.in, LEN), len = take_rubbish(&f.in, LEN);
	size_t data = off + take(&f.in, 64), data_len = take(&f.in, 64);
	int i = free_slot(0, BUFS), err, want;
	struct weir_buf *buf = NULL;

	if (take(&f.in, 2)) {
		off = take(&f.in, 128) * 16;
		len = 1 + take(&f.in, 255);
		data = off + take(&f.in, 8);
	}
	want = foretell(off, len, data, data_len);
	err = weir_inventory_get(&buf, f.inv, f.mmap, at(f.mem, off), len,
				 at(f.mem, data), data_len);
	/* Of two reasons either will do. */
	MUST(want ? err == want || err == -EINVAL || err == -EAGAIN : !err);
	MUST(!err == (buf != NULL));
	if (err)
		return;
	note(i, buf, f.mem, off, len);
	f.m[i].data = data;
	f.m[i].data_len = data_len;
}

static void took(struct weir_buf *buf)
{
	int i = free_slot(BUFS, ALL);

	MUST(i < ALL);
	MUST(weir_buf_len(buf) >= POOLED_LEN);
	note(i, buf, weir_buf_addr(buf), 0, weir_buf_len(buf));
}

static void pool_get(void)
{
	struct weir_pool_stats st = { .size = sizeof(st) };
	struct weir_buf *buf;
	int err;

	MUST(!weir_pool_stats(f.pool, &st));
	err = take(&f.in, 2) ? weir_pool_get(&buf, f.pool) :
			       weir_pool_get_sized(&buf, f.pool, POOLED_LEN);
	MUST(err == (st.free && !st.waiting ? 0 : -EAGAIN));
	if (!err)
		took(buf);
}

static void waited(struct weir_op *op, int64_t res)
{
	struct wait *w = weir_container_of(op, struct wait, op);
	struct weir_buf *buf = weir_pool_taken(op);

	MUST(res == POOLED_LEN || (w->cancelled && res == -ECANCELED));
	MUST((res > 0) == (buf != NULL));
	if (buf) {
		MUST(w->order > f.served);	/* First come, first served. */
		f.served = w->order;
		took(buf);
	}
	w->order = 0;
}

static void turn(void)
{
	MUST(weir_reactor_turn(f.r, 0) >= 0);
}

/* A buffer in transit counts as out of the free list, but has not come. */
static void settle(void)
{
	turn();
	turn();
}

static void pool_wait(void)
{
	struct wait *w = &f.wait[take(&f.in, WAITS)];

	if (w->order) {
		w->cancelled |= take(&f.in, 2) &&
				!weir_op_cancel(&w->op);
	} else {
		w->order = ++f.waits;
		w->cancelled = false;
		weir_op_init(&w->op, waited);
		MUST(!weir_pool_wait(f.pool, &w->op));
	}
	settle();
}

static void put(int i)
{
	int next;

	if (!is_head(i))
		return;
	weir_buf_put(f.m[i].buf);
	if (--f.m[i].refs)
		return;
	for (; i >= 0; i = next) {
		next = f.m[i].next;
		f.m[i].buf = NULL;
	}
	settle();
}

static void ref(int i)
{
	if (!f.m[i].buf || (is_head(i) && f.m[i].refs == REFS_MAX))
		return;
	MUST(weir_buf_ref(f.m[i].buf) == (is_head(i) ? 0 : -EPERM));
	if (is_head(i))
		f.m[i].refs++;
}

static void set_data(int i)
{
	struct model *m = &f.m[i];
	size_t data, len, off;
	int err;

	if (!m->buf)
		return;
	data = m->off + take_rubbish(&f.in, m->len);
	len = take_rubbish(&f.in, m->len);
	off = data - m->off;
	err = weir_buf_set_data(m->buf, at(m->base, data), len);
	if (off > m->len || len > m->len - off) {
		MUST(err == -ERANGE);
		return;
	}
	MUST(!err);
	m->data = data;
	m->data_len = len;
}

static void reset(int i)
{
	if (!f.m[i].buf)
		return;
	MUST(!weir_buf_reset(f.m[i].buf));
	f.m[i].data = f.m[i].off;
	f.m[i].data_len = 0;
}

static void chain(int i, int j)
{
	int err, k;

	if (!f.m[i].buf || !f.m[j].buf)
		return;
	err = weir_buf_chain(f.m[i].buf, f.m[j].buf);
	if (!is_head(i) || !is_head(j) || i == j || f.m[j].refs != 1) {
		MUST(err < 0);
		return;
	}
	MUST(!err);
	f.m[last_of(i)].next = j;
	for (k = j; k >= 0; k = f.m[k].next)
		f.m[k].head = i;
}

static void unchain(int i, int j)
{
	int err, k;

	if (!f.m[i].buf || !f.m[j].buf)
		return;
	err = weir_buf_unchain(f.m[i].buf, f.m[j].buf);
	if (!is_head(i) || i == j || f.m[j].head != i) {
		MUST(err < 0);
		return;
	}
	MUST(!err);
	for (k = i; f.m[k].next != j; k = f.m[k].next)
		;
	f.m[k].next = -1;
	f.m[j].refs = 1;
	for (k = j; k >= 0; k = f.m[k].next)
		f.m[k].head = j;
}

static void step(void)
{
	switch (take(&f.in, 12)) {
	case 0:
	case 1:
		get();
		break;
	case 2:
		pool_get();
		break;
	case 3:
		pool_wait();
		break;
	case 4:
	case 5:
		put(any());
		break;
	case 6:
		ref(any());
		break;
	case 7:
		set_data(any());
		break;
	case 8:
		reset(any());
		break;
	case 9:
	case 10:
		chain(any(), any());
		break;
	default:
		unchain(any(), any());
	}
}

static void begin_once(void)
{
	MUST(!weir_reactor_create(&f.r, NULL));
	f.mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(f.mem != MAP_FAILED);
	MUST(!weir_mmap_create(&f.mmap, NULL));
	MUST(!weir_mmap_set_memrange(f.mmap, f.mem, LEN));
	MUST(!weir_mmap_set_permissions(f.mmap, WEIR_MMAP_WRITE));
	MUST(!weir_mmap_start(f.mmap));
}

static void begin(void)
{
	struct weir_inventory_opts inv = { .size = sizeof(inv), .bufs = BUFS };
	struct weir_pool_opts pool = {
		.size = sizeof(pool), .bufs = POOLED, .buf_size = POOLED_LEN,
		.flags = WEIR_POOL_NO_HUGE | WEIR_POOL_NO_REGISTER,
	};

	if (!f.r)
		begin_once();
	memset(f.m, 0, sizeof(f.m));
	memset(f.wait, 0, sizeof(f.wait));
	f.waits = f.served = 0;
	MUST(!weir_inventory_create(&f.inv, f.r, &inv));
	MUST(!weir_inventory_attach(f.inv, f.mmap));
	MUST(!weir_pool_create(&f.pool, f.r, &pool));
}

static void end(void)
{
	unsigned int i;
	int busy = out(0, BUFS) ? -EBUSY : 0;

	if (busy)
		MUST(weir_inventory_destroy(f.inv) == busy);
	for (i = 0; i < WAITS; i++)
		if (f.wait[i].order)
			f.wait[i].cancelled |= !weir_op_cancel(&f.wait[i].op);
	settle();
	MUST(!waiting());
	for (i = 0; i < ALL; i++)
		while (is_head((int)i))
			put((int)i);
	check_all();
	MUST(!weir_inventory_destroy(f.inv));
	MUST(!weir_pool_destroy(f.pool));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	f.in = (struct input){ data, data + size };
	begin();
	while (f.in.p < f.in.end) {
		step();
		check_all();
	}
	end();
	return 0;
}

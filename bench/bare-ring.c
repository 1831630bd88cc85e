/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The floor that memory sets: a ring from each of two threads to the other, with
 * one writer and one reader, that both poll without pause.  It has no bounds but
 * the ring's, no sleeps and no wake-ups.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "bench/bare-ring.h"
#include "bench/bench.h"

#define SLOTS 1024
#define SHOW_EVERY 32

struct bare {
	void (*fn)(void *arg);
	void *arg;
};

struct ring {
	_Alignas(64) _Atomic uint64_t tail;
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) uint64_t next, seen_head;	/* The writer's. */
	_Alignas(64) uint64_t taken;		/* The reader's. */
	_Alignas(64) struct bare slot[SLOTS];
};

static struct ring to[2];

struct bare_side {
	_Alignas(64) uint64_t ran;
};

static struct bare_side sides[2];

static void count(void *arg)
{
	struct bare_side *side = arg;

	side->ran++;
}

static void show(struct ring *r)
{
	atomic_store_explicit(&r->tail, r->next, memory_order_release);
}

static void put(struct ring *r, void *arg)
{
	while (r->next - r->seen_head == SLOTS) {
		show(r);
		r->seen_head = atomic_load_explicit(&r->head,
						    memory_order_acquire);
	}
	r->slot[r->next % SLOTS] = (struct bare){ count, arg };
	if (!(++r->next % SHOW_EVERY))
		show(r);
}

/* Run what is there; returns how many. */
static uint64_t take(struct ring *r)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
	uint64_t n = tail - r->taken;
	struct bare *b;

	while (r->taken != tail) {
		b = &r->slot[r->taken % SLOTS];
		b->fn(b->arg);
		if (!(++r->taken % SHOW_EVERY))
			atomic_store_explicit(&r->head, r->taken,
					      memory_order_release);
	}
	if (n)
		atomic_store_explicit(&r->head, r->taken,
				      memory_order_release);
	return n;
}

struct bare_run {
	uint64_t n;
	bool answer;
	pthread_barrier_t ready;
	pthread_t thread;
};

static void *other(void *arg)
{
	struct bare_run *run = arg;
	uint64_t done = 0, n;

	bench_pin(1);
	pthread_barrier_wait(&run->ready);
	while (done < run->n) {
		n = take(&to[1]);
		done += n;
		if (!run->answer || !n)
			continue;
		while (n--)
			put(&to[0], &sides[0]);
		show(&to[0]);
	}
	return NULL;
}

static void flood(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		put(&to[1], &sides[1]);
	show(&to[1]);
}

static void trips(uint64_t n, uint64_t window)
{
	uint64_t sent = 0, done = 0, got;

	for (; sent < window && sent < n; sent++)
		put(&to[1], &sides[1]);
	show(&to[1]);
	while (done < n) {
		got = take(&to[0]);
		done += got;
		for (; got && sent < n; got--, sent++)
			put(&to[1], &sides[1]);
		show(&to[1]);
	}
}

static void begin(struct bare_run *run)
{
	bench_pin(0);
	memset(to, 0, sizeof(to));
	pthread_barrier_init(&run->ready, NULL, 2);
	if (pthread_create(&run->thread, NULL, other, run))
		bench_die("pthread_create", EAGAIN);
	pthread_barrier_wait(&run->ready);
}

static void end(struct bare_run *run)
{
	pthread_join(run->thread, NULL);
	pthread_barrier_destroy(&run->ready);
	bench_unpin();
}

double bare_ring(uint64_t n, uint64_t window)
{
	struct bare_run run = { .n = n, .answer = window };
	uint64_t begun;

	begin(&run);
	begun = bench_wall_ns();
	if (window)
		trips(n, window);
	else
		flood(n);
	end(&run);
	return (double)(bench_wall_ns() - begun) / (double)n;
}

static void one_trip(void)
{
	put(&to[1], &sides[1]);
	show(&to[1]);
	while (!take(&to[0]))
		;
}

void bare_ring_gaps(uint64_t n, uint64_t gap_ns, double *took)
{
	struct bare_run run = { .n = n, .answer = true };
	uint64_t now, called, next = 0;

	begin(&run);
	while (n--) {
		do {
			called = bench_wall_ns();
		} while (called < next);
		one_trip();
		now = bench_wall_ns();
		*took++ = (double)(now - called);
		next = now + gap_ns;
	}
	end(&run);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rte_ring between two threads that never sleep: what a message costs without
 * wake-ups and without other work.  Rings need none of DPDK's environment.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/dpdk.h"

#ifdef HAVE_DPDK

#pragma GCC diagnostic push
#include "bench/dpdk-quiet.h"
#include <rte_pause.h>
#include <rte_ring.h>
#pragma GCC diagnostic pop

#define BURST 32

static struct rte_ring *there, *back;
static pthread_barrier_t ready;

/* How many the other thread takes, and whether it sends them back. */
static struct {
	uint64_t n;
	bool echo;
} task;

static struct rte_ring *ring_new(uint32_t slots, unsigned int flags)
{
	size_t size = (size_t)rte_ring_get_memsize(slots);
	struct rte_ring *r = aligned_alloc(RTE_CACHE_LINE_SIZE, size);

	if (r && rte_ring_init(r, "bench", slots, flags)) {
		free(r);
		r = NULL;
	}
	return r;
}

bool ring_open(uint32_t slots, bool many, const char **reason)
{
	unsigned int flags = RING_F_SC_DEQ | (many ? 0 : RING_F_SP_ENQ);

	there = ring_new(slots, flags);
	back = ring_new(slots, flags);
	if (there && back)
		return true;
	*reason = "rte_ring_init() fails here";
	ring_close();
	return false;
}

void ring_close(void)
{
	free(there);
	free(back);
	there = back = NULL;
}

/* On one CPU the other side has to have its turn. */
static void wait_a_bit(void)
{
	if (bench_cpus() < 2)
		sched_yield();
	else
		rte_pause();
}

static void send(struct rte_ring *to, void *m)
{
	while (rte_ring_enqueue(to, m))
		wait_a_bit();
}

static unsigned int take(struct rte_ring *from, void **m)
{
	unsigned int n = rte_ring_dequeue_burst(from, m, BURST, NULL);

	if (!n)
		wait_a_bit();
	return n;
}

static void *other_thread(void *arg)
{
	uint64_t got = 0;
	unsigned int n;
	void *m[BURST];

	bench_pin(1);
	pthread_barrier_wait(&ready);
	while (got < task.n) {
		n = take(there, m);
		got += n;
		for (unsigned int i = 0; i < n && task.echo; i++)
			send(back, m[i]);
	}
	return arg;
}

static uint64_t begin(pthread_t *thread, uint64_t n, bool echo)
{
	task.n = n;
	task.echo = echo;
	pthread_barrier_init(&ready, NULL, 2);
	if (pthread_create(thread, NULL, other_thread, NULL))
		bench_die("pthread_create", EAGAIN);
	pthread_barrier_wait(&ready);
	return bench_wall_ns();
}

static double end(pthread_t thread, uint64_t begun, uint64_t n)
{
	pthread_join(thread, NULL);
	begun = bench_wall_ns() - begun;
	pthread_barrier_destroy(&ready);
	return (double)begun / (double)n;
}

double ring_flood(uint64_t n)
{
	static char message;
	pthread_t thread;
	uint64_t begun = begin(&thread, n, false);

	for (uint64_t i = 0; i < n; i++)
		send(there, &message);
	return end(thread, begun, n);
}

double ring_round_trip(uint32_t window, uint64_t n)
{
	static char message;
	uint64_t begun, sent, got = 0;
	void *m[BURST];
	pthread_t thread;

	begun = begin(&thread, n, true);
	for (sent = 0; sent < window && sent < n; sent++)
		send(there, &message);
	while (got < n) {
		unsigned int k = take(back, m);

		got += k;
		for (unsigned int i = 0; i < k && sent < n; i++, sent++)
			send(there, m[i]);
	}
	return end(thread, begun, n);
}

#else

bool ring_open(uint32_t slots, bool many, const char **reason)
{
	(void)slots, (void)many;
	return dpdk_start(reason);
}

void ring_close(void)
{
}

double ring_flood(uint64_t n)
{
	(void)n;
	return 0;
}

double ring_round_trip(uint32_t window, uint64_t n)
{
	(void)window, (void)n;
	return 0;
}

#endif

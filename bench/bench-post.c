/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages between threads on two CPUs.  "flood": a thread sends as fast as a
 * loop on another takes them; what is refused is sent again.  "round trip":
 * from one loop to another and back, with one or more of them in flight.
 *
 * Beside the loops there is DPDK's ring between two threads that never sleep
 * and look at nothing else, with one producer (sp) and with capacity for many
 * (mp).
 */

#include <errno.h>

#include "bench/bench.h"
#include "bench/dpdk.h"
#include "bench/post-peers.h"

#define WINDOW_MAX 4096
#define RING_SLOTS 4096

static const char *name_window(uint64_t window)
{
	static char what[48];

	snprintf(what, sizeof(what), "round trip, %d in flight", (int)window);
	return what;
}

static void one_rep(struct bench *b, const struct post_peer *p)
{
	uint64_t window;

	if (!bench_wants(b, p->name) ||
	    (p->backend && !bench_wants_backend(b, p->backend)))
		return;
	bench_add(b, "flood", p->name, "ns/msg",
		  post_flood(p, b->quick ? 5000 : FLOOD));
	for (int i = 0; i < b->depths.n; i++) {
		window = b->depths.value[i];
		bench_add(b, name_window(window), p->name, "ns/trip",
			  post_round_trip(p, (int)window,
				     b->quick ? 500 : 4000 * window));
	}
}

/* More of them than of the loops' messages: they take less. */
static void one_ring(struct bench *b, const char *name, bool many)
{
	uint64_t n = b->quick ? 5000 : 10 * FLOOD, window;
	const char *reason;

	if (!bench_wants(b, name) || !ring_open(RING_SLOTS, many, &reason))
		return;
	bench_pin(0);
	bench_add(b, "flood", name, "ns/msg", ring_flood(n));
	for (int i = 0; i < b->depths.n; i++) {
		window = b->depths.value[i];
		if (window < RING_SLOTS)
			bench_add(b, name_window(window), name, "ns/trip",
				  ring_round_trip((uint32_t)window, n / 10));
	}
	ring_close();
	bench_unpin();
}

static void all_peers(struct bench *b)
{
	for (size_t i = 0; i < n_post_peers; i++)
		one_rep(b, &post_peers[i]);
	one_ring(b, "rte_ring sp", false);
	one_ring(b, "rte_ring mp", true);
}

int main(int argc, char **argv)
{
	static const uint64_t windows[] = { 1, 8, 64 };
	static struct bench b;
	const char *reason;

	bench_init_with(&b, "post", BENCH_BACKENDS | BENCH_DEPTHS, argc, argv);
	bench_default(&b.depths, windows, ARRAY_SIZE(windows));
	for (int i = 0; i < b.depths.n; i++)
		if (b.depths.value[i] > WINDOW_MAX)
			bench_die("--depth", E2BIG);
	if (!ring_open(RING_SLOTS, false, &reason))
		bench_note("rte_ring is left out: %s", reason);
	else
		ring_close();
	if (bench_cpus() < 2)
		bench_note("one CPU only: both threads share it");
	for (bench_begin(&b); bench_next(&b); )
		all_peers(&b);
	return bench_done(&b);
}

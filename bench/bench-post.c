/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages between threads on two CPUs.  "flood": a thread sends as fast as a
 * loop on another takes them; what is refused is sent again.  "round trip":
 * from one loop to another and back, with one or more of them under way.
 */

#include <errno.h>

#include "bench/bench.h"
#include "bench/post-peers.h"

#define WINDOW_MAX 4096

static void one_rep(struct bench *b, const struct post_peer *p)
{
	uint64_t window;
	char what[48];

	if (!bench_wants(b, p->name) ||
	    (p->backend && !bench_wants_backend(b, p->backend)))
		return;
	bench_add(b, "flood", p->name, "ns/msg",
		  post_flood(p, b->quick ? 5000 : FLOOD_MAX));
	for (int i = 0; i < b->depths.n; i++) {
		window = b->depths.value[i];
		snprintf(what, sizeof(what), "round trip, %d under way",
			 (int)window);
		bench_add(b, what, p->name, "ns/trip",
			  post_round_trip(p, (int)window,
				     b->quick ? 500 : 4000 * window));
	}
}

int main(int argc, char **argv)
{
	static const uint64_t windows[] = { 1, 8, 64 };
	static struct bench b;

	bench_init_with(&b, "post", BENCH_BACKENDS | BENCH_DEPTHS, argc, argv);
	bench_default(&b.depths, windows, ARRAY_SIZE(windows));
	for (int i = 0; i < b.depths.n; i++)
		if (b.depths.value[i] > WINDOW_MAX)
			bench_die("--depth", E2BIG);
	bench_pin(0);
	if (bench_cpus() < 2)
		bench_note("one CPU only: both threads share it");
	for (bench_begin(&b); bench_next(&b); )
		for (size_t i = 0; i < n_post_peers; i++)
			one_rep(&b, &post_peers[i]);
	return bench_done(&b);
}

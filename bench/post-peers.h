/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_POST_PEERS_H
#define BENCH_POST_PEERS_H

/*
 * Loops on two CPUs that send each other messages, of weir and of its peers.
 *
 * The wake-ups of most peers carry no message, so they get a lock-free list (an
 * exchange takes all), which is what their users write.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOOD 1000000	/* Messages; libuv takes some 40 ms. */

struct msg;
struct side;

struct post_peer {
	const char *name;
	uint32_t backend;
	bool (*open)(struct side *s);
	void (*send)(struct side *to, struct msg *m);
	void (*run)(struct side *s);
	void (*end)(struct side *s);	/* From its own loop. */
	void (*close)(struct side *s);
	void (*flush)(void);		/* After a flood; or NULL. */
};

extern const struct post_peer post_peers[];
extern const size_t n_post_peers;

/* By its name; NULL: it is not installed. */
const struct post_peer *post_peer(const char *name);

/* This thread, on the first CPU meanwhile, sends @n, and a loop on the second
 * takes them: nanoseconds for each, or NAN if the peer does not work here. */
double post_flood(const struct post_peer *p, uint64_t n);

/* From one loop to another and back, @window in flight: for each, likewise. */
double post_round_trip(const struct post_peer *p, int window, uint64_t n);

/* Likewise; the other loop is on CPU @cpu: 0, too, or 1. */
double post_round_trip_on(const struct post_peer *p, unsigned int cpu,
			  int window, uint64_t n);

#endif /* BENCH_POST_PEERS_H */

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MOCK_URING_H
#define TESTS_MOCK_URING_H

/*
 * A model of the kernel's io_uring, below the functions of liburing that
 * reactor/uring calls: a program that links it runs the real backend over it.
 *
 * It does the operations on real descriptors, each when it can be done without
 * waiting, and waits for readiness in an epoll set of its own, edge by edge, as
 * the kernel's wait queues do.  What a kernel may do in more than one way is
 * drawn from a seed: see struct mock_uring_odds.  All else goes by the profile, a
 * version of Linux: its setup flags, features, opcodes, registrations and
 * multishot requests, and what it answers to those that it does not have.
 *
 * The model acts in system calls of the ring, and once at the begin of each turn
 * of a reactor, where the kernel would act at any time.  For a ring that signals
 * an eventfd a thread acts, too.
 *
 * test-uring-facts.c holds the model and the real kernel to the same cases.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each is one in so many; 0: never. */
struct mock_uring_odds {
	/* A completion comes some steps late, so others overtake it. */
	uint32_t late;
	/* A request is done by a thread of the kernel, which a cancel finds
	 * running: -EALREADY, and the request ends with -EINTR. */
	uint32_t thread;
	/* A cancel finds no request (-ENOENT), or finds it in transit
	 * (-EALREADY), and the request waits as before.  Up to 3 times. */
	uint32_t miss;
	/* A multishot request ends after a result. */
	uint32_t end;
	/* A transfer from or to a file is short; and one of a stream. */
	uint32_t cut, cut_stream;
	/* A descriptor in non-blocking mode is -EAGAIN, before 6.18, and a
	 * connect of TCP -EINPROGRESS. */
	uint32_t nonblock;
	/* The kernel takes no request, or only some of a submission: no memory.
	 * Nor does it send without a copy. */
	uint32_t memory;
	/* A wait is interrupted. */
	uint32_t eintr;
};

struct mock_uring {
	struct mock_uring_odds odds;
	bool no_memory;		/* The first request of a ring: -ENOMEM. */
	bool no_buf_rings;	/* To register one is -EINVAL. */

	/* What the model did so far. */
	uint64_t requests, cancels, missed, ended, cut, overflows, refused;
};

extern struct mock_uring mock_uring;

/* The profiles, "5.10" first, which is too old; the last one is "6.18". */
extern const char *const mock_uring_profiles[];
extern const size_t mock_uring_n_profiles;

/* Rings that are made from now on: of this version, with these draws. */
void mock_uring_use(const char *profile, uint64_t seed);

/* All odds at once: 0, or one in @n for what is frequent. */
void mock_uring_set_odds(uint32_t n);

/* Requests of all rings that did not end yet. */
unsigned int mock_uring_in_flight(void);

#endif /* TESTS_MOCK_URING_H */

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_OWN_H
#define WEIR_BASE_OWN_H

/*
 * The owner of a buffer, for ASan, TSan and valgrind.
 *
 * These tools do not see what the kernel does for io_uring.  By themselves they
 * miss a buffer that the program touches or frees while the kernel writes to
 * it, miss one that the program changes while the kernel reads it, and take the
 * received data for uninitialised.  So each operation tells them, at its start
 * and at its completion:
 *
 *   own_release_in()   the kernel will write here: the caller may not touch it
 *   own_release_out()  the kernel will read here: it must be readable now, and
 *                      stay unchanged; returns a sum over @sum and the data
 *   own_acquire_out()  it is the caller's again; returns the sum anew
 *   own_acquire_in()   it is the caller's again, and @filled bytes are new
 *   own_use()          between the two: a worker's system call, which valgrind
 *                      does see, will write to the lent memory
 *
 * In ordinary builds these do nothing; with --enable-debug alone only the sums
 * are compared.
 *
 * ASan: lent memory is poisoned.  If its poison has changed at the completion,
 * the program freed it in flight: own_acquire_in() reports that and ends the
 * process.  Poison has a granularity of 8 bytes, so the unaligned ends of a
 * buffer are not covered.  TSan: a release at the start and an acquire at the
 * completion stand for the ordering that the kernel provides and TSan cannot
 * see; what the kernel writes is attributed to a thread of its own, so that
 * touching it is a race.  valgrind: lent memory is not addressable; a buffer to
 * be sent must be defined.  The last byte of lent memory stays addressable: if
 * it is not at the completion, the program freed the memory in flight.
 *
 * The sum detects at the completion that data being sent were changed; TSan
 * does not.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/provider.h"

#if defined(__SANITIZE_ADDRESS__)
#define OWN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OWN_ASAN 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define OWN_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OWN_TSAN 1
#endif
#endif

#if defined(OWN_ASAN) || defined(OWN_TSAN) || defined(WEIR_VALGRIND) || \
	defined(WEIR_DEBUG)
#define OWN_ANNOTATE 1

void own_release_in(const void *p, size_t len) PROVIDER_API(own_release_in);
uint32_t own_release_out(const void *p, size_t len, uint32_t sum);
uint32_t own_acquire_out(const void *p, size_t len, uint32_t sum);

/* The sums differ: report it, and end the process. */
void own_was_changed(void);

void own_acquire_in(const void *p, size_t len, size_t filled)
	PROVIDER_API(own_acquire_in);

/* A system call of our own, not of the ring, is about to write to lent
 * memory. */
void own_use(const void *p, size_t len);

/* It has written nothing, and will be repeated: lend the memory again. */
void own_unuse(const void *p, size_t len);

/* Order: what happened before the release is seen after the acquire. */
void own_release(void *token);
void own_acquire(void *token);

/* Whether we run under valgrind, whose 3.19 cannot wait in a ring. */
int own_on_valgrind(void) PROVIDER_API(own_on_valgrind);

/* Whether one of these tools runs; on the hot path, check this first. */
#if defined(OWN_ASAN) || defined(OWN_TSAN) || defined(WEIR_DEBUG)
#define own_heard() 1
#else
/* 0: not known yet; 1: no; 2: yes. */
extern atomic_int own_valgrind PROVIDER_API(own_valgrind);

static inline int own_heard(void)
{
	int known = atomic_load_explicit(&own_valgrind, memory_order_relaxed);

	return known == 1 ? 0 : own_on_valgrind();
}
#endif

#else
#define own_heard() 0

static inline void own_release_in(const void *p, size_t len)
{
	(void)p, (void)len;
}

static inline void own_acquire_in(const void *p, size_t len, size_t filled)
{
	(void)p, (void)len, (void)filled;
}

static inline uint32_t own_release_out(const void *p, size_t len, uint32_t sum)
{
	(void)p, (void)len;
	return sum;
}

static inline uint32_t own_acquire_out(const void *p, size_t len, uint32_t sum)
{
	(void)p, (void)len;
	return sum;
}

static inline void own_was_changed(void)
{
}

static inline void own_use(const void *p, size_t len)
{
	(void)p, (void)len;
}

static inline void own_unuse(const void *p, size_t len)
{
	(void)p, (void)len;
}

static inline void own_release(void *token)
{
	(void)token;
}

static inline void own_acquire(void *token)
{
	(void)token;
}

static inline int own_on_valgrind(void)
{
	return 0;
}

#endif
/*
 * What threads order by atomics, as helgrind and drd know it, which see no order
 * in them and take each for a race:
 *
 *   own_words()   these bytes are used by atomics only, until they are freed
 *   own_before()  before the store to @word that shows what was written so far
 *   own_after()   after the load of @word that has seen that store
 */
#if defined(WEIR_VALGRIND) && !defined(OWN_ASAN) && !defined(OWN_TSAN)
void own_tell_words(const volatile void *p, size_t len)
	PROVIDER_API(own_tell_words);
void own_tell_before(const volatile void *word) PROVIDER_API(own_tell_before);
void own_tell_after(const volatile void *word) PROVIDER_API(own_tell_after);

static inline void own_words(const volatile void *p, size_t len)
{
	if (own_heard())
		own_tell_words(p, len);
}

static inline void own_before(const volatile void *word)
{
	if (own_heard())
		own_tell_before(word);
}

static inline void own_after(const volatile void *word)
{
	if (own_heard())
		own_tell_after(word);
}
#else
static inline void own_words(const volatile void *p, size_t len)
{
	(void)p, (void)len;
}

static inline void own_before(const volatile void *word)
{
	(void)word;
}

static inline void own_after(const volatile void *word)
{
	(void)word;
}
#endif
#endif /* WEIR_BASE_OWN_H */

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_CHECK_H
#define WEIR_BASE_CHECK_H

/*
 * Two kinds of check, for two kinds of fault.
 *
 *   check()        an invariant of the library, or a rule for its callers
 *                  after whose violation the process cannot continue; always
 *                  compiled
 *   debug_check()  the same on the hot path, where a check would cost too much;
 *                  only in builds with --enable-debug
 *
 * Conditions that a correct caller may meet are reported by a negative errno.
 */

#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#define unlikely(cond) __builtin_expect(!!(cond), 0)
#define likely(cond) __builtin_expect(!!(cond), 1)

__attribute__((noreturn, cold)) void check_failed(const char *file, int line,
						  const char *fn,
						  const char *what);

#define check(cond)                                                        \
	do {                                                               \
		if (unlikely(!(cond)))                                     \
			check_failed(__FILE__, __LINE__, __func__, #cond); \
	} while (0)

#ifdef WEIR_DEBUG
#define debug_check(cond) check(cond)
#else
#define debug_check(cond)                     \
	do {                                  \
		(void)sizeof((cond) ? 1 : 0); \
	} while (0)
#endif

/* Whether a thread holds @lock: for assertions. */
static inline int mutex_is_held(const pthread_mutex_t *lock)
{
	if (pthread_mutex_trylock((pthread_mutex_t *)lock))
		return 1;
	pthread_mutex_unlock((pthread_mutex_t *)lock);
	return 0;
}

/*
 * The result of a user's function.  A negative value that is not an errno
 * becomes -EIO; truncated to int it could look like success.
 */
#define ERRNO_MAX 4095

static inline int64_t sane_result(int64_t res)
{
	return unlikely(res < -ERRNO_MAX) ? -EIO : res;
}

#endif /* WEIR_BASE_CHECK_H */

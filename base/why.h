/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_WHY_H
#define WEIR_BASE_WHY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <weir/base.h>

/*
 * Set the error message that weir_why() returns on this thread, and return
 * @err, so that a failing control call can end with one line:
 *
 *	return why(-EINVAL, "weir_timer_create: no callback");
 *
 * "which call: what, the likely cause; the remedy".  Never on the data path:
 * it formats.
 */
#define why(err, ...) weir_why_set(err, __VA_ARGS__)

/*
 * The same where the kernel did not make a descriptor: @what, "an eventfd".
 * The message has the cause that @err tells, and its remedy.
 */
__attribute__((cold)) int why_no_fd(int err, const char *call,
				    const char *what);

/*
 * The same for the data path: @text is a literal, and nothing is formatted,
 * copied or allocated.  For refusals that are the same if the call is repeated.
 */
__attribute__((cold)) int why_static(int err, const char *text);

/*
 * Whether this thread has set a message since @since, which was the result of
 * why_begin(): for a call of a user's function, which may leave one.  The stamps
 * are of all threads, so that the first of the two, on the data path, is a load.
 */
extern atomic_uint why_stamps;

static inline unsigned int why_begin(void)
{
	return atomic_load_explicit(&why_stamps, memory_order_relaxed);
}

bool why_is_new(unsigned int since);

/*
 * Name the public call: a message that begins with "@object: ", from
 * functions that several calls share, then begins with "@call: ".
 */
static inline int why_call(int err, const char *object, const char *call)
{
	size_t len = strlen(object);

	if (strncmp(weir_why(), object, len) || weir_why()[len] != ':')
		return err;
	return why(err, "%s%s", call, weir_why() + len);
}

/*
 * An analyser sees one file at a time, and follows each of these as if it could
 * return 0: build-aux/analyse.sh tells it that errors are negative.
 */
#ifdef WEIR_ANALYSE
#define why_negative(err, call)                  \
	({                                       \
		int err_ = (err);                \
		(void)(call);                    \
		if (err_ >= 0)                   \
			__builtin_unreachable(); \
		err_;                            \
	})
#undef why
#define why(err, ...) why_negative(err, weir_why_set(err_, __VA_ARGS__))
#define why_no_fd(err, call, what) \
	why_negative(err, (why_no_fd)(err_, call, what))
#define why_static(err, text) why_negative(err, (why_static)(err_, text))
#define why_call(err, object, call) \
	why_negative(err, (why_call)(err_, object, call))
#endif

#endif /* WEIR_BASE_WHY_H */

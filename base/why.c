/* SPDX-License-Identifier: BSD-3-Clause */
/* The error message per thread, and the version: what has no object of its
 * own. */

/* Here it is a function, for analysers too. */
#undef WEIR_ANALYSE

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/base.h>

#include "base/why.h"

#define WHY_MAX 512

/*
 * A pointer, because the library's thread-local memory is part of the little
 * that is kept free for all libraries that a program loads later (spsc.h).  The
 * buffer is made by the thread's first failure and freed when the thread ends.
 */
static _Thread_local char *message;
static _Thread_local const char *literal;	/* If set, it is newer. */
static _Thread_local unsigned int stamp;	/* Of this thread's message. */
atomic_uint why_stamps;
static char no_memory[] = "no memory, not even for the error message";
static pthread_key_t at_exit;
static int have_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The thread's other destructors may still fail, and make another one. */
static void release(void *buf)
{
	message = NULL;
	free(buf);
}

static void make_key(void)
{
	have_key = pthread_key_create(&at_exit, release) == 0;
}

/* The library may be unloaded before threads that have a message end. */
__attribute__((destructor)) static void drop_key(void)
{
	if (!have_key)
		return;
	release(pthread_getspecific(at_exit));
	pthread_key_delete(at_exit);
	have_key = 0;
}

/*
 * This thread's buffer, or NULL.  Plain calloc(): a simulated world must not
 * see whether this thread has failed before.
 */
static char *buffer(void)
{
	char *buf;

	if (message && message != no_memory)
		return message;
	pthread_once(&once, make_key);
	buf = have_key ? calloc(1, WHY_MAX) : NULL;
	if (buf && pthread_setspecific(at_exit, buf) != 0) {
		free(buf);
		buf = NULL;
	}
	message = buf ? buf : no_memory;
	return buf;
}

#define STR(x) #x
#define DOTTED(a, b, c) STR(a) "." STR(b) "." STR(c)

const char *weir_version(void)
{
	return DOTTED(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
		      WEIR_VERSION_PATCH);
}

const char *weir_why(void)
{
	if (literal)
		return literal;
	return message ? message : "";
}

static void set_stamp(void)
{
	stamp = atomic_fetch_add_explicit(&why_stamps, 1,
					  memory_order_relaxed) + 1;
}

bool why_is_new(unsigned int since)
{
	return (int)(stamp - since) > 0;
}

int why_static(int err, const char *text)
{
	set_stamp();
	literal = text;
	return err;
}

int weir_why_set(int err, const char *fmt, ...)
{
	char *to = buffer(), text[WHY_MAX];
	va_list ap;

	set_stamp();
	if (to) {
		/* Not in place: the old message may be an argument. */
		va_start(ap, fmt);
		vsnprintf(text, sizeof(text), fmt, ap);
		va_end(ap);
		strcpy(to, text);
	}
	literal = NULL;
	return err;
}

int why_no_fd(int err, const char *call, const char *what)
{
	switch (err) {
	case -EMFILE:
		return why(err, "%s: no descriptor is left for %s; raise "
			   "ulimit -n", call, what);
	case -ENFILE:
		return why(err, "%s: the system has no descriptor left for %s; "
			   "raise the sysctl fs.file-max", call, what);
	case -ENOSYS:
	case -EPERM:
	case -EACCES:
		return why(err, "%s: the kernel refuses to make %s (%s), "
			   "probably by a seccomp filter; allow the call", call,
			   what, strerror(-err));
	default:
		return why(err, "%s: the kernel cannot make %s: %s", call, what,
			   strerror(-err));
	}
}

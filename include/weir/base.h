/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

/*
 * Definitions that all other headers use: visibility, versions, error messages,
 * and the struct that contains a member.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#define WEIR_PRINTF(at, args) \
	__attribute__((__format__(__printf__, at, args), __cold__))
#else
#define WEIR_API
#define WEIR_PRINTF(at, args)
#endif

/* The struct of @type whose @member is at @ptr. */
#define weir_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* A time that never comes: no timeout, no deadline. */
#define WEIR_FOREVER UINT64_MAX

/* Nanoseconds. */
#define WEIR_USEC UINT64_C(1000)
#define WEIR_MSEC UINT64_C(1000000)
#define WEIR_SEC UINT64_C(1000000000)

/*
 * Get the version of the library that is running, for example "0.1.0".
 *
 * It may differ from the WEIR_VERSION_ macros, which are those of the headers
 * that the caller was compiled with.  The string is static.
 *
 * Returns the version.  Any thread.  Never blocks.
 */
WEIR_API const char *weir_version(void);

/*
 * Get the error message of the last control call that failed on this thread.
 *
 * It names the call, the argument, the likely cause and the remedy: "ulimit -l
 * is 8 MiB, this needs 64 MiB".  An operation that fails after its start leaves
 * no message; see its negative errno and weir_op_get_detail().  A call that
 * succeeds does not change the message.
 *
 * Returns a string that is valid until this thread's next failing call; empty
 * if nothing failed yet; never NULL.
 *
 * Any thread.  Never blocks.
 */
WEIR_API const char *weir_why(void);

/*
 * Set the error message of this thread, as printf(3) does, and return @err.
 *
 * For providers, engines and other code of a program's own whose callers read
 * weir_why().  The message begins with the name of the call, and says what is
 * wrong and what to do:
 *
 *	err = weir_why_set(-ENODEV, "acme_open: there is no card %d; acme -l "
 *			   "lists them", card->number);
 *
 * At most 511 bytes of it are kept.  It may contain the message before it.
 *
 * Returns @err.  Any thread.  Never blocks; allocates at a thread's first
 * message.  Re-creates ERR_raise_data() of OpenSSL.
 */
WEIR_API int weir_why_set(int err, const char *fmt, ...) WEIR_PRINTF(2, 3);

/*
 * Tell whether the call @name, which is about to be made and may fail, is to
 * fail now: for providers and engines whose users test with simulated worlds.
 *
 * "malloc" is an allocation; name anything else after the function:
 *
 *	err = weir_fault("acme_reset") ? -EIO : acme_reset(card);
 *
 * A world whose faults include WEIR_SIM_NOMEM or WEIR_SIM_SYSCALL decides, from
 * its seed, for the calls of its thread (<weir/sim/world.h>).  Elsewhere the
 * answer is always 0, and costs a load.
 *
 * Returns 1 or 0.  Any thread.  Never blocks.  Re-creates the fault points of
 * Linux, should_fail().
 */
WEIR_API int weir_fault(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_BASE_H */

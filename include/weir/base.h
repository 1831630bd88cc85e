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
#else
#define WEIR_API
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

#ifdef __cplusplus
}
#endif

#endif /* WEIR_BASE_H */

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_OPTS_H
#define WEIR_BASE_OPTS_H

#include <stddef.h>

/*
 * Copy the caller's option struct @src, which starts with its own size, into
 * @dst, which has @known bytes.  What an older caller did not have is zero, so
 * zero must mean the default.  NULL is all defaults.  @call names the public
 * function, for weir_why().
 *
 * Returns 0, -EINVAL if the size is absurd, or -E2BIG if a newer caller set a
 * member that this library does not have.
 */
int opts_load(void *dst, size_t known, const void *src, const char *call);

#endif /* WEIR_BASE_OPTS_H */

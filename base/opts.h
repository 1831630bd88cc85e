/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_OPTS_H
#define WEIR_BASE_OPTS_H

#include <stddef.h>

#include "base/provider.h"

/*
 * Copy the caller's option struct @src, which starts with its own size, into
 * @dst, which has @known bytes.  What an older caller did not have is zero, so
 * zero must mean the default.  NULL is all defaults.  @call names the public
 * function, for weir_why().
 *
 * Returns 0, -EINVAL for a size that was never set, or -E2BIG if a newer
 * caller set a member that this library does not have.
 */
int opts_load(void *dst, size_t known, const void *src, const char *call)
	PROVIDER_API(opts_load);

/*
 * Check the size that the caller's result struct @ret starts with: large enough to
 * hold itself, and not absurdly large.  For calls that have work to do
 * before opts_give().
 *
 * Returns 0, or -EINVAL.
 */
int opts_capacity(const void *ret, const char *call)
	PROVIDER_API(opts_capacity);

/*
 * Copy to @dst, which has @known bytes, what the caller's result struct @ret,
 * which opts_capacity() has looked at, has from before.  What an older caller
 * does not have is zero.
 */
void opts_take(void *dst, size_t known, const void *ret);

/*
 * Copy the result struct @src, which has @known bytes, to the caller's @ret as
 * far as there is capacity.  The size there stays, and what a newer caller
 * has capacity for is zero.
 *
 * Returns 0, or -EINVAL as opts_capacity() does.
 */
int opts_give(void *ret, const void *src, size_t known, const char *call)
	PROVIDER_API(opts_give);

#endif /* WEIR_BASE_OPTS_H */

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_OPTS_H
#define WEIR_BASE_OPTS_H

#include <stddef.h>

/*
 * Copy the caller's option struct @src, which starts with its own size, into
 * @dst, which has @known bytes.  Members that an older caller's struct lacks
 * are set to 0, so 0 must mean the default.  NULL is all defaults.  @call names
 * the public function, for weir_why().
 *
 * Returns 0, -EINVAL for a size that was never set, or -E2BIG if a newer caller
 * set a member that this library does not have.
 */
int opts_load(void *dst, size_t known, const void *src, const char *call);

/*
 * Check the size at the start of the caller's result struct @ret: it must
 * include itself, and not be absurdly large.  For calls that do work before
 * opts_give().
 *
 * Returns 0, or -EINVAL.
 */
int opts_capacity(const void *ret, const char *call);

/*
 * Copy the present contents of the caller's result struct @ret, which
 * opts_capacity() has checked, to @dst, which has @known bytes.  Members that
 * an older caller's struct lacks are set to 0.
 */
void opts_take(void *dst, size_t known, const void *ret);

/*
 * Copy the result struct @src, which has @known bytes, to the caller's @ret as
 * far as there is capacity.  The size there stays, and what a newer caller
 * has capacity for is zero.
 *
 * Returns 0, or -EINVAL as opts_capacity() does.
 */
int opts_give(void *ret, const void *src, size_t known, const char *call);

#endif /* WEIR_BASE_OPTS_H */

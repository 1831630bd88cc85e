/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel defines and not each libc: musl has had no RWF_ and RENAME_ flags
 * and no struct statx until 1.2.5.
 */
#ifndef WEIR_BASE_LIBC_H
#define WEIR_BASE_LIBC_H

#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>

#if !defined(RWF_HIPRI) || !defined(RENAME_NOREPLACE)
#include <linux/fs.h>
#endif
#ifndef HAVE_STRUCT_STATX
#include <linux/stat.h>
#endif

#endif /* WEIR_BASE_LIBC_H */

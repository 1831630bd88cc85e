/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_NO_VERBS_H
#define WEIR_DMA_NO_VERBS_H

/* What a call says that needs rdma-core, in a build without it. */

#include <errno.h>

#include "base/why.h"

static inline int no_verbs(const char *call)
{
	return why(-EOPNOTSUPP, "%s: this weir was built without verbs; install "
		   "libibverbs-dev and librdmacm-dev, configure and build "
		   "again", call);
}

#endif /* WEIR_DMA_NO_VERBS_H */

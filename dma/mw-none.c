/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows without rdma-core: there are none, and no connections. */

#include <weir/mw.h>

#include "dma/no-verbs.h"

int weir_mw_create(struct weir_mw **ret, struct weir_conn *c,
		   struct weir_op *op, struct weir_mmap *mmap,
		   const struct weir_export_rdma_opts *opts)
{
	(void)ret, (void)c, (void)op, (void)mmap, (void)opts;
	return no_verbs("weir_mw_create");
}

int weir_mw_export(const struct weir_mw *w, struct weir_export_desc *ret)
{
	(void)w, (void)ret;
	return no_verbs("weir_mw_export");
}

int weir_mw_info(const struct weir_mw *w, struct weir_mw_info *ret)
{
	(void)w, (void)ret;
	return no_verbs("weir_mw_info");
}

int weir_mw_revoke(struct weir_mw *w, struct weir_op *op)
{
	(void)w, (void)op;
	return no_verbs("weir_mw_revoke");
}

/* Of NULL, and there is nothing else. */
int weir_mw_destroy(struct weir_mw *w)
{
	(void)w;
	return 0;
}

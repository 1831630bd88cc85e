/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows without rdma-core: there are none, and no connections. */

#include <weir/window.h>

#include "dma/no-verbs.h"

int weir_window_create(struct weir_window **ret, struct weir_conn *c,
		       struct weir_op *op, struct weir_mmap *mmap,
		       const struct weir_export_rdma_opts *opts)
{
	(void)ret, (void)c, (void)op, (void)mmap, (void)opts;
	return no_verbs("weir_window_create");
}

int weir_window_export(const struct weir_window *w,
		       struct weir_export_desc *ret)
{
	(void)w, (void)ret;
	return no_verbs("weir_window_export");
}

int weir_window_info(const struct weir_window *w, struct weir_window_info *ret)
{
	(void)w, (void)ret;
	return no_verbs("weir_window_info");
}

int weir_window_revoke(struct weir_window *w, struct weir_op *op)
{
	(void)w, (void)op;
	return no_verbs("weir_window_revoke");
}

/* Of NULL, and there is nothing else. */
int weir_window_destroy(struct weir_window *w)
{
	(void)w;
	return 0;
}

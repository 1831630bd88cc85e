/* SPDX-License-Identifier: BSD-3-Clause */

#include "bench/user-domain.h"

#include <string.h>

#include <weir/domain-user.h>

#include "bench/bench.h"

static int at_once(struct weir_domain *domain, struct weir_reactor *reactor,
		   struct weir_op *op, const struct weir_domain_move *m)
{
	bool pulls = m->src.domain == domain;
	char *base = weir_domain_ctx(domain);
	uintptr_t src = (uintptr_t)m->src.iov->iov_base;
	uintptr_t dst = (uintptr_t)m->dst.iov->iov_base;
	size_t len = m->dst.iov->iov_len;

	(void)reactor;
	if (pulls)
		memcpy((void *)dst, base + src, len);
	else
		memcpy(base + dst, (void *)src, len);
	weir_domain_complete(op, (int64_t)len);
	return 0;
}

struct weir_domain *user_domain_make(char *mem)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER, .ctx = mem,
	};
	struct weir_domain *d = NULL;

	bench_must(weir_domain_create(&d, &opts), "weir_domain_create");
	bench_must(weir_domain_set_pull(d, at_once), "set_pull");
	bench_must(weir_domain_set_push(d, at_once), "set_push");
	return d;
}

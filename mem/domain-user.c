/* SPDX-License-Identifier: BSD-3-Clause */
/* Domains of the user's own: what they are made with, and their functions. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"

static int check_opts(const struct weir_domain_opts *opts)
{
	if (opts->reserved)
		return why(-E2BIG, "weir_domain_create: .reserved is unknown "
			   "to this version");
	if (opts->kind < WEIR_DOMAIN_USER)
		return why(-EINVAL, "weir_domain_create: kind %u is the "
			   "library's; yours begin with %u", opts->kind,
			   WEIR_DOMAIN_USER);
	if (opts->ctx_size && !opts->ctx)
		return why(-EINVAL, "weir_domain_create: .ctx_size is %zu, and "
			   ".ctx is NULL", opts->ctx_size);
	return 0;
}

/* The domain, the context, which may be of any type, and the id. */
const struct domain_class domain_class_user;

static struct domain_user *make(const struct weir_domain_opts *opts)
{
	const size_t align = _Alignof(max_align_t);
	const char *id = opts->id ? opts->id : "user";
	size_t ctx_at = (sizeof(struct domain_user) + align - 1) & ~(align - 1);
	size_t id_len = strlen(id) + 1, ctx_len = opts->ctx_size;
	struct domain_user *user;
	char *mem;

	if (ctx_len > SIZE_MAX - ctx_at - id_len)
		return NULL;
	mem = mem_calloc(1, ctx_at + ctx_len + id_len);
	if (!mem)
		return NULL;
	user = (struct domain_user *)(void *)mem;
	user->domain.cls = &domain_class_user;
	user->domain.kind = opts->kind;
	user->domain.ctx = opts->ctx;
	user->ctx_size = ctx_len;
	if (ctx_len)
		user->domain.ctx = memcpy(mem + ctx_at, opts->ctx, ctx_len);
	user->domain.id = memcpy(mem + ctx_at + ctx_len, id, id_len);
	return user;
}

int weir_domain_create(struct weir_domain **ret,
		       const struct weir_domain_opts *opts_in)
{
	struct weir_domain_opts opts;
	struct domain_user *user;
	int err;

	if (!ret)
		return why(-EINVAL, "weir_domain_create: nowhere to put it");
	err = opts_load(&opts, sizeof(opts), opts_in, "weir_domain_create");
	if (!err)
		err = check_opts(&opts);
	if (err)
		return err;
	user = make(&opts);
	if (!user)
		return why(-ENOMEM, "weir_domain_create: no memory");
	domain_add(&user->domain);
	*ret = &user->domain;
	return 0;
}

size_t weir_domain_ctx_size(const struct weir_domain *domain)
{
	if (!domain_is_user(domain))
		return 0;
	return ((const struct domain_user *)domain)->ctx_size;
}

static int may_set(struct weir_domain *domain, const char *call)
{
	uint32_t users;

	if (!domain_is_user(domain))
		return why(-EPERM, "%s: domain %s is the library's, and has "
			   "its own", call, domain->id);
	users = atomic_load_explicit(&domain->users, memory_order_acquire);
	if (users)
		return why(-EBUSY, "%s: %u mmaps, jobs or translations use "
			   "domain %s", call, users, domain->id);
	return 0;
}

#define SETTER(name, type)                                              \
	int weir_domain_set_##name(struct weir_domain *domain, type *fn) \
	{                                                               \
		int err = may_set(domain, "weir_domain_set_" #name);    \
									\
		if (!err)                                               \
			domain_to_user(domain)->name = fn;              \
		return err;                                             \
	}

SETTER(pull, weir_domain_move_fn)
SETTER(push, weir_domain_move_fn)
SETTER(transfer, weir_domain_move_fn)
SETTER(fill, weir_domain_move_fn)
SETTER(translate, weir_domain_translate_fn)
SETTER(invalidate, weir_domain_invalidate_fn)
SETTER(cancel, weir_domain_cancel_fn)

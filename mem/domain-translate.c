/* SPDX-License-Identifier: BSD-3-Clause */
/* Translations: asking for one, checking the answer, invalidating it once. */

#include <errno.h>

#include "base/check.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"

#define CALL "weir_domain_translate"

static bool is_piece(const struct weir_translation *t, const struct iovec *iov)
{
	uint64_t addr = (uintptr_t)iov->iov_base;

	if (!addr && iov->iov_len && domain_is_memory(t->domain))
		return false;
	return addr + iov->iov_len >= addr;
}

/* Check the answer of a domain before it is used. */
static bool makes_sense(const struct weir_translation *t, size_t len)
{
	const struct iovec *iov = weir_translation_iov(t);
	size_t total = 0;
	uint32_t i;

	if (!t->domain || !t->n_iov || t->n_iov > WEIR_DOMAIN_PIECES_MAX ||
	    (t->n_iov > 1 && !t->iovs))
		return false;
	for (i = 0; i < t->n_iov; i++) {
		if (iov[i].iov_len > len - total || !is_piece(t, &iov[i]))
			return false;
		total += iov[i].iov_len;
	}
	return total == len;
}

static void identity(struct weir_translation *t, struct weir_domain *dst,
		     uint64_t addr, size_t len)
{
	t->domain = dst;
	t->iov.iov_base = (void *)(uintptr_t)addr;
	t->iov.iov_len = len;
	t->n_iov = 1;
}

static int ask(struct weir_domain *src, void *src_ctx, struct weir_domain *dst,
	       void *dst_ctx, uint64_t addr, size_t len,
	       struct weir_translation *t)
{
	struct domain_user *user = domain_to_user(src);
	int err;

	if (domain_is_memory(src) && domain_is_memory(dst)) {
		identity(t, dst, addr, len);
		return 0;
	}
	if (!domain_is_user(src) || !user->translate)
		return -EOPNOTSUPP;
	err = user->translate(src, src_ctx, dst, dst_ctx, addr, len, t);
	return err < 0 ? (int)sane_result(err) : 0;
}

/* The invalidation needs all of it. */
static int check_capacity(const struct weir_translation *ret)
{
	int err = opts_capacity(ret, CALL);

	if (err || ret->size >= sizeof(*ret))
		return err;
	return why(-EINVAL, CALL ": .size is %zu; set it to sizeof of the "
		   "struct", ret->size);
}

int weir_domain_translate(struct weir_domain *src, void *src_ctx,
			  struct weir_domain *dst, void *dst_ctx, uint64_t addr,
			  size_t len, struct weir_translation *ret)
{
	struct weir_translation t = { .size = sizeof(t) };
	unsigned int since;
	int err;

	if (!src || !dst || !ret || !len || (!addr && domain_is_memory(src)))
		return why(-EINVAL, CALL ": an argument is NULL, or a length or "
			   "address 0");
	err = check_capacity(ret);
	if (err)
		return err;
	if (addr + len < addr)
		return why(-ERANGE, CALL ": %zu bytes at %#llx wrap around", len,
			   (unsigned long long)addr);
	if (!domain_has(src, addr, len))
		return why(-ERANGE, CALL ": %zu bytes at %#llx are outside of "
			   "domain %s", len, (unsigned long long)addr, src->id);
	/* The domain's function may try to destroy it. */
	domain_use(src);
	since = why_begin();
	err = ask(src, src_ctx, dst, dst_ctx, addr, len, &t);
	if (err) {
		domain_unuse(src);
		return why_is_new(since) ? err :
		       why_static(err, CALL ": the domain has no translation, "
				  "or its function refuses this one");
	}
	t.translator = src;
	t.translator_ctx = src_ctx;
	if (!makes_sense(&t, len)) {
		weir_domain_invalidate(&t);
		return why(-EIO, CALL ": the function of the domain gave pieces "
			   "that are not %zu bytes", len);
	}
	return opts_give(ret, &t, sizeof(t), CALL);
}

void weir_domain_invalidate(struct weir_translation *t)
{
	struct weir_domain *domain = t->translator;

	if (!domain)
		return;
	t->translator = NULL;
	if (domain_is_user(domain) && domain_to_user(domain)->invalidate)
		domain_to_user(domain)->invalidate(domain, t->translator_ctx,
						   t);
	domain_unuse(domain);
}

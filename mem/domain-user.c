/* SPDX-License-Identifier: BSD-3-Clause */
/* Domains of users: their creation, and calls of their functions. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "reactor/op-inline.h"

/*
 * Moves by the functions of a user's domain, as operations.
 *
 * The op begins before the function is called, because the function may
 * complete it at once.  If the function refuses, the op is put back as if it
 * had never begun.
 */

/* The words of a move in op->u.words. */
enum {
	WORD_DOMAIN,	/* The domain whose function is called. */
	WORD_SRC,	/* Counted as used; 0: none. */
	WORD_DST,
	WORD_TOTAL,
	WORD_DATA,	/* weir_domain_op_data() */
};

static struct weir_domain *word_domain(const struct weir_op *op, int word)
{
	return (struct weir_domain *)(uintptr_t)op->u.words[word];
}

static void cancel(struct weir_op *op)
{
	struct weir_domain *domain = word_domain(op, WORD_DOMAIN);
	struct weir_reactor *r = op->reactor;

	debug_check(op_cancel_wanted(op));
	if (!domain_to_user(domain)->cancel)
		return;
	reactor_enter(r);
	domain_to_user(domain)->cancel(domain, op);
	reactor_exit(r);
}

static const struct weir_op_class move_class = {
	.name = "move by a domain",
	.cancel = cancel,
};

static void hold(struct weir_op *op, const struct domain_call *call)
{
	struct weir_domain *src = call->hold ? call->move->src.domain : NULL;
	struct weir_domain *dst = call->hold ? call->move->dst.domain : NULL;

	op->u.words[WORD_DOMAIN] = (uintptr_t)call->domain;
	op->u.words[WORD_SRC] = (uintptr_t)src;
	op->u.words[WORD_DST] = (uintptr_t)dst;
	op->u.words[WORD_TOTAL] = call->total;
	op->u.words[WORD_DATA] = 0;
	if (src)
		domain_use(src);
	if (dst)
		domain_use(dst);
}

static void release(struct weir_op *op)
{
	struct weir_domain *src = word_domain(op, WORD_SRC);
	struct weir_domain *dst = word_domain(op, WORD_DST);

	if (src)
		domain_unuse(src);
	if (dst)
		domain_unuse(dst);
}

int domain_move(struct weir_reactor *r, struct weir_op *op,
		const struct domain_call *call)
{
	int err;

	reactor_check_thread(r);
	hold(op, call);
	op_enlist(r, op, &move_class);
	op_enter(op);
	err = call->fn(call->domain, r, op, call->move);
	if (unlikely(err < 0)) {
		op_abandon(op);
		release(op);
	}
	op_exit(op);
	return err < 0 ? (int)sane_result(err) : 0;
}

static struct weir_op *under_way(const struct weir_op *op)
{
	check(op->state == OP_PENDING && op->cls == &move_class);
	reactor_check_thread(op->reactor);
	return (struct weir_op *)op;
}

void weir_domain_complete(struct weir_op *op, int64_t res)
{
	under_way(op);
	res = sane_result(res);
	if (res >= 0) {
		if ((uint64_t)res > op->u.words[WORD_TOTAL])
			res = -EIO;
		else
			op->detail.bytes = (uint64_t)res;
	}
	release(op);
	op_complete(op, res);
}

void weir_domain_set_detail(struct weir_op *op,
			    const struct weir_op_detail *detail)
{
	under_way(op)->detail = *detail;
	if (op->detail.bytes > op->u.words[WORD_TOTAL])
		op->detail.bytes = op->u.words[WORD_TOTAL];
}

void weir_domain_set_op_data(struct weir_op *op, void *data)
{
	under_way(op)->u.words[WORD_DATA] = (uintptr_t)data;
}

void *weir_domain_op_data(const struct weir_op *op)
{
	return (void *)(uintptr_t)under_way(op)->u.words[WORD_DATA];
}

static bool is_memory(const struct weir_domain *domain)
{
	return !domain || domain_is_memory(domain);
}

static int check_piece(const struct weir_domain_side *side, uint32_t i,
		       uint64_t *total)
{
	uint64_t addr = (uintptr_t)side->iov[i].iov_base;
	uint64_t len = side->iov[i].iov_len;

	if (addr + len < addr || *total + len < *total ||
	    *total + len > INT64_MAX)
		return -ERANGE;
	if (side->domain && !domain_has(side->domain, addr, len))
		return -ERANGE;
	if (!addr && len && is_memory(side->domain))
		return -EINVAL;
	*total += len;
	return 0;
}

static int check_side(const struct weir_domain_side *side, uint64_t *total)
{
	uint32_t i;
	int err;

	*total = 0;
	if (!side->iov || !side->n_iov || side->reserved)
		return -EINVAL;
	if (side->n_iov > WEIR_DOMAIN_PIECES_MAX)
		return -EMSGSIZE;
	for (i = 0; i < side->n_iov; i++) {
		err = check_piece(side, i, total);
		if (err)
			return err;
	}
	return *total ? 0 : -EINVAL;
}

static int check_size(const struct weir_domain_move *move)
{
	const unsigned char *bytes = (const unsigned char *)move;
	size_t i;

	if (!move || move->size < sizeof(*move))
		return -EINVAL;
	for (i = sizeof(*move); i < move->size; i++)
		if (bytes[i])
			return -E2BIG;
	return 0;
}

static int check_rights(const struct weir_domain_move *move)
{
	const struct weir_domain *src = move->src.domain;
	const struct weir_domain *dst = move->dst.domain;

	return (src && src->no_read) || (dst && dst->no_write) ? -EACCES : 0;
}

/* A fill has no source. */
static int check_no_source(const struct weir_domain_side *side)
{
	return side->domain || side->ctx || side->iov || side->n_iov ||
	       side->reserved || side->translation ? -EINVAL : 0;
}

static int check_sides(const struct weir_domain_move *move, bool fills,
		       uint64_t *total)
{
	uint64_t n;
	int err = check_size(move);

	if (!err)
		err = check_side(&move->dst, total);
	if (!err)
		err = fills ? check_no_source(&move->src) :
			      check_side(&move->src, &n);
	if (!err && !fills && n != *total)
		err = -EMSGSIZE;
	return err ? err : check_rights(move);
}

enum move_kind { PULL, PUSH, TRANSFER, FILL };

/* The domain whose function is called.  NULL: the domains of @move do not fit
 * @kind. */
static struct weir_domain *mover(const struct weir_domain_move *move,
				 enum move_kind kind)
{
	struct weir_domain *src = move->src.domain, *dst = move->dst.domain;

	switch (kind) {
	case PULL:
		return is_memory(dst) ? src : NULL;
	case PUSH:
		return is_memory(src) ? dst : NULL;
	case TRANSFER:
		return src ? dst : NULL;
	default:
		return dst;
	}
}

/* Fill @call except for the function. */
static int prepare(struct domain_call *call,
		   const struct weir_domain_move *move, enum move_kind kind)
{
	int err = check_sides(move, kind == FILL, &call->total);

	if (err)
		return err;
	call->domain = mover(move, kind);
	call->move = move;
	call->hold = true;
	return call->domain ? 0 : -EINVAL;
}

/* A move that the call named cannot make. */
static int refuse_move(int err, const char *call)
{
	return why(err, "%s: %s", call,
		   err == -EMSGSIZE ? "source and destination have different "
				      "lengths" :
		   err == -EOPNOTSUPP ? "the domain has no function for it" :
		   err == -ERANGE ? "a piece wraps around, or is outside of its "
				    "domain" :
		   err == -EACCES ? "the source must not be read, or the "
				    "destination not be written" :
		   err == -E2BIG ? "the move sets members that this version "
				   "does not have" :
		   "the move's pieces or domains do not suit the call");
}

static int start(struct weir_reactor *r, struct weir_op *op,
		 struct domain_call *call, weir_domain_move_fn *fn,
		 const char *name)
{
	unsigned int since = why_begin();
	int err;

	if (!fn)
		return refuse_move(-EOPNOTSUPP, name);
	err = op_admit(r, op);
	if (err)
		return op_refused(err, op, name);
	call->fn = fn;
	err = domain_move(r, op, call);
	if (unlikely(err) && !why_is_new(since))
		return why(err, "%s: the function of domain %s refuses it: %s",
			   name, call->domain->id, strerror(-err));
	return err;
}

/* The slot of the function @name of @domain, if its kind has functions. */
#define FN(domain, name) \
	(domain_is_user(domain) ? domain_to_user(domain)->name : NULL)

int weir_domain_pull(struct weir_reactor *r, struct weir_op *op,
		     const struct weir_domain_move *move)
{
	struct domain_call call;
	int err = prepare(&call, move, PULL);

	return err ? refuse_move(err, "weir_domain_pull") :
		     start(r, op, &call, FN(call.domain, pull),
			   "weir_domain_pull");
}

int weir_domain_push(struct weir_reactor *r, struct weir_op *op,
		     const struct weir_domain_move *move)
{
	struct domain_call call;
	int err = prepare(&call, move, PUSH);

	return err ? refuse_move(err, "weir_domain_push") :
		     start(r, op, &call, FN(call.domain, push),
			   "weir_domain_push");
}

int weir_domain_transfer(struct weir_reactor *r, struct weir_op *op,
			 const struct weir_domain_move *move)
{
	struct domain_call call;
	int err = prepare(&call, move, TRANSFER);

	return err ? refuse_move(err, "weir_domain_transfer") :
		     start(r, op, &call, FN(call.domain, transfer),
			   "weir_domain_transfer");
}

int weir_domain_fill(struct weir_reactor *r, struct weir_op *op,
		     const struct weir_domain_move *move)
{
	struct domain_call call;
	int err = prepare(&call, move, FILL);

	return err ? refuse_move(err, "weir_domain_fill") :
		     start(r, op, &call, FN(call.domain, fill),
			   "weir_domain_fill");
}

/* The options and functions of a user's domain. */

#define ALL_FLAGS (WEIR_DOMAIN_READ_ONLY | WEIR_DOMAIN_WRITE_ONLY)

static int check_opts(const struct weir_domain_opts *opts)
{
	if (opts->flags & ~ALL_FLAGS)
		return why(-E2BIG, "weir_domain_create: .flags %#x are unknown "
			   "to this version", opts->flags & ~ALL_FLAGS);
	if (opts->flags == ALL_FLAGS)
		return why(-EINVAL, "weir_domain_create: what can be neither "
			   "read nor written is of no use");
	if (opts->addr > UINT64_MAX - opts->len)
		return why(-EINVAL, "weir_domain_create: %llu addresses from "
			   "%#llx on wrap around",
			   (unsigned long long)opts->len,
			   (unsigned long long)opts->addr);
	if (opts->kind < WEIR_DOMAIN_USER)
		return why(-EINVAL, "weir_domain_create: kind %u is the "
			   "library's; yours begin with %u", opts->kind,
			   WEIR_DOMAIN_USER);
	if (opts->ctx_size && !opts->ctx)
		return why(-EINVAL, "weir_domain_create: .ctx_size is %zu, and "
			   ".ctx is NULL", opts->ctx_size);
	return 0;
}

const struct domain_class domain_class_user = { .is_memory = false };

/* One allocation: the domain, the context of any type, and the id. */

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
	user->domain.first = opts->addr;
	user->domain.size = opts->len ? opts->len : UINT64_MAX - opts->addr;
	user->domain.no_read = opts->flags & WEIR_DOMAIN_WRITE_ONLY;
	user->domain.no_write = opts->flags & WEIR_DOMAIN_READ_ONLY;
	user->domain.place = opts->place;
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

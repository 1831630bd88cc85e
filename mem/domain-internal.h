/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_DOMAIN_INTERNAL_H
#define WEIR_MEM_DOMAIN_INTERNAL_H

/*
 * What the kinds of domains have in common, and what engines need to know of
 * them.  A kind embeds struct weir_domain as its first member.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/domain-user.h>
#include <weir/domain.h>

#include "base/provider.h"

/*
 * What a kind of domain is to the layers above, which ask this and not which
 * kind it is.  Each kind has one, in the file that creates its domains.
 */
struct domain_class {
	bool is_memory;		/* Addresses are pointers of this process. */

	/* Of a peer: bufs have a key each, which is copied at the start; there
	 * may be a right to atomics alone; and the peer may be signalled. */
	bool is_peer;

	/* Not memory of this process, but a device knows it by a key. */
	bool is_device;

	uint64_t addr_max;	/* The last address. */
	uint32_t alloc_flags;	/* WEIR_MMAP_ALLOC_ of its memory. */

	/*
	 * Whose addresses its are: an address means the same in two domains for
	 * which this gives the same.  NULL: it means so in this domain alone.
	 */
	struct domain_place (*place)(const struct weir_domain *domain);
};

struct domain_place {
	enum { PLACE_PROCESS, PLACE_FILE } what;
	uint64_t id[2];
};

struct weir_domain {
	const struct domain_class *cls;
	uint32_t kind;

	/*
	 * 0, or: a block should begin and end at multiples of it, with .strict
	 * has to.
	 */
	uint32_t align;
	bool strict;
	bool no_read, no_write;	/* What may not be done with it. */

	/* It is this import's: its addresses are those of the range, and jobs
	 * that use them are the import's.  NULL: it is no import's. */
	const struct weir_mmap *import;
	atomic_uint users;	/* Mmaps, and jobs in flight on any reactor. */
	void *ctx;
	const char *id;		/* Of the same allocation, or static. */
	bool immortal;

	/* Before it is freed, for what the kind has beside memory; or NULL. */
	void (*release)(struct weir_domain *domain);

	/* domain.c's, under its lock. */
	struct weir_domain *next;
	struct weir_domain **pprev;	/* NULL: not in the list. */
	uint32_t held;			/* By walks. */
};

/* What weir_domain_system() returns. */
extern struct weir_domain domain_of_system PROVIDER_API(domain_of_system);

/* Have walks see @domain, which is complete: the last step of a create. */
void domain_add(struct weir_domain *domain);

/* Whether its addresses are pointers of this process. */
static inline bool domain_is_memory(const struct weir_domain *domain)
{
	return domain->cls->is_memory;
}

extern const struct domain_class domain_class_file;
extern const struct domain_class domain_class_process;
extern const struct domain_class domain_class_user;

static inline bool domain_is_file(const struct weir_domain *domain)
{
	return domain->cls == &domain_class_file;
}

static inline bool domain_is_process(const struct weir_domain *domain)
{
	return domain->cls == &domain_class_process;
}

/* A domain of the user's own; what is not set is NULL. */
struct domain_user {
	struct weir_domain domain;
	weir_domain_move_fn *pull, *push, *transfer, *fill;
	weir_domain_translate_fn *translate;
	weir_domain_invalidate_fn *invalidate;
	weir_domain_cancel_fn *cancel;
	size_t ctx_size;
};

/* Another process. */
struct domain_process {
	struct weir_domain domain;
	int pid;
	int pidfd;
	char id_mem[];
};

/*
 * A peer, by RDMA.  What reaches it is dma/'s: the link, opaque here, which
 * domain_remote_attach() sets.
 */
struct domain_remote {
	struct weir_domain domain;
	void *_Atomic link;	/* NULL: nothing reaches it. */
	const char *link_name;	/* The link's, for people. */
	char id_mem[];
};

/* A file. */
struct domain_file {
	struct weir_domain domain;
	int fd;
	int buffered_fd;	/* The user's or our own; -1: there is none. */
	int no_way;		/* Why we have none; 0: none was wanted. */
	uint64_t file[2];	/* Which it is: the same in all its domains. */

	/*
	 * Of an O_DIRECT file; 0: it is none, and so .domain.align.  Offset and
	 * length are kept to whole pages even if the device would take sectors:
	 * a page of which one part is written directly and one through the page
	 * cache could lose either.
	 */
	uint32_t mem_align;
	char id_mem[];
};

/* domain.c: 0, or -EBUSY with a message that begins with @call: @domain is in
 * use, or a walk is at it. */
int domain_may_destroy(const struct weir_domain *domain, const char *call)
	PROVIDER_API(domain_may_destroy);

static inline void domain_use(struct weir_domain *domain)
{
	if (!domain->immortal)
		atomic_fetch_add_explicit(&domain->users, 1,
					  memory_order_relaxed);
}

/* Release: what the user did comes before the domain can be destroyed. */
static inline void domain_unuse(struct weir_domain *domain)
{
	if (!domain->immortal)
		atomic_fetch_sub_explicit(&domain->users, 1,
					  memory_order_release);
}

static inline bool domain_is_user(const struct weir_domain *domain)
{
	return domain->cls == &domain_class_user;
}

static inline struct domain_user *domain_to_user(struct weir_domain *domain)
{
	return (struct domain_user *)domain;
}

static inline struct domain_process *domain_to_process(
	struct weir_domain *domain)
{
	return (struct domain_process *)domain;
}

static inline bool domain_is_remote(const struct weir_domain *domain)
{
	return domain->cls->is_peer;
}

/* What reaches @domain, a remote one; NULL: nothing does.  Any thread. */
static inline void *domain_remote_link(const struct weir_domain *domain)
{
	return atomic_load_explicit(&((const struct domain_remote *)domain)->link,
				    memory_order_acquire);
}

static inline struct domain_file *domain_to_file(struct weir_domain *domain)
{
	return (struct domain_file *)domain;
}

/* A move, found to make sense, and the function that does it. */
struct domain_call {
	struct weir_domain *domain;	/* Whose function it is. */
	weir_domain_move_fn *fn;
	const struct weir_domain_move *move;
	uint64_t total;			/* Bytes there are to move. */
	bool hold;			/* Count both sides as used. */
};

/*
 * domain-user.c: start @op, which op_may_begin() has let pass or which is never
 * refused.  Returns 0, or what the function said, with @op idle again.
 */
int domain_move(struct weir_reactor *r, struct weir_op *op,
		const struct domain_call *call);

/*
 * domain-process.c: whether @process still is, and so has been since it was
 * made a domain: as long as it is, no other process has its number.
 */
bool process_lives(const struct domain_process *process);

/*
 * domain-remote.c: @link reaches @domain from now on, and uses it until
 * domain_remote_detach(); @name, for people, lives as long.  Returns 0, or,
 * with a message that begins with @call: -EINVAL, it is of another kind;
 * -EBUSY, another link reaches it; -EALREADY, this one does.  Any thread.
 */
int domain_remote_attach(struct weir_domain *domain, void *link,
			 const char *name, const char *call)
	PROVIDER_API(domain_remote_attach);

/* Jobs that go by @link have ended.  Does nothing if another one reaches it. */
void domain_remote_detach(struct weir_domain *domain, void *link)
	PROVIDER_API(domain_remote_detach);

#endif /* WEIR_MEM_DOMAIN_INTERNAL_H */

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_DOMAIN_INTERNAL_H
#define WEIR_MEM_DOMAIN_INTERNAL_H

/* The common part of all domains, and what engines need to know of them.  A
 * kind embeds struct weir_domain as its first member. */

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/domain-user.h>
#include <weir/domain.h>

#include "base/provider.h"

/*
 * The properties of a kind of domain.  The layers above read these and never
 * compare kinds.  Each kind has one such struct, in the file that creates its
 * domains.
 */
struct domain_class {
	bool is_memory;		/* Addresses are pointers of this process. */

	/*
	 * The domain is a peer's: each buf has a key, which is copied at the
	 * start; there may be a right to atomics alone; and the peer may be
	 * signalled.
	 */
	bool is_peer;

	/* Not memory of this process, but devices reach it by a key. */
	bool is_device;

	uint32_t alloc_flags;	/* WEIR_MMAP_ALLOC_ of its memory. */

	/*
	 * Identifies the address space: if it returns the same for two domains,
	 * an address means the same in both.  NULL: an address has its meaning
	 * in this domain alone.
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

	/* The bounds of its addresses: the first, and their number. */
	uint64_t first, size;

	/* Identifies the address space, as .place() of the class, which goes for
	 * domains where this is NULL. */
	const void *place;

	/* 0, or the alignment at which blocks should begin and end; with
	 * .strict they must. */
	uint32_t align;
	bool strict;
	bool no_read, no_write;	/* Accesses that are not allowed. */

	/* The import that this domain belongs to: its addresses are those of
	 * the range, and jobs that use them are the import's.  NULL: none. */
	const struct weir_mmap *import;
	atomic_uint users;	/* Mmaps, and jobs in flight on any reactor. */
	void *ctx;
	const char *id;		/* In the same allocation, or static. */
	bool immortal;

	/* Called before it is freed, to release what the kind has besides
	 * memory; or NULL. */
	void (*release)(struct weir_domain *domain);

	/* domain.c's, under its lock. */
	struct weir_domain *next;
	struct weir_domain **pprev;	/* NULL: not in the list. */
	uint32_t held;			/* By walks. */
};

/* Whether @len bytes at @addr are within the bounds of @domain. */
static inline bool domain_has(const struct weir_domain *domain, uint64_t addr,
			      uint64_t len)
{
	uint64_t off = addr - domain->first;

	return off <= domain->size && len <= domain->size - off;
}

/* What weir_domain_system() returns. */
extern struct weir_domain domain_of_system;

/* Make @domain visible to walks: the last step of its creation, when it is
 * complete. */
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

/* A domain of a user; functions that are not set are NULL. */
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

/* A peer, by RDMA. dma/ sets the link, which is opaque here, by
 * domain_remote_attach(). */
struct domain_remote {
	struct weir_domain domain;
	void *_Atomic link;	/* NULL: there is none. */
	const char *link_name;	/* The link's, for people. */
	char id_mem[];
};

/* A file. */
struct domain_file {
	struct weir_domain domain;
	int fd;
	/* The user's or the domain's own; -1: there is none. */
	int buffered_fd;
	int no_way;		/* Why there is none; 0: none was needed. */
	/* Identifies the file: the same in all its domains. */
	uint64_t file[2];

	/*
	 * Of an O_DIRECT file; 0: it is not opened so.  Offset and length are
	 * kept to whole pages even if the device allows sectors: if one part of
	 * a page were written directly and another through the page cache,
	 * either could be lost.
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

/* Release order: the user's accesses come before the destruction. */
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

/* The link of @domain, a remote one; NULL: none.  Any thread. */
static inline void *domain_remote_link(const struct weir_domain *domain)
{
	return atomic_load_explicit(&((const struct domain_remote *)domain)->link,
				    memory_order_acquire);
}

static inline struct domain_file *domain_to_file(struct weir_domain *domain)
{
	return (struct domain_file *)domain;
}

/* A move that has been checked, and the function that makes it. */
struct domain_call {
	struct weir_domain *domain;	/* The domain whose function it is. */
	weir_domain_move_fn *fn;
	const struct weir_domain_move *move;
	uint64_t total;			/* Bytes to move. */
	bool hold;			/* Count both sides as used. */
};

/* domain-user.c: start @op, which op_may_begin() has accepted or which is never
 * refused.  Returns 0, or what the function returned, with @op idle again. */
int domain_move(struct weir_reactor *r, struct weir_op *op,
		const struct domain_call *call);

/* domain-process.c: whether @process has existed without interruption since it
 * became a domain; until it ends, no other process can have its number. */
bool process_lives(const struct domain_process *process);

#endif /* WEIR_MEM_DOMAIN_INTERNAL_H */

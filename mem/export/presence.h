/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_EXPORT_PRESENCE_H
#define WEIR_MEM_EXPORT_PRESENCE_H

/*
 * The presence page of an export: a memfd that the importers of the export and
 * the exporter have mapped for writing.  Each importer claims places in it, one
 * for each reactor that uses the import, and counts itself busy there while its
 * jobs may touch the memory.  So an exporter that revokes sees when the last of
 * them has stopped.
 *
 *	importer					exporter
 *	busy = 1					generation++
 *	generation is what it was? then go on		busy == 0? then over
 *	a slice; look at generation; a slice; ...
 *	busy = 0
 *
 * Both sides write first and then read: at least one of them sees the other, if
 * each has a fence in between.  On the importer's side that would cost as much
 * as a small copy, so the exporter makes both where it can: membarrier(2) has
 * the kernel execute one on the processors of all importers.  The control page
 * says whether it does.
 *
 * The identity in a place is what the importer says of itself.  It decides only
 * whether the exporter goes on waiting: an importer that lies about itself, or
 * writes into the places of others, is one that could write to the memory
 * without this library just as well.  Importers that must not be able to harm
 * each other get an export each.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRESENCE_PLACES 4095

/* A cache line; what is not used takes no memory. */
struct presence_place {
	_Atomic uint64_t pid;		/* Of the claimer; 0: it is free. */
	_Atomic uint64_t start_time;	/* Field 22 of its stat; 0: unknown. */
	_Atomic uint64_t pid_namespace;	/* Inode; 0: unknown. */
	_Atomic uint32_t busy;
	_Atomic uint32_t locked;	/* Its first byte is, while it lives. */
	uint64_t reserved[4];
};

struct presence_page {
	_Atomic uint64_t used;	/* Places that were ever claimed. */
	uint64_t reserved[7];
	struct presence_place places[PRESENCE_PLACES];
};

/* One that is mapped; .page is NULL if it is not. */
struct presence {
	struct presence_page *page;
	int fd;
	bool own_file;	/* .fd is a file description of its own. */
};

/* The exporter's: make one.  Returns 0 or a negative errno. */
int presence_create(struct presence *p);

/*
 * The importer's: map the page of @fd, which is not kept, if it is one.
 * Returns 0, or -EBADMSG, -ENOMEM or -EMFILE with a message.
 */
int presence_open(struct presence *p, int fd);

void presence_close(struct presence *p);

/*
 * Claim a place for this process.  Returns its number, or -ENOSPC, without a
 * message.  Any thread.
 */
int presence_claim(const struct presence *p);
void presence_release(const struct presence *p, int place);

static inline _Atomic uint32_t *presence_busy(const struct presence *p,
					      int place)
{
	return &p->page->places[place].busy;
}

/*
 * The exporter's: how many places are busy, of processes that live; those of
 * dead ones become free.  With @names, a text in @len bytes, it adds which
 * processes these are, as far as there is space.
 */
uint32_t presence_count_busy(const struct presence *p, char *names, size_t len);

#endif /* WEIR_MEM_EXPORT_PRESENCE_H */

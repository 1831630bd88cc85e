/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_SEGMENT_INTERNAL_H
#define WEIR_MEM_SEGMENT_INTERNAL_H

/*
 * How an mmap becomes known to the map of all memory, and is forgotten.
 *
 *	start:   err = segment_add(m);		may refuse: then nothing changed
 *		 ... the mmap is started ...
 *		 segment_added(m);		calls the listeners
 *	stop:    err = segment_may_remove(m, ...);	before anything goes
 *		 ... registrations go, state becomes stopped ...
 *		 segment_remove(m);		tells, then forgets
 *
 * An import, which is born started, does the same.  All but
 * segment_may_remove() run callbacks of the user's: no lock may be held.
 * segment_added() comes last, because a callback may stop and destroy the mmap.
 * segment_remove() returns when all callbacks have, so that the memory may be
 * unmapped after it; until then segment_may_remove() answers -EBUSY, which
 * keeps a callback from destroying the mmap that is being stopped.
 *
 * Only what the processor can reach has segments; others are let through.
 */

struct weir_mmap;

/*
 * Returns 0, or -ENOMEM, -ERANGE (beyond the address mask), -EBUSY (this is a
 * callback of the mmap's own start or stop, or the external memory around it is
 * being removed), or what a validator answered; leaves a message.
 */
int segment_add(struct weir_mmap *mmap);
void segment_added(struct weir_mmap *mmap);

/* Returns 0, or -EBUSY with a message.  Any lock may be held. */
int segment_may_remove(const struct weir_mmap *mmap, const char *call);

/*
 * The owner of @mmap has asked segment_may_remove() of all that it is to remove
 * together, and cannot go back: from here on it answers 0.
 */
void segment_let_go(struct weir_mmap *mmap);

void segment_remove(struct weir_mmap *mmap);

#endif /* WEIR_MEM_SEGMENT_INTERNAL_H */

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_STATS_H
#define WEIR_STATS_H

/*
 * Live statistics: counters of a process that other processes can read.
 *
 * A process that publishes has a page of statistics: a file of at most 16 MiB
 * in memory.  Each of its reactors writes its own counters, and those of its
 * objects, with plain stores and no system call.  Readers copy sections and
 * check by a sequence counter whether the copy is consistent; they do not
 * affect the writer.
 *
 * The writer has WEIR_STATS=1 in its environment, or calls
 * weir_stats_publish(NULL).  The reader:
 *
 *	weir_stats_open(&s, pid);
 *	for (;; sleep(1)) {
 *		weir_stats_read(s);
 *		for (i = 0; !weir_stats_section(s, i, &section); i++)
 *			for (j = 0; !weir_stats_field(s, i, j, &f); j++)
 *				printf("%s %s %" PRIu64 "\n", section.kind,
 *				       f.name, f.value);
 *	}
 *
 * The page describes its contents: kinds of sections, and for each the names of
 * its fields, their units and a line of help.  So a reader can show the
 * counters of a newer library too.  Readers trust nothing: a page that is torn,
 * truncated or forged is an error and never crashes them; texts have no control
 * characters.
 *
 * Publishing is off by default, because a library must not create files that
 * its user did not ask for.  It costs about one twentieth of a nearly empty
 * turn.
 *
 * A page can also be offered: WEIR_STATS=offer, or weir_stats_offer(NULL).  Then
 * the process measures and writes nothing until a reader asks for it by
 * weir_stats_want(), as weir top does; until then it costs a look at the page
 * every 64 turns and before the reactor sleeps.  A reactor that sleeps notices
 * when it next wakes.
 *
 * WEIR_STATS is "1", or a directory for the page, which begins with a slash;
 * readers search it too.  The default directory is the first of these that
 * exists and can be used: $XDG_RUNTIME_DIR/weir, /run/user/UID/weir, /run/weir
 * (only for root), /dev/shm/weir-UID.  "offer:" and a directory offers a page
 * there.  Without WEIR_STATS, and with "0", there is no page.
 *
 * A program works without a page too.  If WEIR_STATS asks for a page that
 * cannot be created, reactors are created without it; a program that calls
 * weir_stats_publish() should warn and continue.  Any user can create the
 * directory /dev/shm/weir-UID of another user, which then cannot be used.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_reactor;
struct weir_stats;

/* Types of a field; weir_stats_field.type. */
#define WEIR_STATS_COUNTER 1	/* Never decreases. */
#define WEIR_STATS_GAUGE 2	/* The present value. */
#define WEIR_STATS_HISTOGRAM 3	/* See weir_stats_bucket(). */

/* Units of a field; weir_stats_field.unit. */
#define WEIR_STATS_NUMBER 0
#define WEIR_STATS_NS 1		/* Nanoseconds. */
#define WEIR_STATS_BYTES 2

/* About a page; weir_stats_info(), weir_stats_list(). */
struct weir_stats_info {
	size_t size;		/* Set by the caller: the size of the struct. */
	int64_t pid;		/* In the writer's pid namespace. */
	uint64_t pid_ns;	/* That namespace; 0: not known. */
	uint32_t alive;		/* 1: the process uses the page. */
	uint32_t foreign;	/* 1: it is in another pid namespace. */
	uint64_t since_ns;	/* Creation of the page, CLOCK_REALTIME. */
	uint64_t read_ns;	/* Time of the read, CLOCK_MONOTONIC. */
	uint64_t left_out;	/* Sections that did not fit. */
	char program[64];
	char version[16];	/* Of the writer's library. */
	uint32_t offered;	/* 1: it is written while a reader wants it. */
};

/* One section of a page: a reactor, a pool, an engine. */
struct weir_stats_section {
	size_t size;		/* Set by the caller: the size of the struct. */
	const char *kind;	/* "reactor" */
	const char *label;	/* Its name, for people. */
	uint32_t id;		/* Unique on the page. */
	uint32_t parent;	/* The id of its parent section; 0: none. */
	uint64_t stamp_ns;	/* When it was written, CLOCK_MONOTONIC. */
	uint32_t n_fields;
	uint32_t torn;		/* 1: it changed during each attempt. */
};

/* One number of a section. */
struct weir_stats_field {
	size_t size;		/* Set by the caller: the size of the struct. */
	const char *name;	/* "sleep_ns" */
	const char *help;	/* A line for people. */
	uint32_t type;		/* WEIR_STATS_COUNTER and so on. */
	uint32_t unit;		/* WEIR_STATS_NS and so on. */
	uint64_t value;		/* Of a histogram: the number of values. */
};

/*
 * Create the page of this process, for reactors and shared pools that are
 * created from now on.
 *
 * @dir is its directory; NULL is the one of WEIR_STATS, or the default.  The
 * call creates the directory with mode 0700 if it does not exist, and removes
 * pages of ended processes from it.  A child of fork() has no page until it
 * publishes itself.
 *
 * Returns 0, also if the process has a page already, or
 *   -EINVAL  @dir does not begin with a slash
 *   -EACCES  the directory belongs to another user, or others may write to it
 *   -ENOSPC, -EFBIG  no space for the page; weir_why() says more
 *   -ENOMEM  no memory
 * or another errno of creating a file.
 *
 * Any thread.  May block, because it creates a file.
 */
WEIR_API int weir_stats_publish(const char *dir);

/*
 * Create the page of this process as weir_stats_publish() does, but write to it
 * only while a reader wants it: see weir_stats_want().
 *
 * For programs that run for years: their operator can look at any of them
 * without a restart, and what is not looked at costs nothing.
 *
 * Returns 0, also if the process has a page already, which stays as it is, or
 * an errno as weir_stats_publish() does.  That call makes an offered page one
 * that is always written.
 *
 * Any thread.  May block, because it creates a file.
 */
WEIR_API int weir_stats_offer(const char *dir);

/*
 * Remove the page of this process.
 *
 * The page is also removed when the process exits; if the process was killed,
 * the next reader or writer removes it.  If WEIR_STATS asks for a page, the
 * next reactor creates a new one.
 *
 * Returns 0, also if there is none, or
 *   -EBUSY  reactors or shared pools are on it
 *
 * Any thread.
 */
WEIR_API int weir_stats_withdraw(void);

/*
 * Write the sections of @r to the page now.
 *
 * A reactor writes them before it sleeps, and about once a millisecond while it
 * is busy.  This call also writes an offered page that no reader wants.  Use it
 * before a long computation in a callback, or when the program makes no more turns.
 *
 * Returns 0, or
 *   -ENOENT  @r is not on a page
 *
 * Call on @r's thread.  Never blocks, never allocates.  Re-creates
 * rte_metrics_update_values().
 */
WEIR_API int weir_stats_update(struct weir_reactor *r);

/*
 * Open the page of the process @pid and read it.
 *
 * The call removes the page of a process of the same user that has ended.
 *
 * Returns 0 with *@ret set, to be freed by weir_stats_close(), or
 *   -ESRCH       there is no such process, or it has ended
 *   -ENOENT      it has no page; weir_why() says what would change that
 *   -EACCES      the process or its page belongs to another user
 *   -EBADMSG     the file is no page, or a damaged one
 *   -EOPNOTSUPP  the page has a version that this library cannot read
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory
 *
 * Any thread; *@ret belongs to one thread at a time.
 */
WEIR_API int weir_stats_open(struct weir_stats **ret, int64_t pid);

/*
 * Close @s.  NULL is allowed.
 *
 * The owner's thread.
 */
WEIR_API void weir_stats_close(struct weir_stats *s);

/*
 * Read the page again.
 *
 * weir_stats_section() and the other calls return the contents of the last read
 * that has succeeded.  Strings that they returned before become invalid.  Each
 * section is consistent in itself and has its own time, .stamp_ns.
 *
 * Returns 0, or, with the previous contents unchanged,
 *   -EBADMSG  the page is damaged
 *   -ENOMEM   no memory
 *
 * The owner's thread.  Does not affect the writer.
 */
WEIR_API int weir_stats_read(struct weir_stats *s);

/*
 * Ask a process that offers its page to measure and write for the next @ns, at
 * most an hour.  Repeat the call to go on; a reader that ends leaves nothing on.
 *
 * Counters are complete, from the creation of their objects; those of the section
 * "operation" are of operations that began meanwhile.
 *
 * Returns 0, also if the page is always written, or
 *   -EINVAL  @ns is more than an hour
 *   -EACCES  the page cannot be written to here
 *   -EMFILE  no descriptor left
 *
 * The owner's thread.  A write to a file in memory.
 */
WEIR_API int weir_stats_want(struct weir_stats *s, uint64_t ns);

/*
 * Get the process, version and times of the page.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_info(const struct weir_stats *s,
			     struct weir_stats_info *ret);

/*
 * Get section @i, counted from 0 in no order.
 *
 * The caller sets .size of *@ret.  Its strings are valid until @s is read
 * again.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *   -ENOENT  there is no such section
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_section(const struct weir_stats *s, uint32_t i,
				struct weir_stats_section *ret);

/*
 * Get field @j of section @i.
 *
 * The caller sets .size of *@ret.  Its strings are valid until @s is read
 * again.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *   -ENOENT  there is no such field
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_field(const struct weir_stats *s, uint32_t i,
			      uint32_t j, struct weir_stats_field *ret);

/*
 * Get the value of the field @name of section @i.
 *
 * Returns 0 with *@ret set, or
 *   -ENOENT  there is no such field
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_value(const struct weir_stats *s, uint32_t i,
			      const char *name, uint64_t *ret);

/*
 * Get bucket @k of the histogram that is field @j of section @i.
 *
 * *@count is the number of values that were at least the end of the bucket
 * before, and less than *@end.  The last bucket has no end: UINT64_MAX.
 *
 * Buckets are log-linear: eight for each power of 2, so the width of a bucket
 * is at most an eighth of its values.
 *
 * Returns 0 with *@end and *@count set, or
 *   -ENOENT  there is no such bucket, or the field is no histogram
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_bucket(const struct weir_stats *s, uint32_t i,
			       uint32_t j, uint32_t k, uint64_t *end,
			       uint64_t *count);

/*
 * Get the quantile of a histogram that @parts_per_million of its values do not
 * exceed.
 *
 * 500000 is the median, 999000 the 99.9th percentile.  The result is the end of
 * a bucket.
 *
 * Returns 0 with *@ret set, 0 if the histogram is empty, or
 *   -ENOENT  the field is no histogram
 *
 * The owner's thread.
 */
WEIR_API int weir_stats_quantile(const struct weir_stats *s, uint32_t i,
				 uint32_t j, uint32_t parts_per_million,
				 uint64_t *ret);

/*
 * Call @fn(@info, @arg) for each process whose page the caller may read.
 *
 * It ends when @fn returns a value other than 0.  The call removes pages of
 * processes of the same user that have ended.
 *
 * Returns the result of the last call of @fn, 0 if there was none, or
 *   -ENOMEM, -EMFILE  no memory, or no descriptor left
 *
 * Any thread.
 */
WEIR_API int weir_stats_list(int (*fn)(const struct weir_stats_info *info,
				       void *arg),
			     void *arg);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_STATS_H */

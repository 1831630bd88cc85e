/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_STATS_PLACE_H
#define WEIR_REACTOR_STATS_PLACE_H

/*
 * Where pages are: PID-NS in a directory of their user's, where NS is the
 * number of the pid namespace, so that two containers which share a directory
 * do not share a name.
 *
 * A process that writes a page holds a lock on it (flock), which the kernel
 * takes away when the process ends or becomes another program: so a page that
 * is not locked is stale, whatever has become of its pid.
 */

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PLACE_MAX 256	/* A path of a directory. */
#define PLACES 5	/* Directories that a user's pages may be in. */
#define PAGE_NAME_MAX 48

/*
 * What WEIR_STATS says of a page: it is wanted; it is offered.  *@dir is its
 * directory, or NULL.
 */
enum asked { ASKED_NOTHING, ASKED_PAGE, ASKED_OFFER };
enum asked place_asked(const char **dir);

/*
 * The @i-th directory in which pages of @uid may be, best first.  Returns
 * false if there is no such.
 */
bool place_path(char path[PLACE_MAX], unsigned int i, uid_t uid);

/*
 * Open directory @path; @make: create it first.  Returns a descriptor, -EACCES
 * if it is not @uid's or others may write to it, or another errno.  Sets a
 * message that begins with @call.
 */
int place_open(const char *path, bool make, uid_t uid, const char *call);

void page_name(char name[PAGE_NAME_MAX], int64_t pid, uint64_t pid_ns);

/* The same backwards: false if @name is none. */
bool page_name_parse(const char *name, int64_t *pid, uint64_t *pid_ns);

/* Whether no process holds the page @fd. */
bool page_is_stale(int fd);

/* Returns the number of the pid namespace of @pid, or ours; 0: unknown. */
uint64_t own_pid_ns(void);

/* When @pid was started, in ticks since boot; 0: not known. */
uint64_t start_ticks(int64_t pid);

#endif /* WEIR_REACTOR_STATS_PLACE_H */

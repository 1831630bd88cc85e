/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_FSWATCH_H
#define WEIR_FSWATCH_H

/*
 * Changes of files and directories: inotify(7), with the two halves of a move
 * put together.
 *
 *	err = weir_fswatch_create(&watch, reactor, on_change, NULL);
 *	id = weir_fswatch_add(watch, "/etc/acme",
 *			      IN_CLOSE_WRITE | IN_MOVED_TO, config);
 *
 * A watch of a directory reports what happens to the files in it, but not below:
 * a program that watches a tree adds a watch for each directory that it finds,
 * or that is reported as created, and reads that directory after the add.
 *
 * The kernel keeps up to /proc/sys/fs/inotify/max_queued_events events, and
 * reports the loss of more (IN_Q_OVERFLOW): then the program must read the
 * directories again.  It reports no changes that other machines make to a shared file
 * system, nor writes to a mapping.
 *
 * Another library's fanotify(7) descriptor is watched by weir_watch_create().
 * Its events name files by handles, which take a privilege to open, so there is
 * no object for it here.
 *
 * A simulated world has no such changes.
 */

#include <sys/inotify.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_fswatch;
struct weir_reactor;

/* A change; valid until the callback returns. */
struct weir_fswatch_event {
	uint32_t mask;		/* IN_ bits of inotify(7): what happened. */
	int32_t id;		/* Of which watch; -1: IN_Q_OVERFLOW. */
	void *data;		/* That watch's. */
	const char *name;	/* In the directory; NULL: the thing itself. */

	/* Where it was before, if both places of a move are watched: .mask has
	 * IN_MOVED_FROM and IN_MOVED_TO.  Else NULL and 0. */
	const char *from_name;
	void *from_data;
	int32_t from_id;
	uint32_t reserved;
};

/* Called for each change, in the order of the kernel's queue. */
typedef void weir_fswatch_fn(struct weir_fswatch *watch,
			     const struct weir_fswatch_event *event, void *arg);

/*
 * Create a watch that calls @fn with @arg, for nothing yet.
 *
 * Of a move between watched directories it makes one event.  The kernel reports
 * a move to elsewhere by its first half alone, so the library waits 10 ms for the
 * second, or until anything else happens; a half that is late is reported as a
 * move from elsewhere.
 *
 * Returns 0 with *@ret set, to be freed by weir_fswatch_destroy(), or
 *   -EINVAL      @fn is NULL
 *   -EMFILE      no descriptor left, or the user has too many inotify instances
 *   -ENOMEM      no memory
 *   -EOPNOTSUPP  in a simulated world
 *   -ESHUTDOWN   @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates uv_fs_event_init() and ev_stat_init().
 */
WEIR_API int weir_fswatch_create(struct weir_fswatch **ret,
				 struct weir_reactor *r, weir_fswatch_fn *fn,
				 void *arg);

/*
 * Report what of @mask happens to @path from now on, with @data.
 *
 * @mask has bits of inotify(7), such as IN_CREATE, IN_CLOSE_WRITE, IN_MOVE or
 * IN_ONLYDIR.  IN_IGNORED is the last event of a watch that the kernel has ended,
 * because the file is gone or its file system was unmounted: its id is free then.
 *
 * Blocks while the kernel looks up @path.
 *
 * Returns an id that is greater than 0, or
 *   -EINVAL   @path is NULL, or @mask has no event
 *   -EEXIST   this file is being watched already, perhaps by another name
 *   -ENOENT   there is no such file
 *   -EACCES   it may not be read
 *   -ENOTDIR  with IN_ONLYDIR: it is no directory
 *   -ENOSPC   the user has /proc/sys/fs/inotify/max_user_watches
 *   -ENOMEM   no memory
 *
 * Call on the watch's reactor.
 *
 * Re-creates uv_fs_event_start() and inotify_add_watch(2).
 */
WEIR_API int weir_fswatch_add(struct weir_fswatch *watch, const char *path,
			      uint32_t mask, void *data);

/*
 * Remove @id of weir_fswatch_add(): no event of it is reported any more.
 *
 * Returns 0, or
 *   -EINVAL  @watch has no such id
 *
 * Call on the watch's reactor, from any callback.  Never blocks.
 *
 * Re-creates uv_fs_event_stop() and inotify_rm_watch(2).
 */
WEIR_API int weir_fswatch_remove(struct weir_fswatch *watch, int id);

/*
 * Free @watch, with all that was added.  NULL is allowed.
 *
 * Call on the watch's reactor, from any callback.
 */
WEIR_API void weir_fswatch_destroy(struct weir_fswatch *watch);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_FSWATCH_H */

/* SPDX-License-Identifier: CC0-1.0 */
#ifndef WEIR_CP_H
#define WEIR_CP_H

/*
 * weir-cp: copy a file or a tree.  README.md says how it is built.
 *
 * Two kinds of threads run this code: the reactor's, and the reactor's
 * workers, by weir_work().  A worker touches only what it was given (a file, a
 * directory, a batch of the walk) and what is marked "any thread".
 */

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/job.h>
#include <weir/op.h>
#include <weir/pool.h>
#include <weir/reactor.h>

/* Bounds.  What is opened, held and queued at any time follows from them. */
#define FILES_MAX 64		/* Files under way. */
#define DIRS_OPEN_MAX 64	/* Directories kept open and not in use. */
#define BATCH_MAX 256		/* Names that the walk finds in one go. */
#define EXTENTS_MAX 32		/* Of one file, known at a time. */
#define LINKS_MAX 65536		/* Files with several names, remembered. */

/* Up to this size the kernel copies a file in one call, on a worker. */
#define SMALL_MAX (1u << 20)
/* What the kernel copies at a time of others: progress and cancel between. */
#define SLICE (16u << 20)

enum cp_path { PATH_AUTO, PATH_PIPELINE, PATH_KERNEL };

struct cp_opts {
	const char *source, *dest;
	enum cp_path path;
	uint32_t backend;	/* WEIR_BACKEND_ */
	uint32_t depth;
	size_t block;
	bool recursive, no_target_dir;
	bool direct, verify, checksum, fsync;
	bool progress, quiet, verbose, json;
};

struct cp;

/*
 * A directory of the tree: its place in the source and in the destination.
 *
 * The reactor's thread counts in .refs who needs it to be unfinished: the walk
 * while it is inside, files under way, subdirectories.  With the last one gone
 * it gets its mode and times, and is freed when no .holds are left.
 *
 * Its descriptors are a cache, under the lock of struct dirs: closed when too
 * many are open, opened again by way of the parents' when needed.
 */
struct dir {
	struct weir_op op;
	struct cp *cp;
	struct dir *parent;	/* NULL: the one that SOURCE and DEST are in. */
	struct dir *down;	/* While a way down to a closed one is made. */
	struct dir *prev, *next; /* In the list of open ones without users. */
	int src, dst;		/* -1: closed. */
	uint32_t users;
	uint32_t refs;
	uint32_t holds;		/* Who only needs its name and place. */
	off_t pos;		/* Where the walk goes on; the walk's. */
	struct stat st;
	int err;		/* Of giving it its mode and times. */
	char *name;		/* Lies behind this. */
	char *dst_name;		/* The same as .name but at the top. */
};

struct dirs {
	pthread_mutex_t lock;
	struct dir idle;	/* Head of the list, oldest first. */
	uint32_t n_idle;
};

/* What the walk has found, for the reactor's thread. */
enum found_kind { FOUND_FILE, FOUND_LINK, FOUND_ENTER, FOUND_LEAVE,
		  FOUND_ERROR };

struct found {
	enum found_kind kind;
	struct dir *dir;
	const char *name;	/* In .names, or NULL. */
	const char *dst_name;
	int err;
	const char *what;
};

struct batch {
	struct found found[BATCH_MAX];
	uint32_t n, taken;
	size_t names_used;
	char names[BATCH_MAX * (NAME_MAX + 1)];
};

struct walk {
	struct cp *cp;
	struct weir_op op;
	struct dir *cur;	/* Where it is; NULL: at the end. */
	struct batch batch[2];
	struct batch *filling, *taking;
	bool busy, ended;
	int64_t len, used;	/* Of .dents. */
	_Alignas(8) char dents[8192];
};

/* What happens to a file, in order; see README.md. */
enum file_state { FILE_FREE, FILE_OPENING, FILE_SCANNING, FILE_MOVING,
		  FILE_SYNCING, FILE_FINISHING };

/* Data of a file to be moved: a range that is no hole. */
struct extent {
	uint64_t off, end;
};

struct link_entry;

struct file {
	struct cp *cp;
	struct weir_op op;
	enum file_state state;
	struct file *next;	/* In the free list, or a lane's queue. */
	bool queued;

	struct dir *dir;
	bool symlink, follow;
	char name[NAME_MAX + 1], dst_name[NAME_MAX + 1];
	char temp[48];		/* Of the new file; "": it has no name yet. */
	struct stat st;		/* Of the source, before. */
	struct link_entry *link; /* It is the first name of several. */

	int src, dst;
	int src_buffered, dst_buffered;	/* With --direct; else -1. */
	bool set_owner, set_mode;
	bool done;		/* Complete, and under its name. */
	bool waiting;		/* For another name of the same file. */
	bool hard;		/* It became a link to another copy. */
	bool fallback;		/* To be copied by the pipeline, after all. */
	enum cp_path path;	/* Never PATH_AUTO once it is open. */
	struct weir_domain *src_domain, *dst_domain;

	/* The pass over its data: copying, then perhaps comparing. */
	bool comparing;
	struct extent ext[EXTENTS_MAX];
	uint32_t n_ext, cur_ext;
	uint64_t scanned;	/* The extents up to here are known. */
	uint64_t written;	/* End of what has been written. */
	uint32_t in_flight;
	uint32_t crc;
	uint64_t data;		/* Bytes copied. */
	uint64_t counted;	/* Of it, those in the progress already. */

	int err;		/* The first; and what it happened to. */
	const char *what;
};

/* A pipeline that files pass through; lane.c. */
struct lane {
	struct cp *cp;
	struct weir_op op;
	struct weir_pipeline *pipeline;
	struct file *first, **last;	/* Files with blocks to be started. */
	bool open;			/* Under way. */
};

enum { LANE_COPY, LANE_KERNEL, LANE_COMPARE, LANES };

struct cp {
	struct cp_opts opts;
	struct weir_reactor *reactor;
	struct weir_dma *dma;
	struct weir_pool *pool;
	struct lane lanes[LANES];
	struct dirs dirs;
	struct dir *top;
	struct walk *walk;
	struct file *files, *free_files;
	struct link_table *links;
	struct weir_signal *signals[3];
	uint32_t busy;		/* Files, directories and walk under way. */
	uint32_t lanes_open;
	uid_t uid;		/* Whose the new files will be. */
	gid_t gid;
	bool root;
	bool ending;
	int signo;		/* That it was stopped by. */
	uint32_t temp_seq;
	uint64_t started_ns;

	atomic_bool stop;	/* Any thread: begin nothing new. */
	atomic_bool no_range;	/* The kernel cannot copy between the two. */
	atomic_bool no_tmpfile;	/* No O_TMPFILE in the destination. */
	atomic_uint temps;	/* Numbers for temporary names. */

	/* What was done. */
	uint64_t n_files, n_links, n_hard, n_dirs, n_errors;
	uint64_t n_kernel, n_pipeline;
	uint64_t bytes;		/* Moved. */
	uint64_t size;		/* Of files, holes included. */

	/* progress.c */
	struct weir_timer *timer;
	struct weir_op count_op;
	atomic_ullong total;
	atomic_bool counted;
	bool counting, tty, shown;
	uint64_t shown_bytes, shown_ns;
	double rate;
};

/* options.c */
int options_parse(struct cp_opts *o, int argc, char **argv);

/* target.c: SOURCE and DEST into a walk that is about to begin. */
int target_resolve(struct cp *cp);

/* dir.c */
void dirs_init(struct dirs *dirs);
void dirs_fini(struct dirs *dirs);
struct dir *dir_new(struct cp *cp, struct dir *parent, const char *name,
		    const char *dst_name);
int dir_open(struct dir *dir, int *src, int *dst);	/* Any thread. */
void dir_close(struct dir *dir);			/* Any thread. */
void dir_adopt(struct dir *dir, int src, int dst);	/* Any thread. */
void dir_ref(struct dir *dir);
void dir_unref(struct dir *dir);
void dir_hold(struct dir *dir);
void dir_unhold(struct dir *dir);

/* walk.c */
int walk_enter(struct walk *w, struct dir *parent, const char *name,
	       const char *dst_name);
void walk_add(struct walk *w, enum found_kind kind, struct dir *dir,
	      const char *name, const char *dst_name);
void walk_fail(struct walk *w, struct dir *dir, const char *name,
	       const char *what, int err);
int walk_create(struct cp *cp);
void walk_pump(struct cp *cp);

/* file.c */
int files_create(struct cp *cp);
void file_begin(struct cp *cp, const struct found *found);
void file_fail(struct file *f, const char *what, int err);
void file_moved(struct file *f);
void files_stop(struct cp *cp);
void file_again(struct file *f);
bool file_may_fall_back(const struct file *f, int err);	/* Any thread. */

/* file-open.c, file-finish.c: on a worker. */
int64_t file_open_work(void *arg);
int64_t file_link_work(void *arg);
int64_t file_sync_work(void *arg);
int64_t file_finish_work(void *arg);
int file_complete(struct file *f, int src_dir, int dst_dir);
void file_drop(struct file *f, int dst_dir);
int file_wrong(struct file *f, const char *what, int err);
mode_t kept_mode(const struct cp *cp, const struct stat *src, uid_t uid,
		 gid_t gid);
int commit_name(struct file *f, int dst_dir, const char *temp);
void make_temp_name(struct file *f);

/* extent.c: on a worker. */
int64_t file_scan_work(void *arg);
bool file_is_sparse(const struct file *f);
void file_begin_pass(struct file *f);
int file_scan(struct file *f);

/* links.c: hard links. */
int links_create(struct cp *cp);
void links_destroy(struct cp *cp);
void links_see(struct file *f);		/* Any thread. */
void links_wait(struct file *f);
void links_done(struct file *f);
bool links_made(struct file *f, int dst_dir);	/* Any thread. */

/* lane.c */
int lane_add(struct cp *cp, uint32_t which, struct file *f);
void lanes_end(struct cp *cp);
void lanes_cancel(struct cp *cp);
void lanes_destroy(struct cp *cp);

/* main.c */
void cp_busy(struct cp *cp);
void cp_idle(struct cp *cp);
void cp_stop(struct cp *cp);
void cp_check_end(struct cp *cp);

/* output.c */
char *path_of(const struct dir *dir, const char *name);
char *dst_path_of(const struct dir *dir, const char *name);
void say_error(struct cp *cp, const char *what, const char *path, int err);
void say_usage_error(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));
void say_file(struct cp *cp, const struct file *f);
void say_summary(struct cp *cp);
void json_string(FILE *out, const char *s);

/* progress.c */
int progress_start(struct cp *cp);
void progress_stop(struct cp *cp);
void progress_clear(struct cp *cp);
void print_size(char *buf, size_t len, double bytes);

#endif /* WEIR_CP_H */

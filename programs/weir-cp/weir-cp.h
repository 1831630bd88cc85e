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

#include <weir/accel/codec.h>
#include <weir/accel/xts.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/job.h>
#include <weir/op.h>
#include <weir/pool.h>
#include <weir/reactor.h>

/* Bounds.  What is opened, held and queued at any time follows from them; the
 * first two are less where the limit of descriptors is low. */
#define FILES_MAX 64		/* Files in flight. */
#define DIRS_OPEN_MAX 64	/* Directories kept open and not in use. */
#define BATCH_MAX 256		/* Names that the walk finds in one go. */
#define EXTENTS_MAX 32		/* Of one file, known at a time. */
#define LINKS_MAX 65536		/* Files with several names, remembered. */

/* Up to this size the kernel copies a file in one call, on a worker. */
#define SMALL_MAX (1u << 20)
/* What the kernel copies at a time of others: progress and cancel between. */
#define SLICE (16u << 20)

enum cp_path { PATH_AUTO, PATH_PIPELINE, PATH_KERNEL };

/* What becomes of the bytes; BACK: of either format. */
enum convert { CONVERT_NOT, CONVERT_GZIP, CONVERT_ZSTD, CONVERT_BACK,
	       CONVERT_ENCRYPT, CONVERT_DECRYPT };

/* Which symbolic links stand for what they lead to. */
enum cp_follow { FOLLOW_DEFAULT, FOLLOW_NEVER, FOLLOW_SOURCES, FOLLOW_ALL };

/* What a copy keeps of its source beside the data: cp's --preserve. */
enum { KEEP_MODE = 1, KEEP_OWNER = 2, KEEP_TIMES = 4, KEEP_LINKS = 8,
       KEEP_XATTR = 16 };

struct cp_opts {
	char **sources;
	int n_sources;
	const char *dest;
	enum cp_path path;
	enum cp_follow follow;
	unsigned keep;		/* KEEP_ */
	bool xattr_required;	/* One that is refused is an error. */
	uint32_t backend;	/* WEIR_BACKEND_ */
	uint32_t depth;
	enum convert convert;
	int level;		/* Of compression; 0: its default. */
	uint32_t sector;	/* Of encryption; 0: the default. */
	const char *key;	/* The name of its file. */
	uint32_t retry;		/* Times, of a source that changes. */
	size_t block;
	bool recursive, no_target_dir, target_dir;
	bool no_clobber, update;
	bool fail_if_changed;
	bool direct, verify, checksum, fsync;
	bool progress, quiet, verbose, json;
};

struct cp;
struct weir_slot;

/* Attributes that a copy was to keep and does not have. */
struct lost {
	char names[160];	/* "": none. */
	int err;		/* Of the first. */
	bool bad;		/* An error, not a warning. */
};

/*
 * A directory of the tree: its place in the source and in the destination.
 *
 * The reactor's thread counts in .refs what keeps it unfinished: the walk
 * while it is inside, files in flight, subdirectories.  With the last one gone
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
	uint32_t holds;		/* Users that only need its name and place. */
	off_t pos;		/* Where the walk goes on; the walk's. */
	struct stat st;		/* Of the source. */
	dev_t dst_dev;
	ino_t dst_ino;
	bool follow;		/* The source may be a symbolic link. */
	bool into_link;		/* What is made in it may be one to a
				 * directory, as the user has said. */
	bool made;		/* The destination was not there before. */
	struct lost lost;
	char *name;		/* Lies behind this. */
	char *dst_name;		/* The same as .name but at the top. */
};

struct dirs {
	pthread_mutex_t lock;
	struct dir idle;	/* Head of the list, oldest first. */
	uint32_t n_idle, idle_max;
};

/* What the walk has found, for the reactor's thread. */
enum found_kind { FOUND_FILE, FOUND_LINK, FOUND_NODE, FOUND_ENTER,
		  FOUND_LEAVE, FOUND_ERROR, FOUND_WARNING };

struct found {
	enum found_kind kind;
	struct dir *dir;	/* NULL: .name is a path of the user's. */
	const char *name;	/* In .names, or NULL. */
	const char *dst_name;
	bool follow;
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
	int n_begun;		/* Of the sources. */
	bool *again;		/* Sources whose copies get a name that an
				 * earlier one's has; NULL: none. */
	bool waits;		/* For all files: the next source is such. */
	bool waited;
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
	struct file *next; /* In the free list, or a flow's queue. */
	bool queued;

	struct dir *dir;
	enum found_kind kind;
	bool follow;
	char name[NAME_MAX + 1], dst_name[NAME_MAX + 1];
	char temp[48];		/* Of the new file; "": it has no name yet. */
	struct stat st;		/* Of the source, before; but .st_size is that
				 * of the copy, which is the same unless the
				 * source has become shorter. */
	off_t size_before;
	struct link_entry *link; /* It is the first name of several. */

	int src, dst;
	int src_buffered, dst_buffered;	/* With --direct; else -1. */
	bool done;		/* Complete, and under its name. */
	bool skipped;		/* Done, for the name is there (-n, -u). */
	bool waiting;		/* For another name of the same file. */
	bool hard;		/* It became a link to another copy. */
	bool fallback;		/* To be copied by the pipeline, after all. */
	bool ended_early;	/* To be read to its end, wherever that is. */
	bool again;		/* It has changed: to be begun again. */
	enum { SAME, GREW, CHANGED } change; /* Of the source meanwhile. */
	uint32_t tries;
	struct lost lost;
	enum cp_path path;	/* Never PATH_AUTO once it is open. */
	struct weir_domain *src_domain, *dst_domain;

	/* Of a copy that is converted; convert.c. */
	struct weir_codec *codec;
	struct unit *turns;	/* Blocks that wait for their turn, */
	uint64_t turn;		/* which the one at this offset has. */

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

/* What is in a slot of a flow: a block of a file. */
struct unit {
	struct weir_job first, second, third;
	struct file *file;
	uint64_t off, len;

	/* convert.c */
	struct weir_op *op;	/* Of the step that converts. */
	struct weir_op part;	/* That writes a part of the output. */
	struct unit *next;	/* In .turns of the file. */
	char *in, *out;
	uint64_t done;		/* Of .len: converted. */
	uint64_t n_out, out_off;
	bool in_job, in_part, write_failed;
	struct weir_codec_args codec;
	struct weir_xts_args xts;
};

/* A pipeline that files pass through; flow.c. */
struct flow {
	struct cp *cp;
	struct weir_op op;
	struct weir_pipeline *pipeline;
	struct file *first, **last;	/* Files with blocks to be started. */
	bool open;			/* In flight. */
};

enum { FLOW_COPY, FLOW_KERNEL, FLOW_COMPARE, FLOW_CONVERT, FLOWS };

struct cp {
	struct cp_opts opts;
	struct weir_reactor *reactor;
	struct weir_dma *dma;
	struct weir_pool *pool;
	struct weir_xts *xts;
	struct flow flows[FLOWS];
	struct dirs dirs;
	struct walk *walk;
	struct file *files, *free_files;
	uint32_t files_max, n_under_way;
	uint32_t n_finishing;		/* Directories that get their times. */
	bool into;		/* The destination is a directory, to copy
				 * into. */
	mode_t umask;
	struct link_table *links;
	struct weir_signal *signals[3];
	uint32_t busy;		/* Files, directories and walk in flight. */
	uint32_t flows_open;
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
	uint64_t n_files, n_links, n_nodes, n_hard, n_dirs, n_skipped;
	uint64_t n_errors, n_warnings;
	uint64_t n_kernel, n_pipeline;
	uint64_t bytes;		/* Moved. */
	uint64_t size;		/* Of files, holes included. */

	/* progress.c */
	struct weir_timer *timer;
	struct weir_op count_op;
	atomic_ullong total, total_files;
	atomic_bool counted;
	bool counting, tty, shown;
	uint64_t shown_bytes, shown_ns;
	double rate;
};

/* options.c */
int options_parse(struct cp_opts *o, int argc, char **argv);

/* target.c: what the sources and the destination name. */
int target_check(struct cp *cp);
void target_next(struct walk *w);	/* On a worker. */

/* dir.c */
void dirs_init(struct dirs *dirs);
void dirs_fini(struct dirs *dirs);
struct dir *dir_new(struct cp *cp, struct dir *parent, const char *name,
		    const char *dst_name);
int open_dir(const char *path);
int dir_open(struct dir *dir, int *src, int *dst);	/* Any thread. */
void dir_close(struct dir *dir);			/* Any thread. */
void dir_adopt(struct dir *dir, int src, int dst);	/* Any thread. */
void dir_ref(struct dir *dir);
void dir_unref(struct dir *dir);
void dir_hold(struct dir *dir);
void dir_unhold(struct dir *dir);

/* walk.c */
int walk_enter(struct walk *w, struct dir *parent, const char *name,
	       const char *dst_name, bool follow);
struct found *walk_add(struct walk *w, enum found_kind kind, struct dir *dir,
		       const char *name, const char *dst_name);
void walk_fail(struct walk *w, struct dir *dir, const char *name,
	       const char *what, int err);
const char *kind_of(mode_t mode, enum found_kind *kind);
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
bool can_fall_back(int err);				/* Any thread. */

/* file-open.c, file-finish.c, node.c, stream.c: on a worker. */
int64_t file_open_work(void *arg);
int64_t file_node_work(void *arg);
int64_t file_sync_work(void *arg);
int64_t file_stream_work(void *arg);
int64_t file_finish_work(void *arg);
int file_stream(struct file *f);
int file_complete(struct file *f, int src_dir, int dst_dir);
void file_drop(struct file *f, int dst_dir);
int file_wrong(struct file *f, const char *what, int err);
bool file_skip(struct file *f, int dst_dir);
int commit_name(struct file *f, int dst_dir, const char *temp);
void make_temp_name(struct file *f);

/* attrs.c: owner, mode, times, ACLs and extended attributes; any thread. */
mode_t rights_of(int src, const struct stat *st);
mode_t mode_until_done(const struct cp *cp, const struct stat *st, mode_t mode);
void attrs_copy(const struct cp *cp, const struct stat *st, int src, int dst,
		struct lost *lost);

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

/* convert.c */
int convert_setup(struct cp *cp);
int convert_open(struct file *f);	/* On a worker. */
void convert_drop(struct file *f);	/* On a worker. */
size_t convert_buf_size(const struct cp *cp);
int convert_build(struct weir_slot *slot, void *arg);
void convert_set(struct weir_slot *slot, struct unit *u);
const char *convert_failed(struct weir_slot *slot, const struct unit *u,
			   int err);
void convert_done(struct unit *u);

/* flow.c */
int flow_add(struct cp *cp, uint32_t which, struct file *f);
void flows_end(struct cp *cp);
void flows_cancel(struct cp *cp);
void flows_destroy(struct cp *cp);

/* main.c */
void cp_busy(struct cp *cp);
void cp_idle(struct cp *cp);
void cp_stop(struct cp *cp);
void cp_check_end(struct cp *cp);

/* output.c */
char *path_of(const struct dir *dir, const char *name);
char *dst_path_of(const struct dir *dir, const char *name);
void say_error(struct cp *cp, const char *what, const char *path, int err);
void say_warning(struct cp *cp, const char *what, const char *path);
void say_lost(struct cp *cp, const struct lost *lost, const char *path);
void say_usage_error(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));
void say_file(struct cp *cp, const struct file *f);
void say_summary(struct cp *cp);
void print_name(FILE *out, const char *s);

/* progress.c */
int progress_start(struct cp *cp);
void progress_stop(struct cp *cp);
void progress_clear(struct cp *cp);
void print_size(char *buf, size_t len, double bytes);

#endif /* WEIR_CP_H */

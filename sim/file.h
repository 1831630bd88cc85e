/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_FILE_H
#define SIM_FILE_H

/*
 * Simulated files inside.
 *
 *	file.c        descriptors: what their calls do
 *	file-path.c   what names a path
 *	file-name.c   names, and which of them are durable
 *	file-data.c   what is in a file: chunks; which of them are durable
 *	file-world.c  all files; power cuts; copies; what mem/ asks
 *	file-user.c   what the user calls
 *
 * A file is an inode, which lives as long as a name, an unfinished change of
 * names or a descriptor leads to it.
 */

#include "sim/world.h"

#define SECTOR 512u
#define CHUNK 4096u
#define SECTORS (CHUNK / SECTOR)
#define DIRECT_MEM 4u		/* Alignment of memory for O_DIRECT. */

/* Bytes of a file: ranges in order, which do not touch. */
struct ranges {
	struct range {
		uint64_t from, to;
	} *at;
	uint32_t n, max;
};

/* Put [@from, @to) into @set, or take it out.  0 or -ENOMEM. */
int ranges_add(struct ranges *set, uint64_t from, uint64_t to);
int ranges_del(struct ranges *set, uint64_t from, uint64_t to);

/* How many bytes of [@from, @to) are in @set. */
uint64_t ranges_in(const struct ranges *set, uint64_t from, uint64_t to);

/* The first byte of [@from, @to) that is in @set; @to: none is. */
uint64_t ranges_first(const struct ranges *set, uint64_t from, uint64_t to);

/* Up to where [@from, @to) has no more than @capacity bytes that are not in. */
uint64_t ranges_capacity(const struct ranges *set, uint64_t from, uint64_t to,
			 uint64_t capacity);

/*
 * A part of a file, with what is not durable of it.  Of each sector there is
 * what a reader sees; what the medium has, if that is another; and, if it was
 * written more than once, one of the states in between, drawn so that each is
 * as likely.
 */
struct chunk {
	uint64_t index;
	struct chunk *dirty_next;
	bool listed;		/* In the inode's list of dirty ones. */
	uint8_t dirty;		/* Sectors that a sync would write, */
	uint8_t lost;		/* and those it would not, for one has failed. */
	uint32_t writes[SECTORS]; /* Since the last sync. */
	unsigned char *old;	/* Of these, the medium; NULL: zeros. */
	unsigned char *mid;
	unsigned char now[CHUNK];
};

enum inode_kind {
	INODE_FILE,
	INODE_DIR,
	INODE_DISK,
};

struct inode {
	struct sim_files *files;
	struct inode *next, **pprev;	/* All, in the order of creation. */
	enum inode_kind kind;
	uint32_t refs;
	uint32_t links;		/* Names that lead to it now. */
	uint32_t number;
	uint32_t mode;
	uint32_t align;		/* For O_DIRECT. */
	uint32_t errors;	/* Syncs that have failed. */
	const struct name *name; /* The last that led to it. */
	uint64_t size, size_old, size_mid;
	uint32_t resized;	/* Times, since the last sync. */
	uint64_t changed_ns;
	struct chunk **chunks;	/* In order. */
	uint32_t n_chunks, max_chunks;
	struct chunk *dirty, **dirty_last;
	bool zeroed;		/* There may be chunks of zeros alone. */
	struct ranges held;	/* What takes space. */
	struct ranges bad[2];	/* For reads, for writes. */
};

struct name {
	struct inode *now, *old;	/* Leads there; and what is durable. */
	char path[];
};

/* Something done to names, which are not durable yet: all of it or nothing. */
struct change {
	struct name *name[2];
	struct inode *to[2];
	uint32_t n;
	bool marked;
	struct change *next;
};

struct budget {
	struct budget *next;
	uint64_t bytes;
	char prefix[];
};

/* A power cut, and which operations had begun before it. */
struct cut {
	struct cut *next;
	uint32_t serial;
	char prefix[];
};

struct sim_files {
	struct sim_part part;
	struct weir_sim *sim;
	struct sim_rng rng;
	struct name **names;		/* In order of their bytes. */
	uint32_t n_names, max_names;
	struct change *changes, **changes_last;
	struct inode *inodes, **inodes_last;
	uint32_t n_inodes;		/* Ever. */
	struct budget *budgets;
	struct cut *cuts;		/* The last first. */
};

/* A descriptor of a file, a disk, or a directory. */
struct file {
	struct sim_fd f;	/* .flags: those of open() */
	struct sim_files *files;
	struct inode *inode;	/* NULL: a directory that was not made. */
	uint64_t pos;
	uint32_t errors;	/* Failed syncs that it has heard of. */
	char dir[];		/* A directory's name. */
};

extern const struct sim_fd_class file_class;

/* @f as a file, or NULL if it is something else. */
struct file *file_of(struct sim_fd *f);

/* The files of @sim, made when first asked for; NULL: no memory. */
struct sim_files *files_of(struct weir_sim *sim);

/* Inodes: file-data.c */

/* A new one, of one reference. */
struct inode *inode_make(struct sim_files *files, enum inode_kind kind,
			 uint32_t mode);
void inode_get(struct inode *i);
void inode_put(struct inode *i);

/* The chunk with @index, or NULL; the place of it, or of the next one. */
struct chunk *inode_chunk(const struct inode *i, uint64_t index);

/* Make sure that there is that chunk.  NULL: no memory. */
struct chunk *inode_need(struct inode *i, uint64_t index);

/* @len bytes at @off, which the size allows, to the memory of @step. */
void inode_read(const struct inode *i, const struct io_step *step,
		uint64_t len, uint64_t off);

/* And from there; the bytes written, or -ENOMEM.  The size stays. */
int64_t inode_write(struct inode *i, const struct io_step *step, uint64_t len,
		    uint64_t off);

/* Have [@from, @to) be zeros: 0 or -ENOMEM. */
int inode_zero(struct inode *i, uint64_t from, uint64_t to);

/* What is beyond a smaller @size is a hole after this.  0 or -ENOMEM. */
int inode_resize(struct inode *i, uint64_t size);

/* file-data.c */

/* Make [@from, @to) and the size durable: 0, or -EIO for bad sectors. */
int inode_sync(struct inode *i, uint64_t from, uint64_t to);

/* The same, and no sector is bad. */
void inode_sync_all(struct inode *i, uint64_t from, uint64_t to);

/* A sync has failed: by chance, it was durable or never will be. */
void inode_sync_failed(struct inode *i);

/* What is left of it after a power cut. */
void inode_cut(struct inode *i);

/* What the medium has of @c for certain. */
void chunk_durable(const struct chunk *c, unsigned char *ret);

/* Names: file-name.c */

#define PATH_BYTES 4096

/* Up to where a write of [@from, @to) has space: @from, if there is none. */
uint64_t inode_capacity(const struct inode *i, uint64_t from, uint64_t to);

/* Whether @path begins with @prefix. */
bool begins_with(const char *path, const char *prefix);

struct name *name_find(struct sim_files *files, const char *path);

/* The same, made if it is not there.  NULL: no memory. */
struct name *name_make(struct sim_files *files, const char *path);

/* Where @path is in the order, or would be. */
uint32_t name_place(const struct sim_files *files, const char *path);

/* What @path leads to, or NULL. */
struct inode *name_inode(struct sim_files *files, const char *path);

/* Whether there is a directory @path. */
bool dir_exists(struct sim_files *files, const char *path);
bool dir_is_empty(struct sim_files *files, const char *path);

/* Whether a file is where @path would need a directory. */
bool has_file_above(struct sim_files *files, const char *path);

/* Have @a lead to @to_a, and @b, if it is not NULL, to @to_b: 0 or -ENOMEM. */
int names_change(struct sim_files *files, struct name *a, struct inode *to_a,
		 struct name *b, struct inode *to_b);

/* It leads to @i, durably. */
void name_settle(struct name *name, struct inode *i);

/* The names in the directory @dir are durable. */
void names_sync(struct sim_files *files, const char *dir);

/* Of the names that begin with @prefix, the power is cut. */
void names_cut(struct sim_files *files, const char *prefix);

void names_fini(struct sim_files *files);

/* file-path.c */

/*
 * Write the name of @path, seen from @dirfd, to @ret, which has PATH_BYTES: no
 * slash at either end, and none twice.  0 or a negative errno.
 */
int path_resolve(struct weir_sim *sim, int dirfd, const char *path, char *ret);

/* A descriptor of @i, which is no directory; O_TRUNC is done. */
int inode_open(struct inode *i, int flags);

/* Open what has that name: a descriptor, or a negative errno. */
int path_open(struct sim_files *files, const char *path, int flags,
	      mode_t mode);

#endif /* SIM_FILE_H */

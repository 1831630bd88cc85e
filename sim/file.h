/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_FILE_H
#define SIM_FILE_H

/*
 * The internals of simulated files.
 *
 *	file.c        calls on descriptors
 *	file-path.c   calls with a path
 *	file-name.c   names, and which of them are durable
 *	file-data.c   data: chunks, and which of them are durable
 *	file-world.c  all files; power cuts; copies; queries of mem/
 *	file-user.c   calls of tests
 *
 * A file is an inode, which exists as long as a name, an unfinished change of
 * names or a descriptor refers to it.
 */

#include <sys/stat.h>

#include "sim/world.h"

#define SECTOR 512u
#define CHUNK 4096u
#define SECTORS (CHUNK / SECTOR)
#define DIRECT_MEM 4u		/* Alignment of memory for O_DIRECT. */

/* Bytes of a file: sorted ranges that do not touch. */
struct ranges {
	struct range {
		uint64_t from, to;
	} *at;
	uint32_t n, max;
};

/* Add [@from, @to) to @set, or remove it.  0 or -ENOMEM. */
int ranges_add(struct ranges *set, uint64_t from, uint64_t to);
int ranges_del(struct ranges *set, uint64_t from, uint64_t to);

/* The number of bytes of [@from, @to) in @set. */
uint64_t ranges_in(const struct ranges *set, uint64_t from, uint64_t to);

/* The first byte of [@from, @to) in @set; @to: there is none. */
uint64_t ranges_first(const struct ranges *set, uint64_t from, uint64_t to);

/* The end of the longest part of [@from, @to) with at most @capacity bytes
 * outside @set. */
uint64_t ranges_capacity(const struct ranges *set, uint64_t from, uint64_t to,
			 uint64_t capacity);

/*
 * A part of a file, with its data that are not durable.  Each sector has the
 * data that readers see; those of the medium, if they differ; and, if it was
 * written more than once, an intermediate state, drawn so that each is equally
 * likely.
 */
struct chunk {
	uint64_t index;
	struct chunk *dirty_next;
	bool listed;		/* In the inode's list of dirty chunks. */
	uint8_t dirty;		/* Sectors that a sync would write. */
	/* Sectors that no sync will write, because one failed. */
	uint8_t lost;
	uint32_t writes[SECTORS]; /* Since the last sync. */
	unsigned char *old;	/* The medium's data of these; NULL: zeros. */
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
	const struct name *name; /* The last name that led to it. */
	uint64_t size, size_old, size_mid;
	uint32_t resized;	/* Times, since the last sync. */
	uint64_t changed_ns;
	struct chunk **chunks;	/* In order. */
	uint32_t n_chunks, max_chunks;
	struct chunk *dirty, **dirty_last;
	/* There may be chunks that contain only zeros. */
	bool zeroed;
	struct ranges held;	/* Bytes that take space. */
	struct ranges bad[2];	/* For reads, for writes. */
};

struct name {
	/* The present target, and the durable one. */
	struct inode *now, *old;
	char path[];
};

/* A change of names that is not durable yet.  It becomes so as a whole or not
 * at all. */
struct change {
	struct change *next;
	bool marked;
	uint32_t n;
	struct leads {
		struct name *name;
		struct inode *to;
	} at[];
};

struct budget {
	struct budget *next;
	uint64_t bytes;
	char prefix[];
};

/* A power cut, and the serial number of the last operation before it. */
struct cut {
	struct cut *next;
	uint32_t serial;
	char prefix[];
};

struct sim_files {
	struct sim_part part;
	struct weir_sim *sim;
	struct sim_rng rng;
	struct name **names;		/* Sorted by their bytes. */
	uint32_t n_names, max_names;
	struct change *changes, **changes_last;
	struct inode *inodes, **inodes_last;
	uint32_t n_inodes;		/* Created so far. */
	struct budget *budgets;
	struct cut *cuts;		/* The latest first. */
};

/* A descriptor of a file, a disk, or a directory. */
struct file {
	struct sim_fd f;	/* .flags: those of open() */
	struct sim_files *files;
	struct inode *inode;	/* NULL: a directory that was not made. */
	uint64_t pos;
	uint32_t errors;	/* Failed syncs that were reported to it. */
	char *dir;		/* A directory's name; NULL: it is none. */
	/* The last name there by which READDIR found an entry; NULL: none. */
	const struct name *found;
	uint64_t found_pos;	/* The position after that entry. */
};

extern const struct sim_fd_class file_class;

/* @f as a file, or NULL if it is something else. */
struct file *file_of(struct sim_fd *f);

/* The files of @sim, created by the first call; NULL: no memory. */
struct sim_files *files_of(struct weir_sim *sim);

/* Inodes: file-data.c */

/* A new one, with one reference. */
struct inode *inode_make(struct sim_files *files, enum inode_kind kind,
			 uint32_t mode);
void inode_get(struct inode *i);
void inode_put(struct inode *i);

/* The chunk with @index, or NULL; the index of that chunk or of the next
 * one. */
struct chunk *inode_chunk(const struct inode *i, uint64_t index);

/* Make that chunk if it does not exist.  NULL: no memory. */
struct chunk *inode_need(struct inode *i, uint64_t index);

/* Copy @len bytes at @off, which the size allows, to the memory of @step. */
void inode_read(const struct inode *i, const struct io_step *step,
		uint64_t len, uint64_t off);

/* Copy from there; returns the bytes written, or -ENOMEM.  The size is
 * unchanged. */
int64_t inode_write(struct inode *i, const struct io_step *step, uint64_t len,
		    uint64_t off);

/* Set [@from, @to) to zeros: 0 or -ENOMEM. */
int inode_zero(struct inode *i, uint64_t from, uint64_t to);

/* The bytes beyond a smaller @size become a hole.  0 or -ENOMEM. */
int inode_resize(struct inode *i, uint64_t size);

/* file-data.c */

/* Make [@from, @to) and the size durable: 0, or -EIO for bad sectors. */
int inode_sync(struct inode *i, uint64_t from, uint64_t to);

/* The same, without bad sectors. */
void inode_sync_all(struct inode *i, uint64_t from, uint64_t to);

/* After a sync that failed: draw for each sector whether it is durable or never
 * will be. */
void inode_sync_failed(struct inode *i);

/* Flip bits of a byte, in the cache and on the medium: 0 or -ENOMEM. */
int inode_flip(struct inode *i, uint64_t off, unsigned char mask);

/* Drop what a power cut loses. */
void inode_cut(struct inode *i);

/* What the medium certainly has of @c. */
void chunk_durable(const struct chunk *c, unsigned char *ret);

/* Names: file-name.c */

#define PATH_BYTES SIM_PATH_BYTES

/* The end of the part of [@from, @to) that can be written before the space is
 * full. */
uint64_t inode_capacity(const struct inode *i, uint64_t from, uint64_t to);

/* Whether @path begins with @prefix. */
bool begins_with(const char *path, const char *prefix);

/* Whether a power cut of @prefix is one of @path: a cut of "a/" is one of the
 * directory "a", too. */
bool cut_hits(const char *prefix, const char *path);

struct name *name_find(struct sim_files *files, const char *path);

/* The same; it is made if it does not exist.  NULL: no memory. */
struct name *name_make(struct sim_files *files, const char *path);

/* The index of @path in the order, or the index that it would get. */
uint32_t name_place(const struct sim_files *files, const char *path);

/* The target of @path, or NULL. */
struct inode *name_inode(struct sim_files *files, const char *path);

/* Whether there is a directory @path. */
bool dir_exists(struct sim_files *files, const char *path);
bool dir_is_empty(struct sim_files *files, const char *path);

/* Whether a prefix of @path is a file, where it needs a directory. */
bool has_file_above(struct sim_files *files, const char *path);

/* Make the @n names lead where @at says: 0 or -ENOMEM. */
int names_change(struct sim_files *files, const struct leads *at, uint32_t n);

/* Make the name lead to @i, durably. */
void name_settle(struct name *name, struct inode *i);

/* Make the names in the directory @dir durable. */
void names_sync(struct sim_files *files, const char *dir);

/* Cut the power of all names that begin with @prefix. */
void names_cut(struct sim_files *files, const char *prefix);

void names_fini(struct sim_files *files);

/* file-path.c */

/*
 * Write the name of @path, seen from @dirfd, to @ret, which has PATH_BYTES: no
 * slash at either end, and none twice.  @root is the name of the root
 * directory, "" for that of the world.  0 or a negative errno.
 */
int path_resolve(struct weir_sim *sim, const char *root, int dirfd,
		 const char *path, char *ret);

/* Make a descriptor of @i, which is not a directory; O_TRUNC has been carried
 * out. */
int inode_open(struct inode *i, int flags);

#endif /* SIM_FILE_H */

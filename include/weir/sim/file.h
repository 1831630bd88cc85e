/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_FILE_H
#define WEIR_SIM_FILE_H

/*
 * Files and disks of a simulated world, and what a test does with them outside
 * its loop.
 *
 * In a world, <weir/file.h> opens, reads, writes, syncs, renames and removes
 * simulated files; domains and jobs go over them like over any other.  There is
 * one tree of names.  A name is simply a name: "a/b/log" can be created as it
 * is, and is in the directory "a/b", which is there as long as a name in it
 * is, or if weir_sim_mkdir() has made it.  The current directory is the
 * root; permissions are not looked at.  Files are sparse: one of terabytes
 * takes the memory of what was written.
 *
 * What a power cut keeps (weir_sim_power_cut()):
 *
 * - of a file, what it was when it was last synced: weir_fsync() that ended
 *   with 0, or a write with O_SYNC or O_DSYNC.  Of each sector of 512 bytes
 *   that was written since, either that, or what it was after any of those
 *   writes; each sector by itself, and never a mixture.  The size likewise.
 *   Truncating is a write of zeros; what WEIR_SIM_SHORT cuts short is several
 *   writes.  O_DIRECT goes past the cache, but into the disk's own: it needs
 *   the sync too;
 * - of the names, what weir_fsync() of a descriptor of their directory has made
 *   durable.  Of what was created, renamed and removed since, in the order in
 *   which it was done, as much from the beginning as chance will: a rename is
 *   kept or not, never half of it.  A sync of the file says nothing of its
 *   name.
 *
 * What goes wrong beside the faults of <weir/sim/world.h>: a disk is full, at a
 * byte (weir_sim_space()); sectors are bad (weir_sim_bad_sectors()).  If a sync
 * fails, for an error that is drawn or a bad sector, it is as on Linux: what
 * was written since the last one has come to the medium or not, by chance, the
 * cache still shows it, each descriptor that was open is told of it once,
 * and the next sync says 0 without having saved anything of it.  A write of
 * O_DIRECT that fails by an error that is drawn may have been done in part:
 * whole sectors of it.
 *
 * What differs from Linux: there are no links, and a directory cannot be
 * renamed (-EXDEV).
 *
 * What a program does with descriptors by system calls, it does here by
 * weir_sim_pread() and its sisters, and weir_sim_read(), weir_sim_write() and
 * weir_sim_close() of <weir/sim/socket.h>.  Paths here are from the root.  All
 * functions here are called on the world's thread, callbacks included, take no
 * virtual time, and never block.
 */

#include <sys/types.h>

#include <weir/sim/world.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Make the directory @path, which is durable at once.
 *
 * Returns 0, or
 *   -EEXIST        there is something of that name
 *   -ENOTDIR       what would be above it is a file
 *   -ENAMETOOLONG  @path is too long
 *   -ENOENT        @path is empty
 *   -ENOMEM        no memory
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int weir_sim_mkdir(struct weir_sim *sim, const char *path);

/*
 * Make a block device @path of @bytes bytes, all of them 0, which is durable at
 * once.  What is opened with O_DIRECT there must be aligned to @sector bytes,
 * a power of 2 of at least 512, as @bytes must be; memory to 4, as for NVMe
 * disks.  A write at its end is -ENOSPC, a read there 0.
 *
 * Returns 0, or
 *   -EINVAL        @bytes or @sector is not what it must be
 *   -EEXIST        there is something of that name
 *   -ENOTDIR       what would be above it is a file
 *   -ENAMETOOLONG  @path is too long
 *   -ENOENT        @path is empty
 *   -ENOMEM        no memory
 *
 * Call on @sim's thread, callbacks included.  Re-creates the simulated disks of
 * FoundationDB.
 */
WEIR_API int weir_sim_disk(struct weir_sim *sim, const char *path,
			   uint64_t bytes, uint32_t sector);

/*
 * Open @path at once: as weir_open() would, with no fault.
 *
 * Returns a descriptor, to be closed by weir_close() or when @sim is destroyed,
 * or a negative errno of open(2).
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int weir_sim_file_open(struct weir_sim *sim, const char *path,
				int flags, mode_t mode);

/*
 * Read at most @len bytes at @off of the simulated @fd into @buf at once, as
 * pread(2) does.
 *
 * Returns the bytes read, 0 at the end, or
 *   -EBADF   @fd is not open, or not for reading
 *   -ESPIPE  it is no file
 *   -EINVAL  @off is beyond INT64_MAX
 *   or what weir_read() completes with
 *
 * Call on the world's thread, callbacks included.
 */
WEIR_API ssize_t weir_sim_pread(int fd, void *buf, size_t len, uint64_t off);

/*
 * Write at most @len bytes of @buf at @off of the simulated @fd at once, as
 * pwrite(2) does.
 *
 * Returns the bytes written, or
 *   -EBADF   @fd is not open, or not for writing
 *   -ESPIPE  it is no file
 *   -EINVAL  @off is beyond INT64_MAX
 *   or what weir_write() completes with
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates pwrite(2), on a descriptor of a world.
 */
WEIR_API ssize_t weir_sim_pwrite(int fd, const void *buf, size_t len,
				 uint64_t off);

/*
 * Move the position of the simulated @fd, as lseek(2) does with SEEK_SET,
 * SEEK_CUR and SEEK_END.
 *
 * Returns where it is then, or
 *   -EBADF   @fd is not open
 *   -ESPIPE  it is no file
 *   -EINVAL  that would be before the beginning, or @whence is another
 *   -EIO     its power was cut
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates lseek(2), on a descriptor of a world.
 */
WEIR_API int64_t weir_sim_lseek(int fd, int64_t off, int whence);

/*
 * Have the file of the simulated @fd be @bytes bytes long at once, as
 * ftruncate(2) does: what is more is a hole.
 *
 * Returns 0, or
 *   -EBADF   @fd is not open
 *   -EINVAL  it is no file, or not open for writing; @bytes is too much
 *   -EIO     its power was cut
 *   -ENOMEM  no memory
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates ftruncate(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_ftruncate(int fd, uint64_t bytes);

/*
 * Read at most @len bytes at @off of @path into @buf: what a reader would see
 * now, bad sectors included.
 *
 * Returns the bytes read, fewer than @len at the end of the file only, or
 *   -ENOENT  there is no such file
 *   -EISDIR  it is a directory
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int64_t weir_sim_file_read(struct weir_sim *sim, const char *path,
				    void *buf, size_t len, uint64_t off);

/*
 * Write @len bytes of @buf at @off of @path, which is made if there is no such
 * file: it, its name and these bytes are durable at once, as if they had
 * always been there.
 *
 * Returns @len, or
 *   -EISDIR   it is a directory
 *   -ENOTDIR  what would be above it is a file
 *   -ENOENT   @path is empty
 *   -ENAMETOOLONG  @path is too long
 *   -EFBIG    files are not that long
 *   -ENOSPC   it is a disk, and that is beyond its end
 *   -ENOMEM   no memory; some of it may be written
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int64_t weir_sim_file_write(struct weir_sim *sim, const char *path,
				     const void *buf, size_t len, uint64_t off);

/*
 * The size of @path, as a reader would see it now; whether there is such a
 * file.
 *
 * Returns bytes (0 of a directory), or -ENOENT.
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int64_t weir_sim_file_size(struct weir_sim *sim, const char *path);

/*
 * As weir_sim_file_read(), but what is there for certain after a power cut: the
 * name and the bytes that were synced.
 *
 * Returns the bytes read, or
 *   -ENOENT  the name is not durable
 *   -EISDIR  it is a directory
 *
 * Call on @sim's thread, callbacks included.  Re-creates what
 * AsyncFileNonDurable of FoundationDB keeps at a kill.
 */
WEIR_API int64_t weir_sim_file_durable(struct weir_sim *sim, const char *path,
				       void *buf, size_t len, uint64_t off);

/*
 * Call @fn with each name that begins with @prefix, in the order of their
 * bytes: files, disks, and directories that weir_sim_mkdir() has made.  @fn may
 * be NULL; it must not create or remove names.
 *
 * Returns how many there are.
 *
 * Call on @sim's thread, callbacks included.  Re-creates glob(3).
 */
WEIR_API int64_t weir_sim_file_list(struct weir_sim *sim, const char *prefix,
				    void (*fn)(const char *path, void *arg),
				    void *arg);

/*
 * Flip the bits @mask of the byte at @off of @path, in the cache and on the
 * medium: what a disk does in silence.
 *
 * Returns 0, or
 *   -ENOENT  there is no such file
 *   -EISDIR  it is a directory
 *   -ERANGE  @off is beyond its end
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread, callbacks included.  Re-creates corrupt_bio_byte of
 * the kernel's dm-flakey.
 */
WEIR_API int weir_sim_file_corrupt(struct weir_sim *sim, const char *path,
				   uint64_t off, unsigned char mask);

/*
 * Let the files whose names begin with @prefix have @bytes bytes together, of
 * what is written or allocated and not a hole; UINT64_MAX: as many as they
 * like, as at first.  A write that needs more is short at that byte, and
 * -ENOSPC if it can move none.  It replaces what was said of the same prefix;
 * a file with several gets the tightest.
 *
 * Returns 0, or
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int weir_sim_space(struct weir_sim *sim, const char *prefix,
			    uint64_t bytes);

/* What fails, for weir_sim_bad_sectors(). */
#define WEIR_SIM_BAD_READS 1u
#define WEIR_SIM_BAD_WRITES 2u

/*
 * Have sectors of @path fail from now on: @len bytes at @off, widened to whole
 * ones.  @which says for what, WEIR_SIM_BAD_READS, WEIR_SIM_BAD_WRITES, both,
 * or 0 for neither any more.  A read that begins before them is short, and
 * -EIO at them.  Writes with O_DIRECT likewise; others come to the cache, and
 * the sync is -EIO.
 *
 * Returns 0, or
 *   -EINVAL  @which has other bits, or the range is empty
 *   -ENOENT  there is no such file
 *   -EISDIR  it is a directory
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int weir_sim_bad_sectors(struct weir_sim *sim, const char *path,
				  uint64_t off, uint64_t len, uint32_t which);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SIM_FILE_H */

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_FILE_H
#define WEIR_SIM_FILE_H

/*
 * Files and disks of a simulated world, and calls by which a test prepares and
 * checks them.
 *
 * In a world, <weir/file.h> opens, reads, writes, syncs, renames and removes
 * simulated files; domains and jobs use them like any other.  There is one tree
 * of names.  "a/b/log" can be created without creating directories; the
 * directory "a/b" exists as long as a name in it does, or if weir_sim_mkdir()
 * has created it.  The current directory is the root; permissions are not
 * checked.  Files are sparse: they use memory for written bytes only.
 *
 * A power cut (weir_sim_power_cut()) keeps
 *
 * - of a file, the state of its last sync: a weir_fsync() that ended with 0, or
 *   a write with O_SYNC or O_DSYNC.  Each sector of 512 bytes that was written
 *   later has either that state, or the state after any of the later writes;
 *   sectors are independent, and a sector is never a mixture.  The same holds
 *   for the size.  Truncating is a write of zeros; a write that WEIR_SIM_SHORT
 *   cuts short is several writes.  O_DIRECT bypasses the cache but not the
 *   disk's own cache, so it needs the sync too;
 * - the names that weir_fsync() of a descriptor of their directory has made
 *   durable.  Of later creations, renames and removals a drawn number is kept,
 *   from the first on, in their order; a rename is kept or lost as a whole.  A
 *   sync of the file does not make its name durable.
 *
 * Beside the faults of <weir/sim/world.h>, a disk may be full
 * (weir_sim_space()), and sectors may be bad (weir_sim_bad_sectors()).  A sync
 * that fails, because of a drawn error or a bad sector, behaves as on Linux:
 * data written since the last sync have reached the medium or not, by chance;
 * the cache still has them; each open descriptor reports the error once; and
 * the next sync returns 0 without having written them.  A write with O_DIRECT
 * that fails by a drawn error may have written some whole sectors.
 *
 * A rename of a directory is one change, with all that is in it, and durable
 * when the old or the new directory was synced, or one of the two that have
 * these; it cannot be exchanged (-EXDEV).  A file that was opened with O_TMPFILE
 * is lost in a power cut unless weir_sim_link() has named it durably.  Unlike on
 * Linux there are no symbolic links.
 *
 * Instead of system calls on descriptors, use weir_sim_pread() and the like,
 * and weir_sim_read(), weir_sim_write() and weir_sim_close() of
 * <weir/sim/socket.h>; or link libweir-sim-libc (<weir/sim/libc.h>), and the
 * calls of libc are these. Paths are from the root.  Call all functions here on the
 * world's thread, callbacks included; they take no virtual time, and never
 * block.
 */

#include <sys/stat.h>
#include <sys/types.h>

#include <weir/sim/world.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Create the directory @path, which is durable at once.
 *
 * Returns 0, or
 *   -EEXIST        the name exists
 *   -ENOTDIR       a component of @path is a file
 *   -ENAMETOOLONG  @path is too long
 *   -ENOENT        @path is empty
 *   -ENOMEM        no memory
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int weir_sim_mkdir(struct weir_sim *sim, const char *path);

/*
 * Create a block device @path of @bytes zero bytes, which is durable at once.
 *
 * With O_DIRECT transfers must be aligned to @sector bytes, a power of 2 of at
 * least 512, and memory to 4, as for NVMe disks; @bytes must be a multiple of
 * @sector.  At its end a write is -ENOSPC, and a read 0.
 *
 * Returns 0, or
 *   -EINVAL        @bytes or @sector is invalid
 *   -EEXIST        the name exists
 *   -ENOTDIR       a component of @path is a file
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
 * Open @path at once, as weir_open() does, without faults.
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
 *   -ESPIPE  @fd is no file
 *   -EINVAL  @off is beyond INT64_MAX
 *   or what weir_read() completes with
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates pread(2), on a descriptor of a world.
 */
WEIR_API ssize_t weir_sim_pread(int fd, void *buf, size_t len, uint64_t off);

/*
 * Write at most @len bytes of @buf at @off of the simulated @fd at once, as
 * pwrite(2) does.
 *
 * Returns the bytes written, or
 *   -EBADF   @fd is not open, or not for writing
 *   -ESPIPE  @fd is no file
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
 * Returns the new position, or
 *   -EBADF   @fd is not open
 *   -ESPIPE  @fd is no file
 *   -EINVAL  the position would be negative, or @whence is unknown
 *   -EIO     its power was cut
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates lseek(2), on a descriptor of a world.
 */
WEIR_API int64_t weir_sim_lseek(int fd, int64_t off, int whence);

/*
 * Set the size of the file of the simulated @fd to @bytes at once, as
 * ftruncate(2) does.
 *
 * Bytes beyond the previous end are a hole.
 *
 * Returns 0, or
 *   -EBADF   @fd is not open
 *   -EINVAL  @fd is no file, or not open for writing; @bytes is too large
 *   -EIO     its power was cut
 *   -ENOMEM  no memory
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates ftruncate(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_ftruncate(int fd, uint64_t bytes);

/*
 * Make the file or directory of the simulated @fd durable at once, as fsync(2)
 * does.
 *
 * Returns 0, or
 *   -EBADF   @fd is not open, or with O_PATH
 *   -EINVAL  @fd is no file
 *   -EIO     a sector is bad, an earlier sync has failed, or its power was cut
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates fsync(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_fsync(int fd);

/*
 * Allocate, or with the bits FALLOC_FL_ in @mode empty, @len bytes at @off of the
 * file of the simulated @fd at once, as weir_fallocate() does.
 *
 * Returns 0, or
 *   -EBADF       @fd is not open, or not for writing
 *   -ESPIPE      @fd is no file
 *   -EISDIR      @fd is a directory
 *   -EINVAL      @len is 0
 *   -EFBIG       the end is beyond INT64_MAX
 *   -EOPNOTSUPP  @mode has other bits
 *   -ENOSPC      the disk is full
 *   -EIO         its power was cut
 *   -ENOMEM      no memory
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates fallocate(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_fallocate(int fd, int mode, uint64_t off, uint64_t len);

/*
 * Get the flags of open(2) that the simulated @fd has: O_RDWR for what is no file.
 *
 * Returns the flags, or
 *   -EBADF  @fd is not open
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates fcntl(2) with F_GETFL, on a descriptor of a world.
 */
WEIR_API int weir_sim_get_flags(int fd);

/*
 * Set O_APPEND, O_DIRECT and O_NONBLOCK of the simulated @fd to those of @flags,
 * if it is a file; the call has no effect on others.
 *
 * Returns 0, or
 *   -EBADF  @fd is not open
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates fcntl(2) with F_SETFL, on a descriptor of a world.
 */
WEIR_API int weir_sim_set_flags(int fd, int flags);

/*
 * Get what @path is, in *@ret, at once.
 *
 * Returns 0, or
 *   -ENOENT        there is no such file
 *   -ENOTDIR       a component of @path is a file
 *   -ENAMETOOLONG  @path is too long
 *   -ENOMEM        no memory
 *
 * Call on @sim's thread, callbacks included.
 *
 * Re-creates stat(2), in a world.
 */
WEIR_API int weir_sim_stat(struct weir_sim *sim, const char *path,
			   struct stat *ret);

/*
 * Get what the simulated @fd is, in *@ret, at once.
 *
 * Returns 0, or
 *   -EBADF  @fd is not open
 *   -EIO    its power was cut
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates fstat(2), on a descriptor of a world.
 */
WEIR_API int weir_sim_fstat(int fd, struct stat *ret);

/*
 * Rename @from to @to at once, as weir_rename() does; @flags are RENAME_NOREPLACE
 * or RENAME_EXCHANGE.
 *
 * Returns 0, or what weir_rename() completes with.
 *
 * Call on @sim's thread, callbacks included.
 *
 * Re-creates renameat2(2), in a world.
 */
WEIR_API int weir_sim_rename(struct weir_sim *sim, const char *from,
			     const char *to, uint32_t flags);

/*
 * Remove the name @path at once, as weir_unlink() does; @flags are AT_REMOVEDIR
 * for a directory.
 *
 * Returns 0, or what weir_unlink() completes with.
 *
 * Call on @sim's thread, callbacks included.
 *
 * Re-creates unlinkat(2), in a world.
 */
WEIR_API int weir_sim_unlink(struct weir_sim *sim, const char *path,
			     uint32_t flags);

/*
 * Give the file of the simulated @fd the name @path, too: for one that was opened
 * with O_TMPFILE, its first.
 *
 * The name is durable when its directory was synced.
 *
 * Returns 0, or
 *   -EBADF         @fd is not open
 *   -EINVAL        @fd is no file
 *   -EPERM         it is a directory or a disk
 *   -EEXIST        there is such a name
 *   -ENOTDIR       a component of @path is a file
 *   -ENAMETOOLONG  @path is too long
 *   -ENOENT        @path is empty
 *   -EIO           its power was cut
 *   -ENOMEM        no memory
 *
 * Call on the world's thread, callbacks included.
 *
 * Re-creates linkat(2) with AT_EMPTY_PATH, in a world.
 */
WEIR_API int weir_sim_link(int fd, const char *path);

/*
 * Read at most @len bytes at @off of @path into @buf, as a reader would see
 * them now, including bad sectors.
 *
 * Returns the bytes read, fewer than @len only at the end of the file, or
 *   -ENOENT  there is no such file
 *   -EISDIR  @path is a directory
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int64_t weir_sim_file_read(struct weir_sim *sim, const char *path,
				    void *buf, size_t len, uint64_t off);

/*
 * Write @len bytes of @buf at @off of @path, durable at once.
 *
 * The call creates the file if it does not exist.  The file, its name and these
 * bytes are durable.
 *
 * Returns @len, or
 *   -EISDIR   @path is a directory
 *   -ENOTDIR  a component of @path is a file
 *   -ENOENT   @path is empty
 *   -ENAMETOOLONG  @path is too long
 *   -EFBIG    the range is beyond the maximum size of a file
 *   -ENOSPC   @path is a disk, and the range is beyond its end
 *   -ENOMEM   no memory; a part may be written
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int64_t weir_sim_file_write(struct weir_sim *sim, const char *path,
				     const void *buf, size_t len, uint64_t off);

/*
 * Get the present size of @path, or find out whether it exists.
 *
 * Returns the number of bytes (0 for a directory), or -ENOENT.
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int64_t weir_sim_file_size(struct weir_sim *sim, const char *path);

/*
 * Read the durable bytes of @path, which every power cut keeps.
 *
 * Otherwise as weir_sim_file_read().
 *
 * Returns the bytes read, or
 *   -ENOENT  the name is not durable
 *   -EISDIR  @path is a directory
 *
 * Call on @sim's thread, callbacks included.  Re-creates the state that
 * AsyncFileNonDurable of FoundationDB keeps at a kill.
 */
WEIR_API int64_t weir_sim_file_durable(struct weir_sim *sim, const char *path,
				       void *buf, size_t len, uint64_t off);

/*
 * Call @fn with each name that begins with @prefix, in the order of their
 * bytes.
 *
 * These are files, disks, and directories of weir_sim_mkdir().  @fn may be
 * NULL; it must not create or remove names.
 *
 * Returns the number of names.
 *
 * Call on @sim's thread, callbacks included.  Re-creates glob(3).
 */
WEIR_API int64_t weir_sim_file_list(struct weir_sim *sim, const char *prefix,
				    void (*fn)(const char *path, void *arg),
				    void *arg);

/*
 * Flip the bits @mask of the byte at @off of @path, in the cache and on the
 * medium, as silent corruption by a disk.
 *
 * Returns 0, or
 *   -ENOENT  there is no such file
 *   -EISDIR  @path is a directory
 *   -ERANGE  @off is beyond its end
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread, callbacks included.  Re-creates corrupt_bio_byte of
 * the kernel's dm-flakey.
 */
WEIR_API int weir_sim_file_corrupt(struct weir_sim *sim, const char *path,
				   uint64_t off, unsigned char mask);

/*
 * Limit the files whose names begin with @prefix to @bytes bytes together.
 *
 * Bytes that are written or allocated count, holes do not.  UINT64_MAX, the
 * initial state, is no limit.  A write that needs more is short at the limit,
 * and -ENOSPC if it can write nothing.  The call replaces the limit of the same
 * prefix; if a file has several limits the smallest applies.
 *
 * Returns 0, or
 *   -ENOMEM  no memory
 *
 * Call on @sim's thread, callbacks included.
 */
WEIR_API int weir_sim_space(struct weir_sim *sim, const char *prefix,
			    uint64_t bytes);

/* Accesses that fail, for weir_sim_bad_sectors(). */
#define WEIR_SIM_BAD_READS 1u
#define WEIR_SIM_BAD_WRITES 2u

/*
 * Make the sectors of @len bytes at @off of @path fail from now on.
 *
 * The range is widened to whole sectors.  @which selects the accesses that
 * fail: WEIR_SIM_BAD_READS, WEIR_SIM_BAD_WRITES, both, or 0 for none.  A read
 * that begins before bad sectors is short; one that begins at them is -EIO.
 * The same holds for writes with O_DIRECT; other writes go to the cache, and
 * the sync is -EIO.
 *
 * Returns 0, or
 *   -EINVAL  @which has other bits, or the range is empty
 *   -ENOENT  there is no such file
 *   -EISDIR  @path is a directory
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

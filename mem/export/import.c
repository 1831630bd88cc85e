/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The importer's side.  Everything that came is an enemy's until it is checked:
 * first the bytes, then each file descriptor, then whether they belong
 * together; what is mapped cannot be taken away after that.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>


#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/export/internal.h"
#include "mem/segment/internal.h"

#define CALL "weir_mmap_import"
#define PAGE ((size_t)4096)
#define RIGHTS (WEIR_MMAP_READ | WEIR_MMAP_WRITE)

static int check_opts(const struct weir_import_opts *opts)
{
	if (opts->flags & ~WEIR_IMPORT_COPY)
		return why(-EINVAL, CALL ": unknown .flags %#x", opts->flags);
	if (opts->permissions & ~RIGHTS)
		return why(-EINVAL, CALL ": .permissions are WEIR_MMAP_READ "
			   "and WEIR_MMAP_WRITE, not %#x", opts->permissions);
	if (!opts->key && opts->key_len)
		return why(-EINVAL, CALL ": .key_len without .key");
	return 0;
}

/* What is given, less what is not asked for. */
static int decide_rights(uint32_t *ret, const struct descriptor *d,
			 const struct weir_import_opts *opts)
{
	uint32_t given = WEIR_MMAP_READ;

	if (d->permissions & DESCRIPTOR_WRITE)
		given |= WEIR_MMAP_WRITE;
	if (opts->permissions & ~given)
		return why(-EACCES, CALL ": .permissions want to write, and "
			   "the export is for reading");
	*ret = opts->permissions ? opts->permissions | WEIR_MMAP_READ : given;
	return 0;
}

static void claim(struct mmap_use *use)
{
	struct import *im = import_of(use->mmap);

	use->place = presence_claim(&im->presence);
	if (use->place < 0)
		return;
	use->busy = presence_busy(&im->presence, use->place);
	use->fenced = im->base.fenced;
}

static void unclaim(struct mmap_use *use)
{
	if (use->place >= 0)
		presence_release(&import_of(use->mmap)->presence, use->place);
	use->place = -1;
	use->busy = NULL;
	use->fenced = false;
}

/* End one that was not given away. */
static void import_free(struct import *im)
{
	if (im->presence.page && im->place >= 0)
		presence_release(&im->presence, im->place);
	if (im->presence.page)
		presence_close(&im->presence);
	if (im->page)
		control_unmap(im->page);
	if (im->lifeline >= 0)
		close(im->lifeline);
	if (im->exporter >= 0)
		close(im->exporter);
	free(im);
}

/* Called by destroy. */
static void release(struct weir_mmap *mmap)
{
	if (mmap->cpu) {
		munmap(mmap->addr, memfd_round(mmap->len, mmap->page_size));
		close(mmap->fd);
	} else {
		process_release(mmap);
	}
	import_free(import_of(mmap));
}

/* Whether @fd is the end of a pipe that can be read, and only that. */
static bool lifeline_is_one(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY &&
	       !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

/* Whether the descriptors are of the files that the exporter had. */
static int check_files(const struct descriptor *d, const int *fds)
{
	struct descriptor_file file;
	int i;

	for (i = 0; i < EXPORT_FDS; i++)
		if (export_file(&file, fds[i], d->kind, i) ||
		    file.dev != d->files[i].dev || file.ino != d->files[i].ino)
			return why(-EBADMSG, CALL ": file descriptor %d is not "
				   "of the file that the descriptor names", i);
	return 0;
}

/* A pidfd of the process @pid, which began at @start_time, if that is of our PID
 * @namespace; or -1. */
static int process_open(uint64_t pid, uint64_t start_time, uint64_t namespace)
{
	uint64_t began;
	int fd;

	if (!pid || pid > INT32_MAX || !namespace ||
	    namespace != process_pid_namespace())
		return -1;
	fd = fault_choice("pidfd_open") ? -1 :
	     (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	began = fd >= 0 ? process_start_time((pid_t)pid) : 0;
	if (fd >= 0 && began && start_time && began != start_time) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Where the exporter sees whether jobs are running. */
static int connect_presence(struct import *im, int fd)
{
	int err = presence_open(&im->presence, fd);

	if (err)
		return err;
	im->place = presence_claim(&im->presence);
	if (im->place < 0)
		return why(-EAGAIN, CALL ": the export has as many importers "
			   "as it can, %d", PRESENCE_PLACES);
	im->base.busy = presence_busy(&im->presence, im->place);
	im->base.claim = claim;
	im->base.unclaim = unclaim;
	im->base.fenced = im->page->fences &&
		!process_barrier(BARRIER_REGISTER_GLOBAL_EXPEDITED);
	return 0;
}

/* By the clock of leases. */
static uint64_t clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

static bool expired(const struct mmap_import *import)
{
	struct import *im = (struct import *)import;
	uint64_t end = atomic_load(&im->page->not_after);

	if (!end || clock_now() < end)
		return false;
	import_set_stale(&im->base);
	return true;
}

/* A lease can get an end later, too. */
static int connect_clock(struct import *im)
{
	if (!im->page->time_namespace)
		return 0;
	if (im->page->time_namespace != process_time_namespace())
		return why(-EOPNOTSUPP, CALL ": the lease is of another time "
			   "namespace, whose clock is not ours");
	im->base.expired = expired;
	atomic_store(&im->base.seen, &import_no_generation);
	return expired(&im->base) ?
	       why(-ESTALE, CALL ": the lease has ended") : 0;
}

/* The control page and the lifeline, and whether they are of this export. */
static int connect_control(struct import *im, const struct descriptor *d,
			   const int *fds)
{
	int err = control_map(&im->page, fds[EXPORT_FD_CONTROL]);

	if (err)
		return err;
	if (memcmp(im->page->export_id, d->export_id, sizeof(d->export_id)))
		return why(-EBADMSG, CALL ": the file descriptors are those of "
			   "another export");
	if (!lifeline_is_one(fds[EXPORT_FD_LIFELINE]))
		return why(-EBADMSG, CALL ": file descriptor %d is not the "
			   "lifeline of the export", EXPORT_FD_LIFELINE);
	im->lifeline = export_dup(fds[EXPORT_FD_LIFELINE]);
	if (im->lifeline < 0)
		return why(im->lifeline, CALL ": no file descriptor left");
	im->exporter = process_open(im->page->pid, im->page->start_time,
				    im->page->pid_namespace);
	import_init(&im->base, &im->page->generation, d->generation);
	if (!d->generation || atomic_load(im->base.generation) != d->generation)
		return why(-ESTALE, CALL ": the exporter has revoked it");
	err = connect_clock(im);
	return err ? err : connect_presence(im, fds[EXPORT_FD_PRESENCE]);
}

static int import_create(struct import **ret, const struct descriptor *d,
			 const int *fds)
{
	struct import *im = mem_calloc(1, sizeof(*im));
	int err;

	if (!im)
		return why(-ENOMEM, CALL ": no memory");
	im->lifeline = -1;
	im->place = -1;
	im->exporter = -1;
	im->presence.fd = -1;
	err = connect_control(im, d, fds);
	if (err)
		import_free(im);
	else
		*ret = im;
	return err;
}

static int bad_memfd(const char *what)
{
	return why(-EBADMSG, "weir_mmap_import: file descriptor %d is not the "
		   "memory of the export: %s", EXPORT_FD_RANGE, what);
}

static int check_memfd(size_t *page_size, int fd, uint64_t len, bool write)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & RANGE_SEALS) != RANGE_SEALS)
		return bad_memfd("it is not sealed against being cut");
	if (memfd_is_huge(fd, page_size) && (write || !(seals & RANGE_READ_ONLY)))
		return why(-EOPNOTSUPP, "weir_mmap_import: huge pages that "
			   "others can take away cannot be imported");
	if (!*page_size || fstat(fd, &st) || st.st_size < 0 ||
	    (uint64_t)st.st_size < len)
		return bad_memfd("it is too short");
	return 0;
}

static int memfd_map(void **ret, size_t *page_size, int fd, uint64_t len, bool write)
{
	int err, prot = PROT_READ | (write ? PROT_WRITE : 0);
	void *p;

	*page_size = 0;
	err = check_memfd(page_size, fd, len, write);
	if (err)
		return err;
	p = fault("mmap") ? (errno = ENOMEM, MAP_FAILED) :
	    mmap(NULL, memfd_round((size_t)len, *page_size), prot, MAP_SHARED,
		 fd, 0);
	if (p == MAP_FAILED)
		return errno == EPERM || errno == EACCES ?
		       bad_memfd("it is sealed against the writing that is "
				 "promised") :
		       why(-errno, "weir_mmap_import: %llu bytes cannot be "
			   "mapped: %s", (unsigned long long)len,
			   strerror(errno));
	*ret = p;
	return 0;
}

/* The range of @mmap: shared pages. */
static int take_memfd(struct weir_mmap *mmap, const struct descriptor *d,
		      int fd, uint32_t permissions)
{
	bool write = permissions & WEIR_MMAP_WRITE;
	void *addr = NULL;
	int err;

	if (d->len > SIZE_MAX / 2)
		return why(-ENOMEM, CALL ": more than can be mapped");
	mmap->fd = export_dup(fd);
	if (mmap->fd < 0)
		return why(mmap->fd, CALL ": no file descriptor left");
	err = memfd_map(&addr, &mmap->page_size, mmap->fd, d->len, write);
	if (err) {
		close(mmap->fd);
		mmap->fd = -1;
		return err;
	}
	if (mmap->page_size > PAGE)
		mmap_set_domain(mmap, weir_domain_hugepage());
	mmap->addr = addr;
	mmap->len = (size_t)d->len;
	mmap->cpu = true;
	mmap->readonly = !write;
	return 0;
}

/* @mmap, new, becomes an import that is started. */
static int become_import(struct weir_mmap *mmap, const struct descriptor *d,
			 const int *fds, uint32_t permissions,
			 const struct weir_import_opts *opts)
{
	int fd = fds[EXPORT_FD_RANGE], err;
	struct import *im = NULL;

	err = import_create(&im, d, fds);
	if (err)
		return err;
	if (d->kind == DESCRIPTOR_PROCESS)
		err = process_import(mmap, d, fd, opts->peer,
				     permissions & WEIR_MMAP_WRITE);
	else
		err = take_memfd(mmap, d, fd, permissions);
	if (err) {
		import_free(im);
		return err;
	}
	mmap->permissions = permissions;
	mmap->user_data = opts->user_data;
	mmap->range = MMAP_IMPORT;
	mmap->has_range = true;
	mmap->import = &im->base;
	mmap->release = release;
	err = segment_add(mmap);
	if (err)
		return err;
	mmap->was_started = true;
	atomic_store_explicit(&mmap->state, WEIR_MMAP_STARTED,
			      memory_order_release);
	return 0;
}

/* A caller that does not expect it would take addresses of another process for
 * ours. */
static int check_fds(const struct descriptor *d, const int *fds, uint32_t n_fds,
		     uint32_t flags)
{
	uint32_t i;

	if (d->kind == DESCRIPTOR_DEVICE)
		return why(-EOPNOTSUPP, CALL ": the export is reached by a "
			   "device of provider %s; see "
			   "weir_mmap_import_rdma() for verbs, and "
			   "weir_mmap_import_device() for others", d->provider);
	if (d->kind == DESCRIPTOR_PROCESS && !(flags & WEIR_IMPORT_COPY))
		return why(-EOPNOTSUPP, CALL ": the export can be reached by "
			   "copying only; WEIR_IMPORT_COPY allows that");
	if (n_fds != EXPORT_FDS)
		return why(-EBADMSG, CALL ": %u file descriptors came with the "
			   "descriptor, which has %d", n_fds, EXPORT_FDS);
	for (i = 0; i < n_fds; i++)
		if (fds[i] < 0)
			return why(-EBADMSG, CALL ": file descriptor %u is "
				   "none", i);
	return 0;
}

static int import_checked(struct weir_mmap **ret, const struct descriptor *d,
			  const int *fds, const struct weir_import_opts *opts)
{
	struct weir_mmap *mmap = NULL;
	uint32_t permissions = 0;
	int err;

	err = decide_rights(&permissions, d, opts);
	if (!err)
		err = weir_mmap_create(&mmap, NULL);
	if (err)
		return err;
	err = become_import(mmap, d, fds, permissions, opts);
	if (err) {
		weir_mmap_destroy(mmap);
		return err;
	}
	*ret = mmap;
	segment_added(mmap);
	return 0;
}

int weir_mmap_import(struct weir_mmap **ret, const void *bytes, size_t len,
		     const int *fds, uint32_t n_fds,
		     const struct weir_import_opts *user)
{
	struct weir_import_opts opts;
	struct descriptor d;
	int err;

	if (!bytes || !fds)
		return why(-EINVAL, CALL ": no bytes, or no file descriptors");
	err = opts_load(&opts, sizeof(opts), user, CALL);
	if (!err)
		err = check_opts(&opts);
	if (!err)
		err = descriptor_parse(&d, bytes, len, opts.key, opts.key_len,
				       (uint64_t)time(NULL), CALL);
	if (!err)
		err = check_fds(&d, fds, n_fds, opts.flags);
	if (!err)
		err = check_files(&d, fds);
	if (!err)
		err = import_checked(ret, &d, fds, &opts);
	return err;
}

int weir_mmap_is_stale(const struct weir_mmap *mmap)
{
	return mmap_stale(mmap);
}

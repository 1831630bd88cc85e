/* SPDX-License-Identifier: BSD-3-Clause */
/* Exports: the page with the generation, the descriptor, revocation. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/export/internal.h"

/*
 * How importers learn that an export is over: a page with a generation, which
 * they compare before and after each job, and a pipe that hangs up, which they
 * can wait for.  The page tells of a stop at once, without a system call; the
 * pipe tells of a death, too.
 */

#define CONTROL_SEALS \
	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

#define TMPFS 0x01021994

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int export_dup(int fd)
{
	int copy = fault("dup") ? (errno = EMFILE, -1) :
				  fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : copy;
}

/* Our mapping is older than the seals: it is the only one that writes. */
static int page_fill(struct lifeline *line)
{
	struct control *page;

	if (fault("ftruncate") || ftruncate(line->page_fd, (off_t)page_size()))
		return -ENOMEM;
	page = fault("mmap") ? MAP_FAILED :
	       mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED,
		    line->page_fd, 0);
	if (page == MAP_FAILED)
		return -ENOMEM;
	line->page = page;
	atomic_store(&page->generation, 1);
	if (fault("getrandom") ||
	    getrandom(page->export_id, sizeof(page->export_id), 0) !=
		    (ssize_t)sizeof(page->export_id))
		return -EIO;
	if (fault("seal") || fcntl(line->page_fd, F_ADD_SEALS, CONTROL_SEALS))
		return -EOPNOTSUPP;
	return 0;
}

static int open_all(struct lifeline *line)
{
	int ends[2];

	line->page_fd = fault("memfd_create") ? (errno = EMFILE, -1) :
			memfd_create("weir-control",
				     MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (line->page_fd < 0)
		return -errno;
	if (fault("pipe") ? (errno = EMFILE) :
			    pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	line->read_fd = ends[0];
	line->write_fd = ends[1];
	return page_fill(line);
}

static void close_all(struct lifeline *line)
{
	if (line->page)
		munmap(line->page, page_size());
	if (line->page_fd >= 0)
		close(line->page_fd);
	if (line->read_fd >= 0)
		close(line->read_fd);
	if (line->write_fd >= 0)
		close(line->write_fd);
	*line = (struct lifeline){ NULL, -1, -1, -1 };
}

/* Returns 0, or a negative errno with a message. */
static int lifeline_open(struct lifeline *line)
{
	int err;

	*line = (struct lifeline){ NULL, -1, -1, -1 };
	err = open_all(line);
	if (err) {
		close_all(line);
		return why(err, "weir_mmap_export: the control page cannot be "
			   "made: %s", strerror(-err));
	}
	return 0;
}

/*
 * The generation first: a waiter that is woken must see it.  And a byte into
 * the pipe, lest a child that we forked holds up the news by holding the end of
 * it.
 */
static void lifeline_cut(struct lifeline *line)
{
	ssize_t n;

	debug_check(line->page);
	atomic_fetch_add(&line->page->generation, 1);
	n = write(line->write_fd, "", 1);
	(void)n;	/* It is closed next. */
	close_all(line);
}

static int bad_control(const char *what)
{
	return why(-EBADMSG, "weir_mmap_import: file descriptor %d is not the "
		   "control page of the export: %s", EXPORT_FD_CONTROL, what);
}

int control_map(const struct control **ret, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	const struct control *page;
	struct statfs fs;
	struct stat st;

	if (seals < 0 || (seals & CONTROL_SEALS) != CONTROL_SEALS)
		return bad_control("it is not sealed");
	if (fstatfs(fd, &fs) || fs.f_type != TMPFS)
		return bad_control("it is no memfd of ordinary pages");
	if (fstat(fd, &st) || (size_t)st.st_size != page_size())
		return bad_control("it is not one page");
	page = fault("mmap") ? (errno = ENOMEM, MAP_FAILED) :
	       mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return why(-ENOMEM, "weir_mmap_import: no memory to map the "
			   "control page");
	*ret = page;
	return 0;
}

void control_unmap(const struct control *page)
{
	munmap((void *)page, page_size());
}

bool lifeline_is_one(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY &&
	       !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

/*
 * The exporter's side: what an mmap has given away, until it is stopped.
 *
 * One lifeline and one export id for all that it was exported as.  Descriptors
 * with different options are different bytes, which are kept: the ones made
 * first may still be in use.  Equal options give equal bytes, so that
 * exporting again and again needs no more memory, and no key is kept.
 */

#define CALL "weir_mmap_export"
#define PEER (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)
#define BLOBS_MAX 256

/* Before the memfd is sealed, which cannot be undone. */
static int check_opts(const struct weir_export_opts *opts)
{
	uint8_t mac[DESCRIPTOR_MAC_LEN];

	if (opts->flags & ~WEIR_EXPORT_COPY)
		return why(-EINVAL, CALL ": unknown .flags %#x", opts->flags);
	if (opts->permissions & ~PEER)
		return why(-EINVAL, CALL ": .permissions are WEIR_MMAP_PEER_ "
			   "ones, not %#x", opts->permissions);
	if (!opts->key && opts->key_len)
		return why(-EINVAL, CALL ": .key_len without .key");
	if (!opts->key)
		return 0;
	return descriptor_mac(mac, "", 0, opts->key, opts->key_len, CALL);
}

static int check_mmap(const struct weir_mmap *mmap,
		      const struct weir_export_opts *opts)
{
	if (mmap->import)
		return why(-EPERM, CALL ": the mmap is imported; only its "
			   "owner can export it");
	if (!mmap_is_started(mmap))
		return why(-EBADFD, CALL ": the mmap is not started");
	if (!(mmap->permissions & PEER))
		return why(-EACCES, CALL ": the mmap has neither "
			   "WEIR_MMAP_PEER_READ nor WEIR_MMAP_PEER_WRITE");
	if ((opts->permissions & WEIR_MMAP_PEER_WRITE) &&
	    !(mmap->permissions & WEIR_MMAP_PEER_WRITE))
		return why(-EACCES, CALL ": .permissions want "
			   "WEIR_MMAP_PEER_WRITE, which the mmap does not "
			   "have");
	return 0;
}

static bool may_write(const struct weir_mmap *mmap,
		      const struct weir_export_opts *opts)
{
	uint32_t p = opts->permissions ? opts->permissions : mmap->permissions;

	return p & WEIR_MMAP_PEER_WRITE;
}

struct mmap_export *export_get(const struct weir_mmap *mmap, const char *call)
{
	struct mmap_export *x = mmap->export;

	if (x)
		return x;
	x = mem_calloc(1, sizeof(*x));
	if (x)
		x->pidfd = -1;
	else
		why(-ENOMEM, "%s: no memory", call);
	return x;
}

void export_free(struct mmap_export *x)
{
	struct export_blob *blob;

	if (x->line.page)
		lifeline_cut(&x->line);
	while ((blob = x->blobs)) {
		x->blobs = blob->next;
		free(blob);
	}
	if (x->pidfd >= 0)
		close(x->pidfd);
	free(x);
}

/* The same bytes again, or kept for as long as the mmap is exported. */
int export_keep(struct export_blob **ret, struct mmap_export *x, uint32_t kind,
		const uint8_t *bytes, size_t len, const char *call)
{
	struct export_blob *blob;

	debug_check(len <= DESCRIPTOR_MAX);
	for (blob = x->blobs; blob; blob = blob->next)
		if (blob->len == len && !memcmp(blob->bytes, bytes, len))
			break;
	if (!blob && x->n_blobs == BLOBS_MAX)
		return why(-EAGAIN, "%s: exported with %d different options "
			   "already; stop the mmap to forget them", call,
			   BLOBS_MAX);
	if (!blob) {
		blob = mem_calloc(1, sizeof(*blob) + len);
		if (!blob)
			return why(-ENOMEM, "%s: no memory", call);
		memcpy(blob->bytes, bytes, len);
		blob->len = len;
		blob->kind = kind;
		blob->next = x->blobs;
		x->blobs = blob;
		x->n_blobs++;
	}
	*ret = blob;
	return 0;
}

static int describe(struct export_blob **ret, const struct weir_mmap *mmap,
		    struct mmap_export *x, const struct weir_export_opts *opts,
		    bool copy)
{
	uint8_t bytes[DESCRIPTOR_MAX];
	struct descriptor d = {
		.generation = atomic_load(&x->line.page->generation),
		.len = mmap->len,
		.not_after = opts->not_after,
		.kind = DESCRIPTOR_MEMFD,
		.permissions = DESCRIPTOR_READ |
			       (may_write(mmap, opts) ? DESCRIPTOR_WRITE : 0),
	};
	int n = copy ? process_export(&d, &x->pidfd, mmap) : 0;

	if (n)
		return n;

	memcpy(d.export_id, x->line.page->export_id, sizeof(d.export_id));
	n = descriptor_format(bytes, &d, opts->key, opts->key_len, CALL);
	return n < 0 ? n : export_keep(ret, x, d.kind, bytes, (size_t)n, CALL);
}

static int export_with(struct export_blob **ret, struct weir_mmap *mmap,
		       const struct weir_export_opts *opts)
{
	int err = memfd_seal(mmap, may_write(mmap, opts));
	bool copy = (err == -EOPNOTSUPP || err == -EACCES) &&
		    opts->flags & WEIR_EXPORT_COPY;
	struct mmap_export *x;

	if (err && !copy)
		return err;
	x = export_get(mmap, CALL);
	if (!x)
		return -ENOMEM;
	err = x->line.page ? 0 : lifeline_open(&x->line);
	if (!err)
		err = describe(ret, mmap, x, opts, copy);
	if (!err)
		mmap->export = x;
	else if (x != mmap->export)
		export_free(x);
	return err;
}

int weir_mmap_export(struct weir_mmap *mmap,
		     const struct weir_export_opts *user,
		     struct weir_export_desc *ret)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_export_opts opts;
	struct export_blob *blob = NULL;
	int err = opts_capacity(ret, CALL);

	if (!err)
		err = opts_load(&opts, sizeof(opts), user, CALL);
	if (!err)
		err = check_opts(&opts);
	if (!err)
		err = check_mmap(mmap, &opts);
	if (!err)
		err = export_with(&blob, mmap, &opts);
	if (err)
		return err;
	desc.bytes = blob->bytes;
	desc.len = blob->len;
	desc.n_fds = EXPORT_FDS;
	desc.fds[EXPORT_FD_RANGE] = blob->kind == DESCRIPTOR_PROCESS ?
				    mmap->export->pidfd : mmap->fd;
	desc.fds[EXPORT_FD_CONTROL] = mmap->export->line.page_fd;
	desc.fds[EXPORT_FD_LIFELINE] = mmap->export->line.read_fd;
	desc.fds[EXPORT_FDS] = -1;
	return opts_give(ret, &desc, sizeof(desc), CALL);
}

void export_revoke(struct weir_mmap *mmap)
{
	struct mmap_export *x = mmap->export;

	mmap->export = NULL;
	export_free(x);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Exports: the page with the generation, the descriptor, revocation, leases. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <weir/lease.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/mutation.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/export/internal.h"
#include "reactor/op-inline.h"
#include "reactor/reactor-internal.h"

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

/* Whether fence() can be promised to importers. */
static bool can_fence(void)
{
	long can = process_barrier(BARRIER_QUERY);

	return can > 0 && (can & BARRIER_GLOBAL_EXPEDITED) &&
	       !process_barrier(BARRIER_GLOBAL_EXPEDITED);
}

/*
 * A fence here, and one in each importer that goes without: they see what was
 * written before, and what they wrote before is seen here.  A call that has
 * worked once fails only if a filter of system calls was installed since.  Then
 * time does it: others see what a processor has written within nanoseconds, or
 * when it next changes threads.
 */
static void fence(void)
{
	struct timespec moment = { .tv_nsec = 1000000 };

	if (process_barrier(BARRIER_GLOBAL_EXPEDITED))
		nanosleep(&moment, NULL);
}

/* Write our pid and start time, for importers that wait for our end. */
static void sign(struct control *page)
{
	page->pid = (uint64_t)getpid();
	page->start_time = process_start_time(getpid());
	page->pid_namespace = process_pid_namespace();
	page->fences = can_fence();
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
	sign(page);
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
static int pages_open(struct lifeline *line, struct presence *presence)
{
	int err;

	*line = (struct lifeline){ NULL, -1, -1, -1 };
	err = open_all(line);
	if (!err)
		err = presence_create(presence);
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
	if (line->page->fences)
		fence();
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

/*
 * The exporter's side: what an mmap has given away, until it is stopped.
 *
 * One lifeline and one export id for all that it was exported as.  Descriptors
 * with different options are different bytes, which are kept: the ones made
 * first may still be in use.  Equal options give equal bytes, so that
 * exporting again and again needs no more memory, and no key is kept.
 */

#define CALL "weir_mmap_export"
#define OR_COPY "; WEIR_EXPORT_COPY exports it by copying"
#define PEER (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)
#define BLOBS_MAX 256

/*
 * Memory that is shared as it is: a memfd that holds the range and nothing
 * else, and the seals that make it safe for both.
 *
 * SHRINK, because a file that is cut under a mapping is a SIGBUS.  GROW, so
 * that nothing else comes into it.  SEAL, lest an importer seals it against us.
 * FUTURE_WRITE for what importers may only read: nothing weaker holds, for a
 * memfd can be opened again through /proc by a process of the same user.
 */

/*
 * Whether what importers will see behind the range, up to the end of its last
 * page, is 0.  The kernel maps the page of which the file has a part as a
 * whole, so it is looked at where it is mapped: behind the end of the file
 * there may be something, too.
 */
static bool padding_is_zero(const struct weir_mmap *mmap, size_t page_size)
{
	const char *p = mmap->addr + mmap->len;
	const char *end = mmap->addr + memfd_round(mmap->len, page_size);

	while (p < end && !*p)
		p++;
	return p == end;
}

static int check_alone(const struct weir_mmap *mmap, bool write)
{
	size_t page_size = mmap->page_size;
	struct stat st;

	if (mmap->fd < 0 || (mmap->range != MMAP_FD &&
			     mmap->range != MMAP_ALLOC))
		return why(-EOPNOTSUPP, CALL ": the memory is not a memfd's, see "
			   "weir_mmap_alloc()" OR_COPY);
	if (fcntl(mmap->fd, F_GET_SEALS) < 0)
		return why(-EOPNOTSUPP, CALL ": the file is not a memfd" OR_COPY);
	if (memfd_is_huge(mmap->fd, &page_size) && write)
		return why(-EOPNOTSUPP, CALL ": who writes to a memfd of huge "
			   "pages can also take them away from under us; use "
			   "ordinary pages, or let importers only read");
	if (fstat(mmap->fd, &st) || mmap->fd_off ||
	    (size_t)st.st_size < mmap->len ||
	    (size_t)st.st_size > memfd_round(mmap->len, page_size) ||
	    !padding_is_zero(mmap, page_size))
		return why(-EOPNOTSUPP, CALL ": the memfd holds other data "
			   "beside the range; give it one of its own" OR_COPY);
	return 0;
}

static int memfd_seal(const struct weir_mmap *mmap, bool write)
{
	int err = check_alone(mmap, write);
	int seals;

	if (err)
		return err;
	seals = fcntl(mmap->fd, F_GET_SEALS);
	if (write && (seals & RANGE_READ_ONLY))
		return why(-EACCES, CALL ": the memfd was exported for reading "
			   "only, which cannot be undone");
	if (!write && !(seals & RANGE_READ_ONLY) && (seals & F_SEAL_SEAL))
		return why(-EACCES, CALL ": the memfd was exported for writing, "
			   "and has one right for all importers");
	if ((seals & F_SEAL_SEAL) && (seals & RANGE_SEALS) == RANGE_SEALS)
		return 0;
	seals = RANGE_SEALS | F_SEAL_SEAL | (write ? 0 : F_SEAL_FUTURE_WRITE);
	if (fault("seal") || fcntl(mmap->fd, F_ADD_SEALS, seals))
		return why(-EOPNOTSUPP, CALL ": the memfd cannot be sealed; make "
			   "it with MFD_ALLOW_SEALING" OR_COPY);
	return 0;
}

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

static struct mmap_export *export_alloc(const char *call)
{
	struct mmap_export *x = mem_calloc(1, sizeof(*x));

	if (!x) {
		why(-ENOMEM, "%s: no memory", call);
		return NULL;
	}
	x->pidfd = -1;
	x->owner = getpid();
	x->presence.fd = -1;
	return x;
}

struct mmap_export *export_get(const struct weir_mmap *mmap, const char *call)
{
	return mmap->export ? mmap->export : export_alloc(call);
}

/*
 * Leases: exports of an mmap beside the one that all importers share, each with
 * pages of its own.
 *
 *	OPEN ----------------> ENDING -------------------> OVER
 *	     revoke, its time,        no importer is busy
 *	     the mmap's exports end
 *
 * While it is open, its export is in the mmap's list of leases; while it is
 * ending, among those that are revoked.  When that list forgets the export, the
 * lease is over and does not need the mmap any more.
 *
 * A lease by a device has no pages, but a registration of its own, which its end
 * takes back.  It stays in the list of leases until it is freed or the mmap's
 * exports end, which takes back all registrations.
 *
 * The time of its end is in the control page, where importers look before each
 * slice.  In a world time is virtual, and importers do not look: there our timer
 * alone ends it.
 */

struct export_wait;

struct weir_lease {
	struct weir_reactor *r;
	struct weir_mmap *mmap;
	struct mmap_export *x;		/* NULL: it is over. */
	struct export_blob *blob;
	struct export_wait *waiter;	/* For its end; NULL: none. */
	struct weir_timer_node timer;
	uint64_t end;			/* By the reactor's clock; 0: none. */
	uint32_t n_ops;			/* In flight. */
	bool is_open;
	struct reactor_obj obj;
};

static void export_end(struct mmap_export *x)
{
	if (x->line.page && x->owner == getpid())
		lifeline_cut(&x->line);
	else if (x->line.page)
		close_all(&x->line);
}

void export_free(struct mmap_export *x)
{
	struct export_blob *blob;

	export_end(x);
	if (x->lease)
		x->lease->x = NULL;
	presence_close(&x->presence);
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

/* The file descriptors that go with the bytes of @kind, in their order. */
static void files_of(int fds[EXPORT_FDS], const struct weir_mmap *mmap,
		     const struct mmap_export *x, uint32_t kind)
{
	fds[EXPORT_FD_RANGE] = kind == DESCRIPTOR_PROCESS ? x->pidfd : mmap->fd;
	fds[EXPORT_FD_CONTROL] = x->line.page_fd;
	fds[EXPORT_FD_LIFELINE] = x->line.read_fd;
	fds[EXPORT_FD_PRESENCE] = x->presence.fd;
}

static int name_files(struct descriptor *d, const struct weir_mmap *mmap,
		      const struct mmap_export *x)
{
	int fds[EXPORT_FDS], i, err = 0;

	files_of(fds, mmap, x, d->kind);
	for (i = 0; i < EXPORT_FDS && !err; i++)
		err = export_file(&d->files[i], fds[i], d->kind, i);
	return err ? why(err, CALL ": %s", strerror(-err)) : 0;
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
	n = name_files(&d, mmap, x);
	if (n)
		return n;
	n = descriptor_format(bytes, &d, opts->key, opts->key_len, CALL);
	return n < 0 ? n : export_keep(ret, x, d.kind, bytes, (size_t)n, CALL);
}

static int export_with(struct export_blob **ret, struct mmap_export **slot,
		       struct weir_mmap *mmap,
		       const struct weir_export_opts *opts)
{
	int err = memfd_seal(mmap, may_write(mmap, opts));
	bool copy = (err == -EOPNOTSUPP || err == -EACCES) &&
		    opts->flags & WEIR_EXPORT_COPY;
	struct mmap_export *x = *slot;

	if (err && !copy)
		return err;
	if (!x)
		x = export_alloc(CALL);
	if (!x)
		return -ENOMEM;
	err = x->line.page ? 0 : pages_open(&x->line, &x->presence);
	if (!err)
		err = describe(ret, mmap, x, opts, copy);
	if (!err)
		*slot = x;
	else if (x != *slot)
		export_free(x);
	return err;
}

static int export_open(struct export_blob **ret, struct mmap_export **slot,
		       struct weir_mmap *mmap,
		       const struct weir_export_opts *opts)
{
	int err = check_opts(opts);

	if (!err)
		err = check_mmap(mmap, opts);
	return err ? err : export_with(ret, slot, mmap, opts);
}

static int export_give(struct weir_export_desc *ret,
		       const struct weir_mmap *mmap,
		       const struct mmap_export *x,
		       const struct export_blob *blob, const char *call)
{
	struct weir_export_desc desc = {
		.size = sizeof(desc),
		.bytes = blob->bytes,
		.len = blob->len,
	};

	memset(desc.fds, 0xff, sizeof(desc.fds));
	if (blob->kind != DESCRIPTOR_DEVICE) {
		desc.n_fds = EXPORT_FDS;
		files_of(desc.fds, mmap, x, blob->kind);
	}
	return opts_give(ret, &desc, sizeof(desc), call);
}

int weir_mmap_export(struct weir_mmap *mmap,
		     const struct weir_export_opts *user,
		     struct weir_export_desc *ret)
{
	struct weir_export_opts opts;
	struct export_blob *blob = NULL;
	int err = opts_capacity(ret, CALL);

	if (!err)
		err = opts_load(&opts, sizeof(opts), user, CALL);
	if (!err)
		err = export_open(&blob, &mmap->export, mmap, &opts);
	return err ? err : export_give(ret, mmap, mmap->export, blob, CALL);
}

/*
 * Revocation: what an mmap was exported as ends, and it is known when the last
 * importer has stopped.
 *
 *	exported --> revoked --> over
 *	     generation + 1   no place of the presence page is busy
 *
 * From the first step on no import succeeds and no job of an importer begins;
 * one that is running sees it before its next slice.  Nothing tells of the
 * second, so the exporter looks: soon at first, then less often.
 *
 * The list of what is revoked belongs to the mmap's owner, as all of an export.
 */

#define REVOKE "weir_mmap_revoke"

static void retire(struct weir_mmap *mmap, struct mmap_export *x)
{
	export_end(x);
	if (!x->presence.page || x->owner != getpid()) {
		export_free(x);
		return;
	}
	x->next = mmap->revoked;
	mmap->revoked = x;
}

static void wait_look(struct export_wait *w);
static void wait_later(struct export_wait *w);
static uint32_t count_lease(const struct weir_lease *lease, char *names,
			    size_t len);

/* Nothing is granted by it any more. */
static void close_lease(struct weir_lease *lease)
{
	lease->is_open = false;
	wheel_del(&lease->r->wheel, &lease->timer);
	if (lease->waiter)
		wait_look(lease->waiter);
}

/* It has left the mmap's list. */
static void retire_lease(struct weir_lease *lease)
{
	debug_check(lease->is_open || lease->x->device);
	retire(lease->mmap, lease->x);
	close_lease(lease);
}

static void unlist(struct weir_lease *lease)
{
	struct mmap_export **p = &lease->mmap->leases;

	while (*p != lease->x)
		p = &(*p)->next;
	*p = lease->x->next;
}

static void lease_end(struct weir_lease *lease)
{
	debug_check(lease->is_open);
	if (lease->x->device) {
		close_lease(lease);
		(void)count_lease(lease, NULL, 0);
		return;
	}
	unlist(lease);
	retire_lease(lease);
}

/* If the device of @x, a lease, waits for its importers, the lease begins to end, and
 * stays in the list.  The mmap may be locked, so the device is not asked here. */
static bool begins_to_end(struct weir_mmap *mmap, const struct mmap_export *x)
{
	struct weir_lease *lease = x->lease;

	if (!x->device || !mmap_mr_is_ending(mmap, x->device, x))
		return false;
	if (!lease->is_open)
		return true;
	lease->is_open = false;
	wheel_del(&lease->r->wheel, &lease->timer);
	if (lease->waiter)
		wait_later(lease->waiter);
	return true;
}

void export_revoke(struct weir_mmap *mmap, bool all)
{
	struct mmap_export *x = mmap->export, **p = &mmap->leases;

	if (all && x) {
		mmap->export = NULL;
		retire(mmap, x);
	}
	while ((x = *p)) {
		if (begins_to_end(mmap, x) || !all) {
			p = &x->next;
		} else {
			*p = x->next;
			retire_lease(x->lease);
		}
	}
}

/* A forked child has importers of its parent's in its list. */
static uint32_t count_one(const struct mmap_export *x, char *names, size_t len)
{
	return x->presence.page && x->owner == getpid() ?
		       presence_count_busy(&x->presence, names, len) : 0;
}

/* Ask the device to take the registration back, once more: 0 if it has. */
static uint32_t count_device(const struct weir_lease *lease, char *names,
			     size_t len)
{
	struct weir_device *device = lease->x->device;
	int err = lease->is_open ? 0 :
		  mmap_mr_end(lease->mmap, device, lease->x);

	if (err == -EINPROGRESS && names)
		snprintf(names, len, "%s", weir_why());
	else if (err && names)
		snprintf(names, len, "device %s (%s)", device_name(device),
			 strerror(-err));
	return err != 0;
}

static uint32_t count_lease(const struct weir_lease *lease, char *names,
			    size_t len)
{
	if (names)
		names[0] = '\0';
	if (!lease->x)
		return 0;
	return lease->x->device ? count_device(lease, names, len) :
				  count_one(lease->x, names, len);
}

uint32_t export_count_busy(struct weir_mmap *mmap, bool exported, char *names,
			   size_t len)
{
	struct mmap_export **p = &mmap->revoked, *x;
	uint32_t n = 0, some;

	if (names)
		names[0] = '\0';
	while ((x = *p)) {
		some = count_one(x, names, len);
		if (some) {
			p = &x->next;
		} else {
			*p = x->next;
			export_free(x);
		}
		n += some;
	}
	if (!exported)
		return n;
	if (mmap->export)
		n += count_one(mmap->export, names, len);
	for (x = mmap->leases; x; x = x->next)
		n += count_one(x, names, len);
	return n;
}

/* Returns 0, -EINPROGRESS if importers use it, or another errno of a device. */
static int ask(struct weir_mmap *mmap, const struct weir_lease *lease, char *names,
	       size_t len)
{
	int err;

	if (lease)
		return count_lease(lease, names, len) ? -EINPROGRESS : 0;
	if (export_count_busy(mmap, false, names, len))
		return -EINPROGRESS;
	pthread_mutex_lock(&mmap->lock);
	err = mmap_keys_ask_again(mmap, names, len);
	pthread_mutex_unlock(&mmap->lock);
	return err;
}

/* The operation that waits for importers. */

struct export_wait {
	struct weir_op *op;
	struct weir_mmap *mmap;		/* NULL: of a lease that is over. */
	struct weir_lease *lease;	/* NULL: for all that is revoked. */
	const char *call;
	struct weir_timer_node timer;
	uint64_t since;
	bool is_over;			/* Its callback is due. */
};

static struct export_wait *wait_of(const struct weir_op *op)
{
	return (struct export_wait *)(uintptr_t)op->u.words[0];
}

static void wait_end(struct export_wait *w, int err)
{
	debug_check(!w->is_over);
	wheel_del(&w->op->reactor->wheel, &w->timer);
	w->is_over = true;
	op_complete(w->op, err);
}

/* The callback begins: only now the mmap or the lease can be destroyed. */
static void wait_leave(struct weir_op *op)
{
	struct export_wait *w = wait_of(op);

	if (w->mmap)
		atomic_fetch_sub(&w->mmap->revokes, 1);
	if (w->lease)
		w->lease->n_ops--;
	if (w->lease && w->lease->waiter == w)
		w->lease->waiter = NULL;
	free(w);
}

static void wait_later(struct export_wait *w)
{
	struct weir_reactor *r = w->op->reactor;

	if (w->is_over)
		return;		/* It was cancelled; now its lease ends. */
	wheel_add(&r->wheel, &w->timer,
		  export_look_again(w->since, reactor_now(r)));
	reactor_touch(r);
}

static void wait_look(struct export_wait *w)
{
	int err;

	if (w->is_over)
		return;		/* Likewise. */
	err = mutation(early_revoke) ? 0 : ask(w->mmap, w->lease, NULL, 0);
	if (err == -EINPROGRESS)
		wait_later(w);
	else
		wait_end(w, err);
}

static void look_again(struct weir_timer_node *node)
{
	wait_look(weir_container_of(node, struct export_wait, timer));
}

static void cancel(struct weir_op *op)
{
	struct export_wait *w = wait_of(op);
	bool is_open = w->lease && w->lease->is_open;
	char names[200];
	int err;

	debug_check(op_cancel_wanted(op));
	err = is_open ? why(-ECANCELED, "%s: the lease has not ended", w->call) :
			ask(w->mmap, w->lease, names, sizeof(names));
	if (err == -EINPROGRESS)
		err = why(-ECANCELED, "%s: importers still use the memory: %s; "
			  "wait again, or end them", w->call, names);
	wait_end(w, err);
}

static const struct weir_op_class wait_class = {
	.name = "mmap revoke",
	.cancel = cancel,
	.leave = wait_leave,
};

/* Put @op in flight; *@ret stays NULL if it is late, and has ended without
 * effect. */
static int wait_begin(struct export_wait **ret, struct weir_mmap *mmap,
		      struct weir_lease *lease, struct weir_reactor *r,
		      struct weir_op *op, const char *call)
{
	struct export_wait *w = mem_calloc(1, sizeof(*w));
	int err;

	if (!w)
		return why(-ENOMEM, "%s: no memory", call);
	err = op_admit(r, op);
	if (err) {
		free(w);
		return op_refused(err, op, call);
	}
	err = lease ? 0 : mmap_keys_revoke(mmap, call);
	if (err) {
		free(w);
		return err;
	}
	w->op = op;
	w->mmap = mmap;
	w->lease = lease;
	w->call = call;
	w->timer.fire = look_again;
	w->since = reactor_now(r);
	op->u.words[0] = (uintptr_t)w;
	op_enlist(r, op, &wait_class);
	op->flags |= OP_LEAVES;
	if (mmap)
		atomic_fetch_add(&mmap->revokes, 1);
	if (lease)
		lease->n_ops++;
	*ret = w;
	return 0;
}

int weir_mmap_revoke(struct weir_mmap *mmap, struct weir_reactor *r,
		     struct weir_op *op)
{
	struct export_wait *w = NULL;
	char names[200];
	int err;

	if (mmap->import)
		return why(-EPERM, REVOKE ": the mmap is imported; only its "
			   "owner can revoke it");
	if (op && !r)
		return why(-EINVAL, REVOKE ": an operation without a reactor");
	err = op ? wait_begin(&w, mmap, NULL, r, op, REVOKE) :
		   mmap_keys_revoke(mmap, REVOKE);
	if (!err && op && !w)
		return 0;
	export_revoke(mmap, !err);
	if (err)
		return err;
	if (w)
		wait_look(w);
	else
		err = ask(mmap, NULL, names, sizeof(names));
	if (err == -EINPROGRESS)
		return why(err, REVOKE ": importers still use the "
			   "memory: %s; revoke with an operation to wait for "
			   "them", names);
	return err;
}

/* Leases; see struct weir_lease. */

#define LEASE "weir_lease_create"

static void on_time(struct weir_timer_node *node)
{
	lease_end(weir_container_of(node, struct weir_lease, timer));
}

/* The end is @duration from now; in a long callback the time of the turn would
 * be too early. */
static void set_end(struct weir_lease *lease, uint64_t duration)
{
	struct weir_reactor *r = lease->r;
	uint64_t now = reactor_now_fresh(r);

	lease->end = duration && duration < UINT64_MAX - now ? now + duration : 0;
	if (lease->x->line.page)
		atomic_store(&lease->x->line.page->not_after,
			     lease->x->line.page->time_namespace ? lease->end :
								   0);
	wheel_del(&r->wheel, &lease->timer);
	if (!lease->end)
		return;
	wheel_add(&r->wheel, &lease->timer, lease->end);
	reactor_touch(r);
}

/* By a device: with a registration of its own. */
static int open_registration(struct weir_lease *lease,
			     struct weir_device *device,
			     struct weir_export_opts *opts)
{
	struct mmap_export *x = export_alloc(LEASE);
	int err;

	if (!x)
		return -ENOMEM;
	x->device = device;
	x->r = lease->r;
	err = export_by_device(&lease->blob, lease->mmap, device, x, opts,
			       LEASE);
	if (err) {
		/* If the device keeps it, the stop of the mmap ends it. */
		(void)mmap_mr_end(lease->mmap, device, x);
		export_free(x);
		return err;
	}
	lease->x = x;
	return 0;
}

static int open_export(struct weir_lease *lease,
		       const struct weir_lease_opts *opts)
{
	struct weir_export_opts eo = {
		.size = sizeof(eo),
		.flags = opts->flags,
		.permissions = opts->permissions,
		.key = opts->key,
		.key_len = opts->key_len,
	};
	int err;

	if (opts->device)
		return open_registration(lease, opts->device, &eo);
	err = export_open(&lease->blob, &lease->x, lease->mmap, &eo);
	if (err)
		return err;
	if (!lease->r->backend->observe)
		lease->x->line.page->time_namespace = process_time_namespace();
	return 0;
}

int weir_lease_create(struct weir_lease **ret, struct weir_reactor *r,
		      struct weir_mmap *mmap,
		      const struct weir_lease_opts *user)
{
	struct weir_lease_opts opts;
	struct weir_lease *lease;
	int err = opts_load(&opts, sizeof(opts), user, LEASE);

	if (err)
		return err;
	lease = mem_calloc(1, sizeof(*lease));
	if (!lease)
		return why(-ENOMEM, LEASE ": no memory");
	lease->r = r;
	lease->mmap = mmap;
	lease->timer.fire = on_time;
	err = reactor_attach(r, &lease->obj, "weir_lease");
	if (!err) {
		err = open_export(lease, &opts);
		if (err)
			reactor_detach(&lease->obj);
	}
	if (err) {
		free(lease);
		return err;
	}
	lease->is_open = true;
	lease->x->lease = lease;
	lease->x->next = mmap->leases;
	mmap->leases = lease->x;
	set_end(lease, opts.duration_ns);
	*ret = lease;
	return 0;
}

static int has_ended(const char *call)
{
	return why(-ESTALE, "%s: the lease has ended", call);
}

int weir_lease_export(const struct weir_lease *lease,
		      struct weir_export_desc *ret)
{
	int err = opts_capacity(ret, "weir_lease_export");

	if (err)
		return err;
	if (!lease->is_open)
		return has_ended("weir_lease_export");
	return export_give(ret, lease->mmap, lease->x, lease->blob,
			   "weir_lease_export");
}

int weir_lease_renew(struct weir_lease *lease, uint64_t duration_ns)
{
	/* Importers may have seen the end before our timer has. */
	if (lease->is_open && lease->end &&
	    reactor_now_fresh(lease->r) >= lease->end)
		lease_end(lease);
	if (!lease->is_open)
		return has_ended("weir_lease_renew");
	set_end(lease, duration_ns);
	return 0;
}

int weir_mmap_is_exported(const struct weir_mmap *mmap)
{
	const struct mmap_export *x = mmap->leases;

	while (x && !x->lease->is_open)
		x = x->next;
	return mmap->export || x;
}

/* Put @op in flight. */
static int begin_wait(struct export_wait **ret, struct weir_lease *lease,
		      struct weir_op *op, const char *call)
{
	return wait_begin(ret, lease->x ? lease->mmap : NULL, lease,
				 lease->r, op, call);
}

int weir_lease_revoke(struct weir_lease *lease, struct weir_op *op)
{
	struct export_wait *w = NULL;
	char names[200];
	int err = op ? begin_wait(&w, lease, op, "weir_lease_revoke") : 0;

	if (err || (op && !w))
		return err;
	if (lease->is_open)
		lease_end(lease);
	if (w)
		wait_look(w);
	else if (count_lease(lease, names, sizeof(names)))
		return why(-EINPROGRESS, "weir_lease_revoke: importers still "
			   "use the memory: %s; revoke with an operation to "
			   "wait for them", names);
	return 0;
}

int weir_lease_wait(struct weir_lease *lease, struct weir_op *op)
{
	struct export_wait *w = NULL;
	int err;

	if (lease->waiter)
		return why(-EBUSY, "weir_lease_wait: another wait is in flight");
	err = begin_wait(&w, lease, op, "weir_lease_wait");
	if (err || !w)
		return err;
	lease->waiter = w;
	if (!lease->is_open)
		wait_look(w);
	return 0;
}

int weir_lease_info(const struct weir_lease *lease,
		    struct weir_lease_info *ret)
{
	struct weir_lease_info info = {
		.size = sizeof(info),
		.state = lease->is_open ? WEIR_LEASE_OPEN : WEIR_LEASE_ENDING,
	};
	uint64_t now = reactor_now_fresh(lease->r);
	int err = opts_capacity(ret, "weir_lease_info");

	if (err)
		return err;
	info.busy = count_lease(lease, NULL, 0);
	if (!lease->is_open && !info.busy)
		info.state = WEIR_LEASE_OVER;
	if (lease->is_open && lease->end)
		info.left_ns = lease->end > now ? lease->end - now : 0;
	else if (lease->is_open)
		info.left_ns = WEIR_FOREVER;
	return opts_give(ret, &info, sizeof(info), "weir_lease_info");
}

/* Returns how many importers are busy; if @lease is still open, it was so at
 * the start. */
static uint32_t end_at_once(struct weir_lease *lease, char *names, size_t len)
{
	unsigned int tries = 0;
	uint32_t n = count_lease(lease, names, len);

	if (lease->is_open && !n)
		lease_end(lease);
	do {
		n = count_lease(lease, names, len);
	} while (n && !lease->is_open && export_pause(&tries));
	return n;
}

int weir_lease_destroy(struct weir_lease *lease)
{
	char names[200];

	if (!lease)
		return 0;
	if (lease->n_ops)
		return why(-EBUSY, "weir_lease_destroy: an operation on the "
			   "lease is in flight; cancel that first");
	if (end_at_once(lease, names, sizeof(names)))
		return why(-EBUSY, "weir_lease_destroy: importers still use the "
			   "memory: %s; revoke the lease with an operation to "
			   "wait for them", names);
	if (lease->x && lease->x->device) {
		unlist(lease);
		export_free(lease->x);
	} else if (lease->x) {
		lease->x->lease = NULL;
	}
	reactor_detach(&lease->obj);
	free(lease);
	return 0;
}

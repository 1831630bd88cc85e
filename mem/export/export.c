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
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
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

/* Who we are, for importers that wait for our end. */
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

struct mmap_export *export_get(const struct weir_mmap *mmap, const char *call)
{
	struct mmap_export *x = mmap->export;

	if (x)
		return x;
	x = mem_calloc(1, sizeof(*x));
	if (!x) {
		why(-ENOMEM, "%s: no memory", call);
		return NULL;
	}
	x->pidfd = -1;
	x->owner = getpid();
	x->presence.fd = -1;
	return x;
}

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
	err = x->line.page ? 0 : pages_open(&x->line, &x->presence);
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
	memset(desc.fds, 0xff, sizeof(desc.fds));
	files_of(desc.fds, mmap, mmap->export, blob->kind);
	return opts_give(ret, &desc, sizeof(desc), CALL);
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

void export_revoke(struct weir_mmap *mmap)
{
	struct mmap_export *x = mmap->export;

	mmap->export = NULL;
	if (!x)
		return;
	export_end(x);
	if (!x->presence.page || x->owner != getpid()) {
		export_free(x);
		return;
	}
	x->next = mmap->revoked;
	mmap->revoked = x;
}

/* A forked child has importers of its parent's in its list. */
static uint32_t count(const struct mmap_export *x, char *names, size_t len)
{
	return x->presence.page && x->owner == getpid() ?
		       presence_count_busy(&x->presence, names, len) : 0;
}

uint32_t export_count_busy(struct weir_mmap *mmap, bool exported, char *names,
			   size_t len)
{
	struct mmap_export **p = &mmap->revoked, *x;
	uint32_t n = 0, some;

	if (names)
		names[0] = '\0';
	while ((x = *p)) {
		some = count(x, names, len);
		if (some) {
			p = &x->next;
		} else {
			*p = x->next;
			export_free(x);
		}
		n += some;
	}
	if (exported && mmap->export)
		n += count(mmap->export, names, len);
	return n;
}

/* The operation. */

struct revoke {
	struct weir_op *op;
	struct weir_mmap *mmap;
	struct weir_timer_node timer;
	uint64_t since;
};

static struct revoke *revoke_of(const struct weir_op *op)
{
	return (struct revoke *)(uintptr_t)op->u.words[0];
}

static void end(struct revoke *v, int err)
{
	struct weir_op *op = v->op;

	debug_check(atomic_load(&v->mmap->revokes) > 0);
	wheel_del(&op->reactor->wheel, &v->timer);
	atomic_fetch_sub(&v->mmap->revokes, 1);
	free(v);
	op_complete(op, err);
}

static void look(struct revoke *v)
{
	struct weir_reactor *r = v->op->reactor;
	uint64_t now = reactor_now(r);

	if (!export_count_busy(v->mmap, false, NULL, 0)) {
		end(v, 0);
		return;
	}
	wheel_add(&r->wheel, &v->timer, export_look_again(v->since, now));
	reactor_touch(r);
}

static void look_again(struct weir_timer_node *node)
{
	look(weir_container_of(node, struct revoke, timer));
}

static void cancel(struct weir_op *op)
{
	struct revoke *v = revoke_of(op);
	char names[200];

	debug_check(op_cancel_wanted(op));
	if (!export_count_busy(v->mmap, false, names, sizeof(names))) {
		end(v, 0);
		return;
	}
	end(v, why(-ECANCELED, REVOKE ": importers still use the memory: %s; "
		   "wait again, or end them", names));
}

static const struct weir_op_class revoke_class = {
	.name = "mmap revoke",
	.cancel = cancel,
};

static int revoke_by(struct weir_mmap *mmap, struct weir_reactor *r,
		     struct weir_op *op)
{
	struct revoke *v = mem_calloc(1, sizeof(*v));
	int err;

	if (!v)
		return why(-ENOMEM, REVOKE ": no memory");
	err = op_admit(r, op);
	if (!err)
		err = mmap_keys_revoke(mmap, REVOKE);
	if (err) {
		free(v);
		return op_admitted(err);
	}
	v->op = op;
	v->mmap = mmap;
	v->timer.fire = look_again;
	v->since = reactor_now(r);
	op->u.words[0] = (uintptr_t)v;
	op_enlist(r, op, &revoke_class);
	atomic_fetch_add(&mmap->revokes, 1);
	export_revoke(mmap);
	look(v);
	return 0;
}

int weir_mmap_revoke(struct weir_mmap *mmap, struct weir_reactor *r,
		     struct weir_op *op)
{
	char names[200];
	uint32_t n;
	int err;

	if (mmap->import)
		return why(-EPERM, REVOKE ": the mmap is imported; only its "
			   "owner can revoke it");
	if (op && !r)
		return why(-EINVAL, REVOKE ": an operation without a reactor");
	if (op)
		return revoke_by(mmap, r, op);
	err = mmap_keys_revoke(mmap, REVOKE);
	if (err)
		return err;
	export_revoke(mmap);
	n = export_count_busy(mmap, false, names, sizeof(names));
	if (n)
		return why(-EINPROGRESS, REVOKE ": importers still use the "
			   "memory: %s; revoke with an operation to wait for "
			   "them", names);
	return 0;
}

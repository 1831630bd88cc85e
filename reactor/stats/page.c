/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page of this process: its place, a page of another, made and taken away.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "reactor/stats/page-internal.h"
#include "reactor/stats/place.h"
#include "reactor/stats/read.h"

/* The directories and names of pages, and the data of processes in /proc. */

static bool fits(int n)
{
	return n > 0 && n < PLACE_MAX;
}

/* In a program that has more rights than its user, the environment is not to
 * be trusted: secure_getenv(). */
enum asked place_asked(const char **dir)
{
	const char *asked = secure_getenv("WEIR_STATS");
	bool offer;

	*dir = NULL;
	if (!asked)
		return ASKED_NOTHING;
	if (!strcmp(asked, "1"))
		return ASKED_PAGE;
	if (!strcmp(asked, "offer"))
		return ASKED_OFFER;
	offer = !strncmp(asked, "offer:", 6);
	if (offer)
		asked += 6;
	if (*asked != '/')
		return ASKED_NOTHING;
	*dir = asked;
	return offer ? ASKED_OFFER : ASKED_PAGE;
}

bool place_path(char path[PLACE_MAX], unsigned int i, uid_t uid)
{
	const char *named;

	switch (i) {
	case 0:
		place_asked(&named);
		return named &&
		       fits(snprintf(path, PLACE_MAX, "%s", named));
	case 1:
		named = secure_getenv("XDG_RUNTIME_DIR");
		return named && *named == '/' && uid == geteuid() &&
		       fits(snprintf(path, PLACE_MAX, "%s/weir", named));
	case 2:
		return fits(snprintf(path, PLACE_MAX, "/run/user/%u/weir",
				     (unsigned int)uid));
	case 3:
		return uid == 0 &&	/* No other user can make it. */
		       fits(snprintf(path, PLACE_MAX, "/run/weir"));
	case 4:
		return fits(snprintf(path, PLACE_MAX, "/dev/shm/weir-%u",
				     (unsigned int)uid));
	default:
		return false;
	}
}

static int check_dir(int fd, const char *path, uid_t uid, const char *call)
{
	struct stat st;

	if (fstat(fd, &st))
		return why(-errno, "%s: fstat of %s: %s", call, path,
			   strerror(errno));
	if (st.st_uid != uid)
		return why(-EACCES, "%s: %s belongs to user %u, not to %u", call,
			   path, (unsigned int)st.st_uid, (unsigned int)uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return why(-EACCES, "%s: others may write to %s; chmod 0700 it",
			   call, path);
	return 0;
}

int place_open(const char *path, bool make, uid_t uid, const char *call)
{
	int err, fd;

	if (fault("stats directory"))
		return why(-EMFILE, "%s: %s", call, strerror(EMFILE));
	if (make && mkdir(path, 0700) && errno != EEXIST)
		return why(-errno, "%s: mkdir of %s: %s", call, path,
			   strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return why(-errno, "%s: %s: %s", call, path, strerror(errno));
	err = check_dir(fd, path, uid, call);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

void page_name(char name[PAGE_NAME_MAX], int64_t pid, uint64_t pid_ns)
{
	snprintf(name, PAGE_NAME_MAX, "%" PRId64 "-%" PRIu64, pid, pid_ns);
}

bool page_name_parse(const char *name, int64_t *pid, uint64_t *pid_ns)
{
	char again[PAGE_NAME_MAX];

	if (sscanf(name, "%" SCNd64 "-%" SCNu64, pid, pid_ns) != 2 || *pid <= 0)
		return false;
	page_name(again, *pid, *pid_ns);
	return !strcmp(name, again);
}

bool page_is_stale(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB))
		return false;
	flock(fd, LOCK_UN);
	return true;
}

static uint64_t pid_ns_of(int64_t pid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRId64 "/ns/pid", pid);
	return stat(path, &st) ? 0 : (uint64_t)st.st_ino;
}

uint64_t own_pid_ns(void)
{
	return pid_ns_of(getpid());
}

/* The 22nd field; the second, the program's name, may have anything in it. */
uint64_t start_ticks(int64_t pid)
{
	char path[64], text[1024];
	const char *p;
	ssize_t n;
	int fd, i;

	snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	for (i = 2; p && i < 22; i++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

/* The owner of /proc/PID itself is root for a process that must not be
 * traced. */
static int pid_owner(int64_t pid, uid_t *ret)
{
	char path[64], line[256];
	unsigned int uid;
	int err = -ESRCH;
	FILE *f;

	if (pid <= 0 || pid > INT32_MAX)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%" PRId64 "/status", pid);
	f = fopen(path, "re");
	while (f && err && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %*u %u", &uid) == 1)
			err = 0;
	if (f)
		fclose(f);
	if (!err) {
		*ret = uid;
		return 0;
	}
	/* Without /proc, or if it hides the processes of others, it may be
	 * ours. */
	if (kill((pid_t)pid, 0) && errno == ESRCH)
		return -ESRCH;
	*ret = geteuid();
	return 0;
}

/* The calls for readers: find a page, open it, and read it. */

#define OPEN "weir_stats_open"
#define WANTED_AT offsetof(struct stats_header, wanted_ns)
#define WANTED_MAX (3600 * WEIR_SEC)

static int check_page(int fd, uid_t uid, const char *call)
{
	struct stat st;

	if (fstat(fd, &st))
		return why(-errno, "%s: fstat: %s", call, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return why(-EBADMSG, "%s: the page is no file", call);
	if (st.st_uid != uid || st.st_mode & (S_IWGRP | S_IWOTH))
		return why(-EACCES, "%s: the page belongs to user %u with mode "
			   "%04o; it should be %u's alone", call,
			   (unsigned int)st.st_uid,
			   (unsigned int)st.st_mode & 07777, (unsigned int)uid);
	return page_is_stale(fd) ? -ESTALE : 0;
}

int page_open(int dir, const char *name, uid_t uid, const char *call)
{
	int err, fd = -1;

	errno = EMFILE;
	if (!fault("stats open"))
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
			    O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && errno == ELOOP)
		return why(-EACCES, "%s: the page is a symbolic link", call);
	if (fd < 0)
		return why(-errno, "%s: %s: %s", call, name, strerror(errno));
	err = check_page(fd, uid, call);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int stats_open_fd(struct weir_stats **ret, int fd)
{
	struct weir_stats *s = mem_calloc(1, sizeof(*s));
	int err;

	if (!s) {
		close(fd);
		return why(-ENOMEM, OPEN ": no memory");
	}
	s->fd = fd;
	err = snapshot_read(&s->now, fd, OPEN);
	if (err) {
		weir_stats_close(s);
		return err;
	}
	*ret = s;
	return 0;
}

void weir_stats_close(struct weir_stats *s)
{
	if (!s)
		return;
	close(s->fd);
	snapshot_free(&s->now);
	free(s);
}

/* A page may have been left by an earlier process of the same number. */
static bool is_of(const struct stats_header *h, int64_t pid)
{
	uint64_t started = start_ticks(pid);

	return h->pid == pid &&
	       (!started || !h->start_ticks || h->start_ticks == started);
}

static int open_page(struct weir_stats **ret, int dir, const char *name,
		     int64_t pid, uid_t uid)
{
	int fd = page_open(dir, name, uid, OPEN), err;

	if (fd < 0)
		return fd;
	err = stats_open_fd(ret, fd);
	if (err || is_of(&(*ret)->now.header, pid))
		return err;
	weir_stats_close(*ret);
	return -ESTALE;
}

/* In the directory @path, if that is there. */
static int open_in(struct weir_stats **ret, const char *path, int64_t pid,
		   uid_t uid)
{
	struct weir_stats *s = NULL;
	char name[PAGE_NAME_MAX];
	int dir, err;

	dir = place_open(path, false, uid, OPEN);
	if (dir < 0)
		return dir;
	page_name(name, pid, own_pid_ns());
	err = open_page(&s, dir, name, pid, uid);
	if (err == -ESTALE) {
		unlinkat(dir, name, 0);
		err = why(-ESRCH, OPEN ": process %lld has ended",
			  (long long)pid);
	}
	close(dir);
	if (!err)
		*ret = s;
	return err;
}

static int refuse_none(int64_t pid)
{
	uint64_t ns = pid_ns_of(pid);

	if (ns && ns != own_pid_ns())
		return why(-ENOENT, OPEN ": process %lld is in another pid "
			   "namespace; look at it from inside its container",
			   (long long)pid);
	return why(-ENOENT, OPEN ": process %lld has no page; start it with "
		   "WEIR_STATS=1, or have it call weir_stats_publish()",
		   (long long)pid);
}

/* A page that is found and cannot be read counts for more than none. */
static int open_somewhere(struct weir_stats **ret, int64_t pid, uid_t uid)
{
	char path[PLACE_MAX];
	int err = -ENOENT;

	for (unsigned int i = 0; i < PLACES; i++) {
		if (!place_path(path, i, uid))
			continue;
		err = open_in(ret, path, pid, uid);
		if (err != -ENOENT && err != -ENOTDIR)
			return err;
	}
	return refuse_none(pid);
}

int weir_stats_open(struct weir_stats **ret, int64_t pid)
{
	uid_t uid = geteuid();
	int err = pid_owner(pid, &uid);

	if (!err && uid != geteuid() && geteuid())
		return why(-EACCES, OPEN ": process %lld is user %u's; ask as "
			   "that user, or as root", (long long)pid,
			   (unsigned int)uid);
	if (!err)
		return open_somewhere(ret, pid, uid);
	/* It may have left a page: then that is removed. */
	if (open_somewhere(ret, pid, uid) == 0)
		weir_stats_close(*ret);
	return why(-ESRCH, OPEN ": there is no process %lld", (long long)pid);
}

int weir_stats_read(struct weir_stats *s)
{
	struct snapshot snap = { 0 };
	int err = snapshot_read(&snap, s->fd, "weir_stats_read");

	if (err) {
		snapshot_free(&snap);
		return err;
	}
	snapshot_free(&s->now);
	s->now = snap;
	return 0;
}

/* The page was checked when it was opened, to be read.  A write beyond the limit would
 * raise SIGXFSZ. */
static int write_wanted(int fd, uint64_t until)
{
	struct rlimit lim;
	char path[40];
	ssize_t n;
	int own = -1;

	if (!getrlimit(RLIMIT_FSIZE, &lim) &&
	    lim.rlim_cur < sizeof(struct stats_header))
		return -EACCES;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	errno = EMFILE;
	if (!fault("stats want"))
		own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (own < 0)
		return errno == EMFILE || errno == ENFILE ? -EMFILE : -EACCES;
	n = pwrite(own, &until, sizeof(until), WANTED_AT);
	close(own);
	return n == sizeof(until) ? 0 : -EACCES;
}

int weir_stats_want(struct weir_stats *s, uint64_t ns)
{
	static const char call[] = "weir_stats_want";
	struct timespec now;
	uint64_t until, was = 0;
	int err;

	if (ns > WANTED_MAX)
		return why(-EINVAL, "%s: more than an hour", call);
	if (!s->now.header.offered)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	until = (uint64_t)now.tv_sec * WEIR_SEC + (uint64_t)now.tv_nsec + ns;
	if (pread(s->fd, &was, sizeof(was), WANTED_AT) < 0)
		was = 0;
	/* Another reader may want it for longer. */
	if (was > until && was - until <= WANTED_MAX)
		return 0;
	err = write_wanted(s->fd, until);
	if (err)
		return why(err, "%s: process %lld measures nothing until it is "
			   "asked to, and its page cannot be written: %s", call,
			   (long long)s->now.header.pid, strerror(-err));
	return 0;
}

void snapshot_info(const struct snapshot *snap, struct weir_stats_info *ret)
{
	const struct stats_header *h = &snap->header;
	uint64_t ns = own_pid_ns();

	*ret = (struct weir_stats_info){
		.pid = h->pid, .pid_ns = h->pid_ns, .alive = snap->alive,
		.foreign = h->pid_ns && ns && h->pid_ns != ns,
		.since_ns = h->since_ns, .read_ns = snap->read_ns,
		.left_out = h->left_out, .offered = h->offered != 0,
	};
	memcpy(ret->program, h->program, sizeof(ret->program));
	memcpy(ret->version, h->weir, sizeof(ret->version));
}

/*
 * The page of this process: made, given capacity, taken away.
 *
 * All of it is mapped at once, so that nothing in it ever moves; capacity is
 * given to it in steps, by fallocate(), because to touch a file for which
 * there is no capacity left would end the process.
 *
 * It is filled under another name, locked, and then put in its place: so
 * readers never see one that is half made.
 */

#define CHUNK UINT64_C(65536)	/* A page grows by this much. */

/* The offset of the tables; it leaves space for a larger header. */
#define KINDS_AT UINT64_C(256)
#define FIELDS_AT \
	(KINDS_AT + STATS_KINDS_MAX * sizeof(struct stats_kind_entry))
#define RECORDS_AT \
	(FIELDS_AT + STATS_FIELDS_MAX * sizeof(struct stats_field_entry))

struct page page = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

static void before_fork(void)
{
	pthread_mutex_lock(&page.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&page.lock);
}

/* The mapping is the parent's, and stays so: it is not written to here. */
static void in_child(void)
{
	if (page.fd >= 0)
		close(page.fd);
	page.fd = -1;
	page.header = NULL;
	page.n_records = 0;
	pthread_mutex_unlock(&page.lock);
}

static void on_first(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

bool page_has_capacity(uint64_t used)
{
	uint64_t end = (used + CHUNK - 1) & ~(CHUNK - 1);

	if (used <= page.allocated)
		return true;
	if (end > STATS_SIZE_MAX || fault("stats capacity") ||
	    fallocate(page.fd, 0, (off_t)page.allocated,
		      (off_t)(end - page.allocated)))
		return false;
	page.allocated = end;
	return true;
}

static void fill_header(struct stats_header *h)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	h->magic = STATS_MAGIC;
	h->version = STATS_VERSION;
	h->header_size = sizeof(*h);
	h->kind_size = sizeof(struct stats_kind_entry);
	h->field_size = sizeof(struct stats_field_entry);
	h->record_size = sizeof(struct stats_record);
	h->kinds_at = KINDS_AT;
	h->fields_at = FIELDS_AT;
	h->records_at = RECORDS_AT;
	h->used = RECORDS_AT;
	h->offered = page.offer;
	h->pid = getpid();
	h->pid_ns = own_pid_ns();
	h->start_ticks = start_ticks(h->pid);
	h->since_ns = (uint64_t)now.tv_sec * WEIR_SEC + (uint64_t)now.tv_nsec;
	snprintf(h->program, sizeof(h->program), "%s",
		 program_invocation_short_name);
	snprintf(h->weir, sizeof(h->weir), "%s", weir_version());
}

/* The call that makes the page, for messages. */
static const char *call(void)
{
	return page.offer ? "weir_stats_offer" : "weir_stats_publish";
}

/* A write beyond the limit would raise SIGXFSZ instead of failing. */
static int check_limit(void)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_FSIZE, &lim) && lim.rlim_cur < STATS_SIZE_MAX)
		return why(-EFBIG, "%s: ulimit -f is %llu KiB, this needs "
			   "%llu KiB", call(),
			   (unsigned long long)lim.rlim_cur >> 10,
			   (unsigned long long)STATS_SIZE_MAX >> 10);
	return 0;
}

static int map_file(int fd)
{
	void *at;

	if (fault("stats file") || ftruncate(fd, (off_t)STATS_SIZE_MAX))
		return why(-ENOSPC, "%s: no capacity for the page", call());
	at = mmap(NULL, STATS_SIZE_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  0);
	if (at == MAP_FAILED)
		return why(-ENOMEM, "%s: mmap: %s", call(), strerror(errno));
	page.fd = fd;
	page.allocated = 0;
	page.last_id = 0;
	if (!page_has_capacity(RECORDS_AT)) {
		munmap(at, STATS_SIZE_MAX);
		page.fd = -1;
		return why(-ENOSPC, "%s: no capacity for the page", call());
	}
	page.header = at;
	return 0;
}

static int fill_file(int dir, const char *hidden, const char *name, int fd)
{
	int err;

	if (flock(fd, LOCK_EX | LOCK_NB))
		return why(-errno, "%s: flock: %s", call(), strerror(errno));
	err = map_file(fd);
	if (err)
		return err;
	fill_header(page.header);
	if (renameat(dir, hidden, dir, name)) {
		err = why(-errno, "%s: rename: %s", call(), strerror(errno));
		munmap(page.header, STATS_SIZE_MAX);
		page.header = NULL;
		page.fd = -1;
	}
	return err;
}

/* A hidden one is of an attempt that was cut off. */
static int make_file(int dir)
{
	char name[PAGE_NAME_MAX], hidden[PAGE_NAME_MAX + 1];
	int fd, err;

	page_name(name, getpid(), own_pid_ns());
	snprintf(hidden, sizeof(hidden), ".%s", name);
	unlinkat(dir, hidden, 0);
	fd = openat(dir, hidden,
		    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return why(-errno, "%s: %s: %s", call(), hidden, strerror(errno));
	err = fill_file(dir, hidden, name, fd);
	if (err) {
		unlinkat(dir, hidden, 0);
		close(fd);
		return err;
	}
	snprintf(page.name, sizeof(page.name), "%s", name);
	return 0;
}

static int publish_in(const char *path)
{
	int dir, err;

	dir = place_open(path, true, geteuid(), call());
	if (dir < 0)
		return dir;
	stats_sweep(dir);
	err = make_file(dir);
	close(dir);
	if (!err)
		snprintf(page.dir, sizeof(page.dir), "%s", path);
	return err;
}

/* The first place of which @usual is true that can be used. */
static int publish_somewhere(void)
{
	char path[PLACE_MAX];
	int err = -ENOENT;

	for (unsigned int i = 0; i < PLACES && err; i++)
		if (place_path(path, i, geteuid()))
			err = publish_in(path);
	return err;
}

static int publish(const char *dir, bool offer)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err;

	if (page.header && !offer)
		__atomic_store_n(&page.header->offered, 0, __ATOMIC_RELAXED);
	if (page.header)
		return 0;
	page.offer = offer;
	err = check_limit();
	if (err)
		return err;
	pthread_once(&once, on_first);
	return dir ? publish_in(dir) : publish_somewhere();
}

static int publish_checked(const char *dir, bool offer, const char *name)
{
	int err;

	if (dir && (*dir != '/' || strlen(dir) >= PLACE_MAX))
		return why(-EINVAL, "%s: '%s' is no absolute path, or too long",
			   name, dir);
	pthread_mutex_lock(&page.lock);
	err = publish(dir, offer);
	pthread_mutex_unlock(&page.lock);
	return err;
}

int weir_stats_publish(const char *dir)
{
	return publish_checked(dir, false, "weir_stats_publish");
}

int weir_stats_offer(const char *dir)
{
	return publish_checked(dir, true, "weir_stats_offer");
}

/* If the page that the environment asks for cannot be made, the program
 * continues without; weir_stats_publish() would return the reason. */
bool stats_wanted(void)
{
	const char *dir;
	enum asked asked;
	bool there;

	pthread_mutex_lock(&page.lock);
	asked = page.header ? ASKED_NOTHING : place_asked(&dir);
	if (asked != ASKED_NOTHING)
		publish(NULL, asked == ASKED_OFFER);
	there = page.header;
	pthread_mutex_unlock(&page.lock);
	return there;
}

static void withdraw(void)
{
	char path[PLACE_MAX + PAGE_NAME_MAX];

	snprintf(path, sizeof(path), "%s/%s", page.dir, page.name);
	unlink(path);
	munmap(page.header, STATS_SIZE_MAX);
	page.header = NULL;
	close(page.fd);
	page.fd = -1;
}

int weir_stats_withdraw(void)
{
	int err = 0;

	pthread_mutex_lock(&page.lock);
	if (page.n_records)
		err = why(-EBUSY, "weir_stats_withdraw: %u sections are on the "
			  "page; destroy the reactors and stores first",
			  page.n_records);
	else if (page.header)
		withdraw();
	pthread_mutex_unlock(&page.lock);
	return err;
}

/* Its threads may still write to it: only the name goes. */
__attribute__((destructor)) static void on_exit_of_process(void)
{
	char path[PLACE_MAX + PAGE_NAME_MAX];

	if (!page.header || page.header->pid != getpid())
		return;
	snprintf(path, sizeof(path), "%s/%s", page.dir, page.name);
	unlink(path);
}

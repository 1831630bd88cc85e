/* SPDX-License-Identifier: BSD-3-Clause */
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

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "reactor/stats/page-internal.h"
#include "reactor/stats/place.h"

#define CALL "weir_stats_publish"
#define CHUNK UINT64_C(65536)	/* What a page grows by. */

/* Where its tables are; the header may become larger. */
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

/* What is mapped is the parent's, and stays so: nobody writes to it here. */
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
	h->pid = getpid();
	h->pid_ns = own_pid_ns();
	h->start_ticks = start_ticks(h->pid);
	h->since_ns = (uint64_t)now.tv_sec * WEIR_SEC + (uint64_t)now.tv_nsec;
	snprintf(h->program, sizeof(h->program), "%s",
		 program_invocation_short_name);
	snprintf(h->weir, sizeof(h->weir), "%s", weir_version());
}

/* To write beyond the limit would be a signal, not an error. */
static int check_limit(void)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_FSIZE, &lim) && lim.rlim_cur < STATS_SIZE_MAX)
		return why(-EFBIG, CALL ": ulimit -f is %llu KiB, this needs "
			   "%llu KiB", (unsigned long long)lim.rlim_cur >> 10,
			   (unsigned long long)STATS_SIZE_MAX >> 10);
	return 0;
}

static int map_file(int fd)
{
	void *at;

	if (fault("stats file") || ftruncate(fd, (off_t)STATS_SIZE_MAX))
		return why(-ENOSPC, CALL ": no capacity for the page");
	at = mmap(NULL, STATS_SIZE_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  0);
	if (at == MAP_FAILED)
		return why(-ENOMEM, CALL ": mmap: %s", strerror(errno));
	page.fd = fd;
	page.allocated = 0;
	page.last_id = 0;
	if (!page_has_capacity(RECORDS_AT)) {
		munmap(at, STATS_SIZE_MAX);
		page.fd = -1;
		return why(-ENOSPC, CALL ": no capacity for the page");
	}
	page.header = at;
	return 0;
}

static int fill_file(int dir, const char *hidden, const char *name, int fd)
{
	int err;

	if (flock(fd, LOCK_EX | LOCK_NB))
		return why(-errno, CALL ": flock: %s", strerror(errno));
	err = map_file(fd);
	if (err)
		return err;
	fill_header(page.header);
	if (renameat(dir, hidden, dir, name)) {
		err = why(-errno, CALL ": rename: %s", strerror(errno));
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
		return why(-errno, CALL ": %s: %s", hidden, strerror(errno));
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

	dir = place_open(path, true, geteuid(), CALL);
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

static int publish(const char *dir)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err;

	if (page.header)
		return 0;
	err = check_limit();
	if (err)
		return err;
	pthread_once(&once, on_first);
	return dir ? publish_in(dir) : publish_somewhere();
}

int weir_stats_publish(const char *dir)
{
	int err;

	if (dir && (*dir != '/' || strlen(dir) >= PLACE_MAX))
		return why(-EINVAL, CALL ": '%s' is no absolute path, or too "
			   "long", dir);
	pthread_mutex_lock(&page.lock);
	err = publish(dir);
	pthread_mutex_unlock(&page.lock);
	return err;
}

/* What the environment asks for and cannot be had is no fault of the program's:
 * weir_stats_publish() would say why. */
bool stats_wanted(void)
{
	const char *asked;
	bool there;

	pthread_mutex_lock(&page.lock);
	asked = page.header ? NULL : secure_getenv("WEIR_STATS");
	if (asked && (*asked == '/' || !strcmp(asked, "1")))
		publish(NULL);
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

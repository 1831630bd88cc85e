/* SPDX-License-Identifier: BSD-3-Clause */
/* What readers call: a page is found, read, and asked. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "reactor/stats/place.h"
#include "reactor/stats/read.h"

#define CALL "weir_stats_open"

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
		return why(-ENOMEM, CALL ": no memory");
	}
	s->fd = fd;
	err = snapshot_read(&s->now, fd, CALL);
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

/* The page of another process of that number lies there, from before. */
static bool is_of(const struct stats_header *h, int64_t pid)
{
	uint64_t started = start_ticks(pid);

	return h->pid == pid &&
	       (!started || !h->start_ticks || h->start_ticks == started);
}

static int open_page(struct weir_stats **ret, int dir, const char *name,
		     int64_t pid, uid_t uid)
{
	int fd = page_open(dir, name, uid, CALL), err;

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

	dir = place_open(path, false, uid, CALL);
	if (dir < 0)
		return dir;
	page_name(name, pid, own_pid_ns());
	err = open_page(&s, dir, name, pid, uid);
	if (err == -ESTALE) {
		unlinkat(dir, name, 0);
		err = why(-ESRCH, CALL ": process %lld has ended",
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
		return why(-ENOENT, CALL ": process %lld is in another pid "
			   "namespace; look at it from inside its container",
			   (long long)pid);
	return why(-ENOENT, CALL ": process %lld has no page; start it with "
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
		return why(-EACCES, CALL ": process %lld is user %u's; ask as "
			   "that user, or as root", (long long)pid,
			   (unsigned int)uid);
	if (!err)
		return open_somewhere(ret, pid, uid);
	/* It may have left a page: then that is removed. */
	if (open_somewhere(ret, pid, uid) == 0)
		weir_stats_close(*ret);
	return why(-ESRCH, CALL ": there is no process %lld", (long long)pid);
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

void snapshot_info(const struct snapshot *snap, struct weir_stats_info *ret)
{
	const struct stats_header *h = &snap->header;
	uint64_t ns = own_pid_ns();

	*ret = (struct weir_stats_info){
		.pid = h->pid, .pid_ns = h->pid_ns, .alive = snap->alive,
		.foreign = h->pid_ns && ns && h->pid_ns != ns,
		.since_ns = h->since_ns, .read_ns = snap->read_ns,
		.left_out = h->left_out,
	};
	memcpy(ret->program, h->program, sizeof(ret->program));
	memcpy(ret->version, h->weir, sizeof(ret->version));
}

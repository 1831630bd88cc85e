/* SPDX-License-Identifier: BSD-3-Clause */
/* Directories and names of pages, and what /proc knows about processes. */

#include "reactor/stats/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"

static bool fits(int n)
{
	return n > 0 && n < PLACE_MAX;
}

/* In a program that has more rights than its user, the environment is not to
 * be trusted: secure_getenv(). */
bool place_path(char path[PLACE_MAX], unsigned int i, uid_t uid)
{
	const char *named;

	switch (i) {
	case 0:
		named = secure_getenv("WEIR_STATS");
		return named && *named == '/' &&
		       fits(snprintf(path, PLACE_MAX, "%s", named));
	case 1:
		named = secure_getenv("XDG_RUNTIME_DIR");
		return named && *named == '/' && uid == geteuid() &&
		       fits(snprintf(path, PLACE_MAX, "%s/weir", named));
	case 2:
		return fits(snprintf(path, PLACE_MAX, "/run/user/%u/weir",
				     (unsigned int)uid));
	case 3:
		return uid == 0 &&	/* Nobody else can make it. */
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

uint64_t pid_ns_of(int64_t pid)
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

/* Of a process that must not be traced, /proc/PID itself is root's. */
int pid_owner(int64_t pid, uid_t *ret)
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
	/* Without /proc, or one that hides others, it may be ours. */
	if (kill((pid_t)pid, 0) && errno == ESRCH)
		return -ESRCH;
	*ret = geteuid();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* All pages that there are; those of processes that have ended are removed. */

#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/why.h"
#include "reactor/stats/page-internal.h"
#include "reactor/stats/read.h"

#define CALL "weir_stats_list"

typedef int list_fn(const struct weir_stats_info *info, void *arg);

struct list {
	list_fn *fn;
	void *arg;
	struct stat seen[PLACES];	/* Two names may be one directory. */
	unsigned int n_seen;
};

/* A page that cannot be read is none. */
static int show(int dir, const char *name, uid_t uid, struct list *list)
{
	struct weir_stats_info info;
	struct snapshot snap = { .alive = true };
	int fd, err;

	fd = page_open(dir, name, uid, CALL);
	if (fd == -ESTALE)
		unlinkat(dir, name, 0);
	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE ? fd : 0;
	err = header_read(&snap.header, fd, CALL);
	close(fd);
	if (err || !list->fn)
		return 0;
	snapshot_info(&snap, &info);
	info.size = sizeof(info);
	return list->fn(&info, list->arg);
}

/* All pages in the directory @fd, which is closed. */
static int walk(int fd, uid_t uid, struct list *list)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;
	uint64_t ns;
	int64_t pid;
	int err = 0;

	if (!dir) {
		close(fd);
		return why(-ENOMEM, CALL ": no memory");
	}
	while (!err && (entry = readdir(dir)))
		if (page_name_parse(entry->d_name, &pid, &ns))
			err = show(dirfd(dir), entry->d_name, uid, list);
	closedir(dir);
	return err;
}

void stats_sweep(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct list none = { .fn = NULL };

	if (fd >= 0)
		walk(fd, geteuid(), &none);
}

static bool was_seen(struct list *list, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return true;
	for (unsigned int i = 0; i < list->n_seen; i++)
		if (list->seen[i].st_ino == st.st_ino &&
		    list->seen[i].st_dev == st.st_dev)
			return true;
	list->seen[list->n_seen++] = st;
	return false;
}

static int list_user(uid_t uid, struct list *list)
{
	char path[PLACE_MAX];
	int err = 0, fd;

	list->n_seen = 0;
	for (unsigned int i = 0; i < PLACES && !err; i++) {
		if (!place_path(path, i, uid))
			continue;
		fd = place_open(path, false, uid, CALL);
		if (fd == -EMFILE || fd == -ENFILE)
			return fd;
		if (fd >= 0 && was_seen(list, fd))
			close(fd);
		else if (fd >= 0)
			err = walk(fd, uid, list);
	}
	return err;
}

/* A directory of root's that has one for each user: their names are @prefix and
 * a number.  Those that have one beginning with @other were seen there. */
static int list_users_of(const char *path, const char *prefix,
			 const char *other, struct list *list)
{
	size_t len = strlen(prefix);
	struct dirent *entry;
	char twin[PLACE_MAX], *end;
	DIR *dir = opendir(path);
	unsigned long uid;
	int err = 0;

	while (dir && !err && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, prefix, len))
			continue;
		uid = strtoul(entry->d_name + len, &end, 10);
		if (end == entry->d_name + len || *end || uid == geteuid())
			continue;
		snprintf(twin, sizeof(twin), "%s%lu", other, uid);
		if (!*other || access(twin, F_OK))
			err = list_user((uid_t)uid, list);
	}
	if (dir)
		closedir(dir);
	return err;
}

int weir_stats_list(list_fn *fn, void *arg)
{
	struct list list = { .fn = fn, .arg = arg };
	int err = list_user(geteuid(), &list);

	if (!err && !geteuid())
		err = list_users_of("/run/user", "", "", &list);
	if (!err && !geteuid())
		err = list_users_of("/dev/shm", "weir-", "/run/user/", &list);
	return err;
}

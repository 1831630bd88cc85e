/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exporter's place in the file system.
 *
 * The socket is made under a random name, gets its mode, listens,
 * and only then moves to its path: so no process can connect before the mode
 * holds, and a process that finds a socket at a path that refuses connections
 * knows that its owner is dead.  A dead one is replaced under a lock on the
 * directory, so that of two that do it at once the second finds the first
 * alive.
 */

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/export/internal.h"

#define CALL "weir_exporter_create"

unsigned int export_address(struct sockaddr_un *sun, const char *path)
{
	size_t len = strlen(path);

	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path, path, len);
	return (unsigned int)(offsetof(struct sockaddr_un, sun_path) + len + 1);
}

int export_socket(int flags, const char *call)
{
	int fd = fault("socket") ? (errno = EMFILE, -1) :
		 socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

	return fd < 0 ? why(-errno, "%s: socket: %s", call, strerror(errno)) :
			fd;
}

static int say(int err, const char *path)
{
	return why(err, CALL ": %s: %s", path, strerror(-err));
}

/* Does a process listen at @path?  0, or -EADDRINUSE, or another errno. */
static int check_dead(const char *path)
{
	struct sockaddr_un sun;
	struct stat st;
	int fd, err;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : say(-errno, path);
	if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
		return why(-EEXIST, CALL ": %s is there, and is not a socket "
			   "of ours", path);
	fd = export_socket(SOCK_NONBLOCK, CALL);
	if (fd < 0)
		return fd;
	err = connect(fd, (struct sockaddr *)&sun, export_address(&sun, path)) ?
	      errno : 0;
	close(fd);
	if (err == ECONNREFUSED || err == ENOENT)
		return 0;
	return why(-EADDRINUSE, CALL ": another process listens at %s", path);
}

/* The directory of @path, locked.  Returns a descriptor, or an errno. */
static int lock_directory(const char *path)
{
	char dir[EXPORT_PATH_MAX + 1];
	char *slash;
	int fd;

	strcpy(dir, path);
	slash = strrchr(dir, '/');
	if (!slash)
		strcpy(dir, ".");
	else
		slash[slash == dir] = '\0';
	fd = fault("open") ? (errno = EMFILE, -1) :
	     open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return say(-errno, dir);
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return why(-EBUSY, CALL ": another process has locked %s; try "
			   "again", dir);
	}
	return fd;
}

static int replace_dead(const char *temp, const char *path)
{
	int dir = lock_directory(path);
	int err;

	if (dir < 0)
		return dir;
	err = check_dead(path);
	if (!err && rename(temp, path))
		err = say(-errno, path);
	close(dir);
	return err;
}

/* Where the file system cannot tell, replace_dead() does. */
static int move_to(const char *temp, const char *path)
{
	if (!renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE))
		return 0;
	if (errno != EEXIST && errno != EINVAL && errno != ENOSYS)
		return say(-errno, path);
	return replace_dead(temp, path);
}

/* The mode of what is at @temp, by a descriptor: it is looked at first. */
static int set_mode(struct export_place *place, const char *temp, uint32_t mode)
{
	int fd = open(temp, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char self[32];
	struct stat st = { .st_ino = 0 };
	int err = 0;

	if (fd < 0)
		return -errno;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISSOCK(st.st_mode))
		err = -EEXIST;
	else if ((st.st_mode & 0777) != mode && chmod(self, mode))
		err = -errno;
	close(fd);
	place->dev = st.st_dev;
	place->ino = st.st_ino;
	return err;
}

/* bind() takes the mode of the socket, less the umask. */
static int bind_at(struct export_place *place, int fd, const char *temp,
		   uint32_t mode, int backlog)
{
	struct sockaddr_un sun;
	int err;

	if (fchmod(fd, mode))
		return say(-errno, temp);
	if (fault("bind") || bind(fd, (struct sockaddr *)&sun,
				  export_address(&sun, temp)))
		return say(-errno, temp);
	err = set_mode(place, temp, mode);
	if (!err && (fault("listen") || listen(fd, backlog)))
		err = -errno;
	if (err)
		unlink(temp);
	return err ? say(err, temp) : 0;
}

int export_listen(struct export_place *place, int fd, const char *path,
		  uint32_t mode, int backlog)
{
	char temp[EXPORT_PATH_MAX + 16];
	uint32_t random;
	int err;

	if (!path || !*path)
		return why(-EINVAL, CALL ": no path");
	if (strlen(path) > EXPORT_PATH_MAX)
		return why(-EMSGSIZE, CALL ": the path has %zu bytes, and may "
			   "have %d", strlen(path), EXPORT_PATH_MAX);
	err = check_dead(path);
	if (err)
		return err;
	if (fault("getrandom") ||
	    getrandom(&random, sizeof(random), 0) != sizeof(random))
		return say(-EIO, path);
	snprintf(temp, sizeof(temp), "%s.%07x", path, random & 0xfffffff);
	err = bind_at(place, fd, temp, mode, backlog);
	if (err)
		return err;
	err = move_to(temp, path);
	if (err) {
		unlink(temp);
		return err;
	}
	strcpy(place->path, path);
	return 0;
}

void export_unlink(const struct export_place *place)
{
	struct stat st;

	if (!lstat(place->path, &st) && st.st_dev == place->dev &&
	    st.st_ino == place->ino)
		unlink(place->path);
}

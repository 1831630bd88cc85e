/* SPDX-License-Identifier: CC0-1.0 */
/* A UNIX socket with a name, for servers. */
#define _GNU_SOURCE 1
#include "listen-unix.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int make_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/*
 * A socket without a listener.  The first question matters: the second is
 * answered in the same way for a file.
 */
static int is_left_over(const struct sockaddr_un *un)
{
	struct stat st;
	int fd, left_over;

	if (lstat(un->sun_path, &st) || !S_ISSOCK(st.st_mode))
		return 0;
	fd = make_socket();
	if (fd < 0)
		return 0;
	left_over = connect(fd, (const struct sockaddr *)un, sizeof(*un)) &&
		    errno == ECONNREFUSED;
	close(fd);
	return left_over;
}

static int bind_name(int fd, const struct sockaddr_un *un)
{
	const struct sockaddr *sa = (const struct sockaddr *)un;

	if (!bind(fd, sa, sizeof(*un)))
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	if (!is_left_over(un) || unlink(un->sun_path))
		return -EADDRINUSE;
	return bind(fd, sa, sizeof(*un)) ? -errno : 0;
}

/*
 * The file that bind() makes has the mode of the socket, less what umask(2)
 * takes away: it is too narrow for a moment, but never too wide.
 */
int listen_unix(int *ret, const char *path, mode_t mode, int backlog)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd, err = 0;

	if (strlen(path) >= sizeof(un.sun_path))
		return -ENAMETOOLONG;
	memcpy(un.sun_path, path, strlen(path));
	fd = make_socket();
	if (fd < 0)
		return -errno;
	if (fchmod(fd, mode))
		err = -errno;
	if (!err)
		err = bind_name(fd, &un);
	if (!err && (chmod(path, mode) || listen(fd, backlog))) {
		err = -errno;
		unlink(path);
	}
	if (err)
		close(fd);
	else
		*ret = fd;
	return err;
}

int listen_unix_wait(int *ret, const char *path, mode_t mode, int backlog)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
	int tries, err;

	for (tries = 0; tries < 100; tries++) {
		err = listen_unix(ret, path, mode, backlog);
		if (err != -EADDRINUSE)
			return err;
		nanosleep(&pause, NULL);
	}
	return err;
}

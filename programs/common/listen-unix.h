/* SPDX-License-Identifier: CC0-1.0 */
#ifndef COMMON_LISTEN_UNIX_H
#define COMMON_LISTEN_UNIX_H

#include <sys/types.h>

/*
 * Listen at the name @path.  One that a server has left which was killed is
 * taken over; a socket with a listener, and whatever else is there, is
 * not touched.
 *
 * The name has the mode @mode, whatever umask(2) says, and never a wider one.
 * The socket does not block.
 *
 * Returns 0 with *@ret set, or a negative errno; -EADDRINUSE: something is
 * there.
 */
int listen_unix(int *ret, const char *path, mode_t mode, int backlog);

/*
 * The same, and while something is there try again for about a second.  A
 * server that was killed may leave its socket to the kernel, which frees it a
 * little later.  Not in a callback of a reactor.
 */
int listen_unix_wait(int *ret, const char *path, mode_t mode, int backlog);

#endif /* COMMON_LISTEN_UNIX_H */

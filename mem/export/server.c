/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exporter: it hands out exports by name to those that may have them.
 *
 *	connection --> request --> may it?  is there such? --> answer --> closed
 *
 * A connection is one request and has one deadline; its place is one of a fixed
 * number, so that a peer that holds connections open delays others for no
 * longer than that, and takes no memory.  What has a name is held by duplicates
 * of its own, so that mmap and exporter need not know of each other's end;
 * whether it has been revoked is in the control page, as for importers.
 */

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <weir/lease.h>
#include <weir/socket.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/libc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/export/internal.h"
#include "mem/export/message.h"
#include "reactor/reactor-internal.h"

#define CALL "weir_exporter_create"
#define NAMES_DEFAULT 64
#define NAMES_MAX 65536
#define CONNECTIONS_DEFAULT 16
#define CONNECTIONS_MAX 4096
#define TIMEOUT_DEFAULT (5 * WEIR_SEC)

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

static int say(int err, const char *path)
{
	return why(err, CALL ": %s: %s", path, strerror(-err));
}

/*
 * Whether the process that called listen() for the peer of @fd has ended.  A
 * child that it has forked, or a ring that the kernel has not taken down yet,
 * keeps the socket open for it.
 */
static bool listener_has_ended(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
	       cred.pid > 0 && process_has_ended(cred.pid, 0);
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
	if (!err && listener_has_ended(fd))
		err = ECONNREFUSED;
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
	if (!syscall(SYS_renameat2, AT_FDCWD, temp, AT_FDCWD, path,
		     RENAME_NOREPLACE))
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

static int take_place(struct export_place *place, int fd, const char *path,
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

static void leave_place(const struct export_place *place)
{
	struct stat st;

	if (!lstat(place->path, &st) && st.st_dev == place->dev &&
	    st.st_ino == place->ino)
		unlink(place->path);
}

/* The names, and the connections. */

struct named {
	struct named *next;
	const struct control *page;
	uint64_t generation;
	int fds[EXPORT_FDS];
	uint32_t n_fds;
	size_t len;
	uint8_t bytes[DESCRIPTOR_MAX];
	char name[MESSAGE_NAME_MAX + 1];
};

/* A connection, or the place for one. */
struct connection {
	struct weir_op op;
	struct weir_exporter *exporter;
	struct connection *next;	/* Free ones. */
	uint64_t deadline_ns;
	int fd;				/* -1: none. */
	struct weir_exporter_peer peer;
	struct msghdr msg;
	struct iovec iov;
	_Alignas(struct cmsghdr)
	char control[CMSG_SPACE(EXPORT_FDS * sizeof(int))];
	uint8_t buf[MESSAGE_ANSWER_MAX];
};

struct weir_exporter {
	struct weir_reactor *r;
	struct weir_exporter_opts opts;
	struct weir_acceptor *acceptor;
	struct export_place place;
	int fd;
	pid_t owner;		/* A forked child removes no socket. */
	bool is_dead;		/* Goes with its last connection. */
	uint32_t n_busy;	/* Connections; and callbacks that run. */
	uint32_t n_names;
	struct named *names;
	struct connection *free;
	struct reactor_obj obj;
	struct connection connections[];
};

static void named_free(struct named *n)
{
	uint32_t i;

	if (n->page)
		control_unmap(n->page);
	for (i = 0; i < n->n_fds; i++)
		close(n->fds[i]);
	free(n);
}

static void put(struct weir_exporter *x)
{
	debug_check(x->n_busy > 0);
	x->n_busy--;
	if (x->is_dead && !x->n_busy)
		free(x);
}

static void hang_up(struct connection *c)
{
	struct weir_exporter *x = c->exporter;

	close(c->fd);
	c->fd = -1;
	c->next = x->free;
	x->free = c;
	put(x);
}

static void on_sent(struct weir_op *op, int64_t res)
{
	(void)res;	/* The importer knows best. */
	hang_up(weir_container_of(op, struct connection, op));
}

static void put_fds(struct connection *c, const struct named *n)
{
	struct cmsghdr *cmsg;
	size_t len = n->n_fds * sizeof(int);

	c->msg.msg_control = c->control;
	c->msg.msg_controllen = CMSG_SPACE(len);
	memset(c->control, 0, sizeof(c->control));
	cmsg = CMSG_FIRSTHDR(&c->msg);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(cmsg), n->fds, len);
}

/* @n, or the refusal @err.  The kernel has its own hold of what is sent. */
static void answer(struct connection *c, int err, const struct named *n)
{
	struct weir_exporter *x = c->exporter;

	memset(&c->msg, 0, sizeof(c->msg));
	c->iov.iov_base = c->buf;
	c->iov.iov_len = message_put_answer(c->buf, err, n ? n->bytes : NULL,
					    n ? n->len : 0);
	c->msg.msg_iov = &c->iov;
	c->msg.msg_iovlen = 1;
	if (n)
		put_fds(c, n);
	weir_op_init(&c->op, on_sent);
	weir_op_set_deadline(&c->op, c->deadline_ns);
	if (weir_sendmsg(x->r, &c->op, c->fd, &c->msg, 0))
		hang_up(c);
}

static struct named **find(struct weir_exporter *x, const char *name)
{
	struct named **p = &x->names;

	while (*p && strcmp((*p)->name, name))
		p = &(*p)->next;
	return p;
}

static int is_stale(const struct named *n)
{
	return atomic_load(&n->page->generation) != n->generation;
}

static int may_have(const struct connection *c, const char *name)
{
	struct weir_exporter *x = c->exporter;

	if (!x->opts.accept)
		return c->peer.uid == geteuid();
	return !x->opts.accept(x, &c->peer, name, x->opts.arg);
}

/* A refused importer does not learn whether the name exists. */
static void consider(struct connection *c, const char *name)
{
	struct weir_exporter *x = c->exporter;
	bool may = may_have(c, name);
	struct named *n = *find(x, name);

	if (x->is_dead)
		hang_up(c);
	else if (!may)
		answer(c, -EACCES, NULL);
	else if (!n)
		answer(c, -ENOENT, NULL);
	else if (is_stale(n))
		answer(c, -ESTALE, NULL);
	else
		answer(c, 0, n);
}

static void on_request(struct weir_op *op, int64_t res)
{
	struct connection *c = weir_container_of(op, struct connection, op);
	char name[MESSAGE_NAME_MAX + 1];
	int err;

	if (res <= 0 || c->exporter->is_dead) {
		hang_up(c);
		return;
	}
	err = c->msg.msg_flags & MSG_TRUNC ? -EPROTO :
	      message_get_request(name, c->buf, (size_t)res);
	if (err)
		answer(c, err, NULL);
	else
		consider(c, name);
}

/* With no capacity for file descriptors, those that come are closed. */
static void read_request(struct connection *c)
{
	struct weir_exporter *x = c->exporter;

	memset(&c->msg, 0, sizeof(c->msg));
	c->iov.iov_base = c->buf;
	c->iov.iov_len = MESSAGE_REQUEST_MAX;
	c->msg.msg_iov = &c->iov;
	c->msg.msg_iovlen = 1;
	c->deadline_ns = weir_reactor_now(x->r) + x->opts.timeout_ns;
	weir_op_init(&c->op, on_request);
	weir_op_set_deadline(&c->op, c->deadline_ns);
	if (weir_recvmsg(x->r, &c->op, c->fd, &c->msg, 0))
		hang_up(c);
}

/*
 * There is no place for @fd.  What it is told fits into an empty socket; what
 * it has said is read, for what is unread at a close resets the peer.
 */
static void turn_away(int fd)
{
	uint8_t buf[MESSAGE_HEADER];
	ssize_t n;

	n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	n = send(fd, buf, message_put_answer(buf, -EAGAIN, NULL, 0),
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)n;
	close(fd);
}

static void on_connection(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct weir_exporter *x = arg;
	struct connection *c = x->free;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	(void)acceptor;
	if (fd < 0)
		return;
	if (!c || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len)) {
		turn_away(fd);
		return;
	}
	x->free = c->next;
	x->n_busy++;
	c->fd = fd;
	c->peer.pid = cred.pid;
	c->peer.uid = cred.uid;
	c->peer.gid = cred.gid;
	read_request(c);
}

static int load_opts(struct weir_exporter_opts *opts,
		     const struct weir_exporter_opts *user)
{
	int err = opts_load(opts, sizeof(*opts), user, CALL);

	if (err)
		return err;
	if (opts->reserved)
		return why(-E2BIG, CALL ": .reserved is unknown to this "
			   "version");
	if (opts->mode > 0777)
		return why(-EINVAL, CALL ": .mode %#o is no mode of a socket",
			   opts->mode);
	if (opts->names > NAMES_MAX || opts->connections > CONNECTIONS_MAX)
		return why(-EINVAL, CALL ": .names can be %d, .connections %d",
			   NAMES_MAX, CONNECTIONS_MAX);
	if (!opts->mode)
		opts->mode = 0600;
	if (!opts->names)
		opts->names = NAMES_DEFAULT;
	if (!opts->connections)
		opts->connections = CONNECTIONS_DEFAULT;
	if (!opts->timeout_ns)
		opts->timeout_ns = TIMEOUT_DEFAULT;
	return 0;
}

static struct weir_exporter *exporter_alloc(struct weir_reactor *r,
					    const struct weir_exporter_opts *o)
{
	struct weir_exporter *x;
	uint32_t i;

	x = mem_calloc(1, sizeof(*x) + o->connections * sizeof(x->free[0]));
	if (!x)
		return NULL;
	x->r = r;
	x->owner = getpid();
	x->opts = *o;
	x->fd = -1;
	for (i = 0; i < o->connections; i++) {
		x->connections[i].exporter = x;
		x->connections[i].fd = -1;
		x->connections[i].next = x->free;
		x->free = &x->connections[i];
	}
	return x;
}

static int exporter_listen(struct weir_exporter *x, const char *path)
{
	int err;

	x->fd = export_socket(SOCK_NONBLOCK, CALL);
	if (x->fd < 0)
		return x->fd;
	err = take_place(&x->place, x->fd, path, x->opts.mode,
			    (int)x->opts.connections);
	if (err)
		return err;
	err = weir_acceptor_create(&x->acceptor, x->r, x->fd, on_connection, x);
	if (err)
		leave_place(&x->place);
	return err;
}

int weir_exporter_create(struct weir_exporter **ret, struct weir_reactor *r,
			 const char *path,
			 const struct weir_exporter_opts *user)
{
	struct weir_exporter_opts opts;
	struct weir_exporter *x;
	int err = load_opts(&opts, user);

	if (!err && r->backend->isolated)
		err = why(-EOPNOTSUPP, CALL ": a simulated world has no UNIX "
			  "sockets; hand over what weir_mmap_export() gives");
	if (err)
		return err;
	x = exporter_alloc(r, &opts);
	if (!x)
		return why(-ENOMEM, CALL ": no memory");
	err = reactor_attach(r, &x->obj, "weir_exporter");
	if (!err) {
		err = exporter_listen(x, path);
		if (err)
			reactor_detach(&x->obj);
	}
	if (err) {
		if (x->fd >= 0)
			close(x->fd);
		free(x);
		return err;
	}
	*ret = x;
	return 0;
}

/* Bytes and descriptors of our own of what was exported. */
static int named_fill(struct named *n, const struct weir_export_desc *desc,
		      const char *call)
{
	uint32_t i;
	int fd;

	memcpy(n->bytes, desc->bytes, desc->len);
	n->len = desc->len;
	for (i = 0; i < desc->n_fds; i++) {
		fd = export_dup(desc->fds[i]);
		if (fd < 0)
			return why(fd, "%s: no file descriptor left", call);
		n->fds[n->n_fds++] = fd;
	}
	return control_map(&n->page, n->fds[EXPORT_FD_CONTROL]);
}

static int named_create(struct named **ret, const char *name,
			const struct weir_export_desc *desc, const char *call)
{
	struct named *n = mem_calloc(1, sizeof(*n));
	int err;

	if (!n)
		return why(-ENOMEM, "%s: no memory", call);
	strcpy(n->name, name);
	err = named_fill(n, desc, call);
	if (err) {
		named_free(n);
		return err;
	}
	n->generation = atomic_load(&n->page->generation);
	*ret = n;
	return 0;
}

static int check_name(struct weir_exporter *x, const char *name,
		      const char *call)
{
	if (!name || !*name || strlen(name) > MESSAGE_NAME_MAX)
		return why(-EINVAL, "%s: a name has 1 to %d bytes", call,
			   MESSAGE_NAME_MAX);
	if (*find(x, name))
		return why(-EEXIST, "%s: there is a %s already; remove it "
			   "first", call, name);
	if (x->n_names == x->opts.names)
		return why(-EAGAIN, "%s: there are .names = %u already", call,
			   x->opts.names);
	return 0;
}

static int add(struct weir_exporter *x, const char *name,
	       const struct weir_export_desc *desc, const char *call)
{
	struct named *n = NULL;
	int err = named_create(&n, name, desc, call);

	if (err)
		return err;
	n->next = x->names;
	x->names = n;
	x->n_names++;
	return 0;
}

int weir_exporter_add(struct weir_exporter *x, const char *name,
		      struct weir_mmap *mmap,
		      const struct weir_export_opts *opts)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	int err = check_name(x, name, "weir_exporter_add");

	if (!err)
		err = weir_mmap_export(mmap, opts, &desc);
	return err ? err : add(x, name, &desc, "weir_exporter_add");
}

#define CALL_LEASE "weir_exporter_add_lease"

int weir_exporter_add_lease(struct weir_exporter *x, const char *name,
			    const struct weir_lease *lease)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	int err = check_name(x, name, CALL_LEASE);

	if (!err)
		err = weir_lease_export(lease, &desc);
	if (!err && !desc.n_fds)
		err = why(-EOPNOTSUPP, CALL_LEASE ": the lease is by a device; "
			  "send its bytes to the importer yourself");
	return err ? err : add(x, name, &desc, CALL_LEASE);
}

int weir_exporter_remove(struct weir_exporter *x, const char *name)
{
	struct named **p, *n;

	p = name ? find(x, name) : NULL;
	if (!p || !*p)
		return why(-ENOENT, "weir_exporter_remove: there is no %s",
			   name ? name : "such name");
	n = *p;
	*p = n->next;
	debug_check(x->n_names > 0);
	x->n_names--;
	named_free(n);
	return 0;
}

static void close_all(struct weir_exporter *x)
{
	struct named *n;

	close(x->fd);
	while ((n = x->names)) {
		x->names = n->next;
		named_free(n);
	}
}

void weir_exporter_destroy(struct weir_exporter *x)
{
	uint32_t i;

	if (!x)
		return;
	if (x->owner != getpid()) {
		close_all(x);
		return;
	}
	weir_acceptor_destroy(x->acceptor);
	leave_place(&x->place);
	close_all(x);
	reactor_detach(&x->obj);
	x->is_dead = true;
	x->n_busy++;
	for (i = 0; i < x->opts.connections; i++)
		if (x->connections[i].fd >= 0)
			weir_op_cancel(&x->connections[i].op);
	put(x);
}

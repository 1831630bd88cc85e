/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that start operations on files and sockets, and their descriptors. */

#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/fuzz/calls.h"

static const char *path_in(char *to, size_t n, const char *name)
{
	snprintf(to, n, "%s/%s", w.sim ? "a" : w.dir, name);
	return to;
}

static const char *path_of(struct task *t, const char *name)
{
	return path_in(t->result, sizeof(t->result), name);
}

static const char *some_name(void)
{
	static const char *const names[] = { "x", "y", "z" };

	return names[rnd(3)];
}

static const char *name_or_dir(void)
{
	return one_in(4) ? some_name() : "dir";
}

/* A path in other memory than that of path_of(). */
static const char *from_of(struct task *t)
{
	task_buf(t);
	return path_in(t->buf, LEN_MAX, some_name());
}

/* A task that uses a descriptor of one of these kinds. */
static struct task *on_fd(struct core *c, uint32_t kinds_of, struct object **ret)
{
	struct object *o = any(A_FD);
	struct task *t;

	if (!o || !(kinds_of >> o->fd_kind & 1))
		return NULL;
	t = task_new(c);
	if (!t)
		return NULL;
	task_pin(t, o);
	task_buf(t);
	t->any_errno = true;
	*ret = o;
	return t;
}

#define ALL_FDS 15u
#define STREAMS (1u << FD_STREAM)
#define FILES (1u << FD_FILE)

static uint64_t some_off(const struct object *o)
{
	return o->fd_kind == FD_FILE ? rnd(MEMORY) : WEIR_OFF_STREAM;
}

static void call_read(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, ALL_FDS, &o);

	if (t)
		START(t, weir_read, c->r, OP(t), o->fd, t->buf, t->len,
		      some_off(o));
}

/* Of an operation in flight it is refused. */
static void call_set_rw(struct core *c)
{
	struct task *t = any_task();

	(void)c;
	if (t && t->in_flight && !t->starting)
		MUST(CALL(weir_op_set_rw, OP(t), WEIR_RW_DSYNC, 0) == -EINVAL);
}

/* What a write before its start says of it. */
static void draw_rw(struct task *t)
{
	static const uint32_t flags[] = { 0, WEIR_RW_DSYNC, WEIR_RW_SYNC };

	if (one_in(4))
		MUST(!CALL(weir_op_set_rw, OP(t), flags[rnd(3)], 0));
}

static void call_write(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, ALL_FDS, &o);

	if (!t)
		return;
	draw_rw(t);
	START(t, weir_write, c->r, OP(t), o->fd, t->buf, t->len, some_off(o));
}

static void set_iov(struct task *t)
{
	size_t half = t->len / 2;

	t->iov[0] = (struct iovec){ t->buf, half };
	t->iov[1] = (struct iovec){ t->buf + half, t->len - half };
}

static void call_readv(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, ALL_FDS, &o);

	if (!t)
		return;
	set_iov(t);
	START(t, weir_readv, c->r, OP(t), o->fd, t->iov, 2, some_off(o));
}

static void call_writev(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, ALL_FDS, &o);

	if (!t)
		return;
	set_iov(t);
	START(t, weir_writev, c->r, OP(t), o->fd, t->iov, 2, some_off(o));
}

static void call_fsync(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, FILES, &o);

	if (t)
		START(t, weir_fsync, c->r, OP(t), o->fd,
		      rnd(2) * WEIR_FSYNC_DATA);
}

static void call_fsync_range(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, FILES, &o);

	if (t)
		START(t, weir_fsync_range, c->r, OP(t), o->fd,
		      rnd(2) * WEIR_FSYNC_DATA, rnd(MEMORY), rnd(MEMORY));
}

static void call_fallocate(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, FILES, &o);

	if (t)
		START(t, weir_fallocate, c->r, OP(t), o->fd, 0, 0, MEMORY);
}

static void fd_opened(struct task *t, int64_t res)
{
	bool accepts = !strcmp(t->fn->name, "weir_accept");

	if (res >= 0)
		fd_new((int)res, accepts ? FD_STREAM : FD_FILE);
}

static void call_open(struct core *c)
{
	struct task *t = task_new(c);

	if (!t)
		return;
	t->any_errno = true;
	t->end = fd_opened;
	START(t, weir_open, c->r, OP(t), AT_FDCWD, path_of(t, some_name()),
	      O_RDWR | O_CREAT | O_NONBLOCK, 0600);
}

static void call_open_how(struct core *c)
{
	struct open_how how = { .flags = O_RDWR | O_CREAT, .mode = 0600 };
	struct task *t = task_new(c);

	if (!t)
		return;
	t->any_errno = true;
	t->end = fd_opened;
	START(t, weir_open_how, c->r, OP(t), AT_FDCWD, path_of(t, some_name()),
	      &how, sizeof(how));
}

/* Nothing uses the descriptor, nor is it registered. */
static void call_close(struct core *c)
{
	struct object *o = any(A_FD);
	struct task *t;
	int fd, i;

	if (!o || o->pins)
		return;
	t = task_new(c);
	if (!t)
		return;
	fd = o->fd;
	object_free(o);
	for (i = 0; i < CORES; i++)
		if (w.cores[i].r)
			CALLV(weir_fd_unregister, w.cores[i].r, fd);
	t->any_errno = true;
	START(t, weir_close, c->r, OP(t), fd);
}

static void call_statx(struct core *c)
{
	struct task *t = task_new(c);

	if (!t)
		return;
	t->any_errno = true;
	START(t, weir_statx, c->r, OP(t), AT_FDCWD, from_of(t), 0,
	      0x7ff /* STATX_BASIC_STATS */,
	      (struct statx *)(void *)t->result);
}

static void call_readlink(struct core *c)
{
	struct task *t = task_new(c);

	if (!t)
		return;
	t->any_errno = true;
	task_buf(t);
	START(t, weir_readlink, c->r, OP(t), AT_FDCWD, path_of(t, some_name()),
	      t->buf, t->len);
}

/* A call on a path, whose arguments may be evaluated in any order. */
#define CALL_ON_PATH(name, ...)                                         \
	static void call_##name(struct core *c)                         \
	{                                                               \
		struct task *t = task_new(c);                           \
                                                                        \
		if (!t)                                                 \
			return;                                         \
		t->any_errno = true;                                    \
		START(t, weir_##name, c->r, OP(t), __VA_ARGS__);        \
	}

CALL_ON_PATH(rename, AT_FDCWD, from_of(t), AT_FDCWD, path_of(t, some_name()), 0)
CALL_ON_PATH(link, AT_FDCWD, from_of(t), AT_FDCWD, path_of(t, some_name()), 0)
CALL_ON_PATH(symlink, "x", AT_FDCWD, path_of(t, some_name()))
CALL_ON_PATH(mkdir, AT_FDCWD, path_of(t, name_or_dir()), 0700)
CALL_ON_PATH(unlink, AT_FDCWD, path_of(t, name_or_dir()),
	     one_in(2) ? AT_REMOVEDIR : 0)
CALL_ON_PATH(chmod, AT_FDCWD, path_of(t, some_name()), 0700, 0)
CALL_ON_PATH(chown, AT_FDCWD, path_of(t, some_name()), (uid_t)-1, (gid_t)-1, 0)
CALL_ON_PATH(utimens, AT_FDCWD, path_of(t, some_name()), NULL, 0)

/* A call on the descriptor of a file. */
#define CALL_ON_FD(name, ...)                                           \
	static void call_##name(struct core *c)                         \
	{                                                               \
		struct object *o;                                       \
		struct task *t = on_fd(c, FILES, &o);                   \
                                                                        \
		if (t)                                                  \
			START(t, weir_##name, c->r, OP(t), o->fd,       \
			      __VA_ARGS__);                             \
	}

CALL_ON_FD(ftruncate, 4096)
CALL_ON_FD(readdir, t->result, sizeof(t->result))
CALL_ON_FD(xattr_get, "user.weir", t->result, sizeof(t->result))
CALL_ON_FD(xattr_set, "user.weir", "value", 5, 0)
CALL_ON_FD(xattr_list, t->result, sizeof(t->result))
CALL_ON_FD(xattr_remove, "user.weir")

static void call_copy_range(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, FILES, &o);
	struct object *to = any(A_FD);

	if (!t)
		return;
	if (!to || to->fd_kind != FD_FILE)
		to = o;
	task_pin(t, to);
	START(t, weir_copy_range, c->r, OP(t), o->fd, 0, to->fd, MEMORY / 2,
	      512);
}

static void call_fd_register(struct core *c)
{
	struct object *o = any(A_FD);

	if (o)
		(void)CALL(weir_fd_register, c->r, o->fd);
}

static void call_fd_unregister(struct core *c)
{
	struct object *o = any(A_FD);

	if (o)
		CALLV(weir_fd_unregister, c->r, o->fd);
}

/* Sockets. */

static void address(struct sockaddr_un *to, const char *name)
{
	memset(to, 0, sizeof(*to));
	to->sun_family = AF_UNIX;
	if (w.sim)
		snprintf(to->sun_path, sizeof(to->sun_path), "%s", name);
	else
		snprintf(to->sun_path, sizeof(to->sun_path), "%s/%s", w.dir,
			 name);
}

static void call_listen(struct core *c)
{
	struct sockaddr_un at;
	int fd;

	(void)c;
	if (w.sim) {
		if (!weir_sim_listen(w.sim, &fd, "a:1", 2))
			fd_new(fd, FD_LISTENS);
		if (rnd(2))
			return;
	}
	address(&at, w.sim ? "none/a" : "a:1");
	if (!w.sim)
		unlink(at.sun_path);
	if (!CALL(weir_listen, &fd, (struct sockaddr *)&at, sizeof(at), 2, 0))
		fd_new(fd, FD_LISTENS);
}

static void call_accept(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, 1u << FD_LISTENS, &o);

	if (!t)
		return;
	t->end = fd_opened;
	START(t, weir_accept, c->r, OP(t), o->fd, NULL, NULL, 0);
}

static void call_connect(struct core *c)
{
	struct sockaddr_un *to;
	struct object *o;
	struct task *t;
	int fd = -1;

	if (w.sim) {
		if (weir_sim_socket(w.sim, &fd, "b:1"))
			return;
	} else {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
			    0);
		MUST(fd >= 0);
	}
	o = fd_new(fd, FD_STREAM);
	t = o ? task_new(c) : NULL;
	if (!t)
		return;
	task_pin(t, o);
	t->any_errno = true;
	to = (struct sockaddr_un *)(void *)t->result;
	address(to, "a:1");
	START(t, weir_connect, c->r, OP(t), fd, (struct sockaddr *)to,
	      sizeof(*to));
}

static void call_recv(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, STREAMS, &o);

	if (t)
		START(t, weir_recv, c->r, OP(t), o->fd, t->buf, t->len,
		      rnd(2) * WEIR_SOCK_ALL);
}

static void call_send(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, STREAMS, &o);

	if (t)
		START(t, weir_send, c->r, OP(t), o->fd, t->buf, t->len,
		      rnd(4) ? 0 : WEIR_SOCK_ZEROCOPY);
}

static void call_sendv(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, STREAMS, &o);

	if (!t)
		return;
	set_iov(t);
	START(t, weir_sendv, c->r, OP(t), o->fd, t->iov, 2, 0);
}

static void set_msg(struct task *t)
{
	set_iov(t);
	t->msg.msg_iov = t->iov;
	t->msg.msg_iovlen = 2;
}

static void call_sendmsg(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, STREAMS, &o);

	if (!t)
		return;
	set_msg(t);
	START(t, weir_sendmsg, c->r, OP(t), o->fd, &t->msg, 0);
}

static void call_recvmsg(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, STREAMS, &o);

	if (!t)
		return;
	set_msg(t);
	START(t, weir_recvmsg, c->r, OP(t), o->fd, &t->msg, 0);
}

static void call_shutdown(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, STREAMS, &o);

	if (t)
		START(t, weir_shutdown, c->r, OP(t), o->fd, (int)rnd(3));
}

static void call_poll(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, ALL_FDS & ~FILES, &o);

	if (t)
		START(t, weir_poll, c->r, OP(t), o->fd,
		      rnd(2) ? WEIR_READABLE : WEIR_WRITABLE);
}

static void call_splice(struct core *c)
{
	struct object *o;
	struct task *t = on_fd(c, STREAMS | 1u << FD_PIPE, &o);
	struct object *to = any(A_FD);

	if (!t)
		return;
	if (!to)
		to = o;
	task_pin(t, to);
	START(t, weir_splice, c->r, OP(t), o->fd, to->fd, 100);
}

/* No call of the library: descriptors for the others. */
static void make_fds(struct core *c)
{
	int fds[2], kind = rnd(2) ? FD_STREAM : FD_PIPE, err;

	(void)c;
	if (one_in(3)) {
		fds[0] = w.sim ? weir_sim_file_open(w.sim, "a/file",
						    O_RDWR | O_CREAT, 0600) :
				 (int)open(w.dir, O_RDWR | O_TMPFILE | O_CLOEXEC,
					   0600);
		if (fds[0] >= 0)
			fd_new(fds[0], FD_FILE);
		return;
	}
	if (w.sim)
		err = kind == FD_PIPE ? weir_sim_pipe(w.sim, fds) :
					weir_sim_socket_pair(w.sim, fds);
	else
		err = kind == FD_PIPE ? pipe2(fds, O_NONBLOCK | O_CLOEXEC) :
			      socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK |
					 SOCK_CLOEXEC, 0, fds);
	if (err)
		return;
	fd_new(fds[0], kind);
	fd_new(fds[1], kind);
}

const struct call calls_op[] = {
	{ "", make_fds, 32 },
	{ "weir_read", call_read, 16 },
	{ "weir_write", call_write, 16 },
	{ "weir_readv", call_readv, 8 },
	{ "weir_writev", call_writev, 8 },
	{ "weir_op_set_rw", call_set_rw, 4 },
	{ "weir_fsync", call_fsync, 2 },
	{ "weir_fsync_range", call_fsync_range, 2 },
	{ "weir_fallocate", call_fallocate, 2 },
	{ "weir_open", call_open, 4 },
	{ "weir_open_how", call_open_how, 4 },
	{ "weir_close", call_close, 16 },
	{ "weir_statx", call_statx, 4 },
	{ "weir_rename", call_rename, 2 },
	{ "weir_unlink", call_unlink, 2 },
	{ "weir_mkdir", call_mkdir, 2 },
	{ "weir_link", call_link, 2 },
	{ "weir_symlink", call_symlink, 2 },
	{ "weir_readlink", call_readlink, 2 },
	{ "weir_ftruncate", call_ftruncate, 2 },
	{ "weir_chmod", call_chmod, 2 },
	{ "weir_chown", call_chown, 2 },
	{ "weir_utimens", call_utimens, 2 },
	{ "weir_readdir", call_readdir, 2 },
	{ "weir_xattr_get", call_xattr_get, 2 },
	{ "weir_xattr_set", call_xattr_set, 2 },
	{ "weir_xattr_list", call_xattr_list, 2 },
	{ "weir_xattr_remove", call_xattr_remove, 2 },
	{ "weir_copy_range", call_copy_range, 4 },
	{ "weir_fd_register", call_fd_register, 4 },
	{ "weir_fd_unregister", call_fd_unregister, 4 },
	{ "weir_listen", call_listen, 4 },
	{ "weir_accept", call_accept, 8 },
	{ "weir_connect", call_connect, 8 },
	{ "weir_recv", call_recv, 16 },
	{ "weir_send", call_send, 16 },
	{ "weir_sendv", call_sendv, 8 },
	{ "weir_sendmsg", call_sendmsg, 8 },
	{ "weir_recvmsg", call_recvmsg, 8 },
	{ "weir_shutdown", call_shutdown, 4 },
	{ "weir_poll", call_poll, 8 },
	{ "weir_splice", call_splice, 8 },
	{ NULL, NULL, 0 },
};

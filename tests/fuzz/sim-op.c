/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of every kind, and the descriptors that they go over. */

#include <sys/un.h>

#include "tests/fuzz/sim-world.h"

static const char *const paths[] = { "a/x", "a/y", "b/x", "a/dir/z", "a/disk",
				     "a", "b", "" };

static const char *some_path(void)
{
	return paths[byte_below(sizeof(paths) / sizeof(paths[0]))];
}

static size_t some_len(void)
{
	static const size_t lens[] = { 1, 512, 100, 4096, 1000, 8192, 70000,
				       3 };

	return lens[byte_below(8)];
}

static uint64_t some_off(void)
{
	static const uint64_t offs[] = { 0, 512, 1, 4096, 100, 1 << 20,
					 WEIR_OFF_STREAM,
					 UINT64_C(1) << 40 };

	return offs[byte_below(8)];
}

/* Descriptors. */

struct place *place_any(void)
{
	struct place *place = &w.places[byte_below(FDS)];

	return place->fd < 0 ? NULL : place;
}

void place_keep(int64_t fd, bool is_stream)
{
	uint32_t i;

	for (i = 0; i < FDS; i++) {
		if (w.places[i].fd >= 0 || w.places[i].users)
			continue;
		w.places[i].fd = (int)fd;
		w.places[i].is_stream = is_stream;
		return;
	}
	MUST(!weir_sim_close((int)fd));
}

void place_close(struct place *place)
{
	int fd = place->fd;

	if (fd < 0 || place->users)
		return;
	place->fd = -1;
	MUST(!weir_sim_close(fd));
}

static void make_pair(bool is_pipe)
{
	int fds[2];
	int err = is_pipe ? weir_sim_pipe(w.sim, fds) :
			    weir_sim_socket_pair(w.sim, fds);

	if (err)
		return;
	place_keep(fds[0], true);
	place_keep(fds[1], true);
}

static void make_socket(bool listens)
{
	const char *name = byte_below(2) ? "a:1" : "b:1";
	int fd;

	if (listens ? weir_sim_listen(w.sim, &fd, name,
				      1 + (int)byte_below(3)) :
		      weir_sim_socket(w.sim, &fd, name))
		return;
	place_keep(fd, true);
}

void place_touch(void)
{
	struct place *place;
	int fd;

	switch (byte_below(7)) {
	case 0:
	case 1:
		make_pair(byte_below(2));
		break;
	case 2:
	case 3:
		make_socket(byte_below(2));
		break;
	case 4:
		fd = weir_sim_file_open(w.sim, some_path(), O_RDWR | O_CREAT,
					0600);
		if (fd >= 0)
			place_keep(fd, false);
		break;
	case 5:
		place = place_any();
		if (place)
			(void)weir_sim_reset(place->fd);
		break;
	default:
		place = place_any();
		if (place)
			place_close(place);
	}
}

/* Operations. */

static int64_t do_work(void *arg)
{
	MUST(arg == &w);
	return 42;
}

static void end_with_fd(struct task *t, int64_t res)
{
	if (res >= 0)
		place_keep(res, !strcmp(t->what, "accept"));
}

static void give_memory(struct task *t)
{
	size_t part;

	t->len = some_len();
	t->buf = malloc(t->len);
	MUST(t->buf);
	memset(t->buf, 'w', t->len);
	part = t->len / 3;
	t->iov[0] = (struct iovec){ t->buf, part };
	t->iov[1] = (struct iovec){ t->buf + part, part };
	t->iov[2] = (struct iovec){ t->buf + 2 * part, t->len - 2 * part };
	t->msg.msg_iov = t->iov;
	t->msg.msg_iovlen = 3;
}

static int start_plain(struct task *t, uint32_t kind)
{
	struct weir_reactor *r = t->core->r;
	struct weir_op *op = &t->job.op;

	switch (kind) {
	case 0:
		task_begin(t, "nop", 0);
		return weir_nop(r, op);
	case 1:
		task_begin(t, "defer", 0);
		return weir_defer(r, op);
	case 2:
		task_begin(t, "work", 42);
		return weir_work(r, op, do_work, &w);
	default:
		task_begin(t, "sleep", 0);
		t->not_before_ns = some_time();
		return weir_sleep_until(r, op, t->not_before_ns);
	}
}

static int some_flags(void)
{
	static const int flags[] = {
		O_RDWR | O_CREAT, O_RDONLY, O_RDWR, O_WRONLY | O_TRUNC,
		O_RDWR | O_CREAT | O_EXCL, O_RDWR | O_DIRECT, O_RDWR | O_SYNC,
		O_RDONLY | O_DIRECTORY, O_RDWR | O_APPEND,
	};

	return flags[byte_below(9)];
}

static int start_path(struct task *t, uint32_t kind)
{
	struct weir_reactor *r = t->core->r;
	struct weir_op *op = &t->job.op;
	const char *path = some_path();

	switch (kind) {
	case 0:
	case 1:
		task_begin(t, "open", INT32_MAX);
		t->end = end_with_fd;
		return weir_open(r, op, AT_FDCWD, path, some_flags(), 0600);
	case 2:
		task_begin(t, "statx", 0);
		return weir_statx(r, op, AT_FDCWD, path, 0, STATX_BASIC_STATS,
				  (struct statx *)t->result);
	case 3:
		task_begin(t, "rename", 0);
		return weir_rename(r, op, AT_FDCWD, path, AT_FDCWD,
				   some_path(),
				   byte_below(2) * RENAME_NOREPLACE);
	default:
		task_begin(t, "unlink", 0);
		return weir_unlink(r, op, AT_FDCWD, path,
				   byte_below(2) * AT_REMOVEDIR);
	}
}

static int start_transfer(struct task *t, uint32_t kind, int fd)
{
	struct weir_reactor *r = t->core->r;
	struct weir_op *op = &t->job.op;
	uint64_t off = some_off();
	uint32_t flags;

	t->is_of_socket = true;	/* It may be; calls alone decide the faults. */
	give_memory(t);
	task_begin(t, "transfer", (int64_t)t->len);
	switch (kind) {
	case 0:
		return weir_read(r, op, fd, t->buf, t->len, off);
	case 1:
		return weir_write(r, op, fd, t->buf, t->len, off);
	case 2:
		return weir_readv(r, op, fd, t->iov, 3, off);
	case 3:
		return weir_writev(r, op, fd, t->iov, 3, off);
	case 4:
		return weir_recv(r, op, fd, t->buf, t->len,
				 byte_below(2) * WEIR_SOCK_ALL);
	case 5:
		flags = byte_below(8);
		return weir_send(r, op, fd, t->buf, t->len,
				 (flags & 2 ? WEIR_SOCK_MORE : 0) |
				 (flags & 4 ? WEIR_SOCK_ZEROCOPY : 0));
	case 6:
		return weir_sendv(r, op, fd, t->iov, 3, 0);
	case 7:
		return weir_sendmsg(r, op, fd, &t->msg, 0);
	default:
		return weir_recvmsg(r, op, fd, &t->msg, 0);
	}
}

static int start_connect(struct task *t, int fd)
{
	static const char *const names[] = { "a:1", "b:1", "nobody" };

	task_begin(t, "connect", 0);
	t->is_of_socket = true;
	t->to.sun_family = AF_UNIX;
	strcpy(t->to.sun_path, names[byte_below(3)]);
	return weir_connect(t->core->r, &t->job.op, fd,
			    (struct sockaddr *)&t->to, sizeof(t->to));
}

static int start_range(struct task *t, int fd)
{
	struct place *to = place_any();

	if (!to)
		to = t->places[0];
	task_uses(t, 1, to);
	task_begin(t, "copy_range", INT64_MAX);
	return weir_copy_range(t->core->r, &t->job.op, fd, some_off() & 0xffff,
			       to->fd, some_off() & 0xffff, some_len());
}

/* @place is nobody's any more, once this has begun. */
static int start_close(struct task *t, struct place *place)
{
	int err;

	t->places[0] = NULL;
	place->users--;
	if (place->users)
		return -EAGAIN;
	task_begin(t, "close", 0);
	err = weir_close(t->core->r, &t->job.op, place->fd);
	if (!err)
		place->fd = -1;
	return err;
}

static int start_on(struct task *t, uint32_t kind, struct place *place)
{
	struct weir_reactor *r = t->core->r;
	struct weir_op *op = &t->job.op;
	uint32_t how = byte_below(3);

	task_uses(t, 0, place);
	switch (kind) {
	case 0:
		task_begin(t, "fsync", 0);
		return weir_fsync(r, op, place->fd, how & WEIR_FSYNC_DATA);
	case 1:
		task_begin(t, "fallocate", 0);
		return weir_fallocate(r, op, place->fd, (int)how,
				      some_off() & 0xffff, some_len());
	case 2:
		return start_close(t, place);
	case 3:
		return start_range(t, place->fd);
	case 4:
		task_begin(t, "accept", INT32_MAX);
		t->end = end_with_fd;
		return weir_accept(r, op, place->fd, NULL, NULL, 0);
	case 5:
		return start_connect(t, place->fd);
	case 6:
		task_begin(t, "shutdown", 0);
		return weir_shutdown(r, op, place->fd, (int)how);
	case 7:
		task_begin(t, "poll", 15);
		return weir_poll(r, op, place->fd, 1 + how);
	default:
		return start_transfer(t, kind - 8, place->fd);
	}
}

void op_start(struct core *c)
{
	uint32_t kind = byte_below(32);
	struct place *place = NULL;
	struct task *t;

	if (kind >= 10)
		place = place_any();
	if (kind >= 10 && !place) {
		place_touch();
		return;
	}
	t = task_new(c);
	if (!t)
		return;
	if (kind < 4)
		task_started(t, start_plain(t, kind));
	else if (kind < 10)
		task_started(t, start_path(t, kind - 4));
	else
		task_started(t, start_on(t, (kind - 10) % 17, place));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asking an exporter for something: connect, send, receive, import.
 *
 * The caller's operation stands for these steps, one after the other; a cancel
 * reaches the one that is in flight.  What the exporter sends is as hostile as
 * the descriptor in it: file descriptors that came are closed, whatever became
 * of it.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <weir/socket.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/export/internal.h"
#include "mem/export/message.h"
#include "reactor/op-inline.h"

#define CALL "weir_mmap_import_from"

struct client {
	struct weir_op step;
	struct weir_op *op;	/* The caller's. */
	struct weir_reactor *r;
	int fd;
	struct sockaddr_un address;
	socklen_t address_len;
	bool was_reset;
	struct weir_import_opts opts;
	struct weir_exporter_peer peer;
	char key[DESCRIPTOR_KEY_MAX];
	size_t request_len;
	struct msghdr msg;
	struct iovec iov;
	_Alignas(struct cmsghdr)
	char control[CMSG_SPACE(WEIR_EXPORT_FDS * sizeof(int))];
	uint8_t buf[MESSAGE_ANSWER_MAX];
};

static struct client *client_of(const struct weir_op *op)
{
	return (struct client *)(uintptr_t)op->u.words[0];
}

static void cancel(struct weir_op *op)
{
	weir_op_cancel(&client_of(op)->step);
}

static const struct weir_op_class client_class = {
	.name = "mmap import",
	.cancel = cancel,
};

static void client_free(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	explicit_bzero(c->key, sizeof(c->key));
	free(c);
}

static void end(struct client *c, int err, struct weir_mmap *mmap)
{
	struct weir_op *op = c->op;

	client_free(c);
	op->u.words[0] = (uintptr_t)mmap;
	op_complete(op, err);
}

/* The next step is @fn.  Returns false if it is not to be, for a cancel. */
static bool go_on(struct client *c, weir_op_fn *fn)
{
	if (op_cancel_wanted(c->op)) {
		end(c, -ECANCELED, NULL);
		return false;
	}
	weir_op_init(&c->step, fn);
	return true;
}

/* All descriptors that came with @msg, to @fds, at most WEIR_EXPORT_FDS. */
static uint32_t take_fds(int *fds, struct msghdr *msg)
{
	struct cmsghdr *cmsg;
	uint32_t n = 0, i, got;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET ||
		    cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		got = (uint32_t)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		for (i = 0; i < got && n < WEIR_EXPORT_FDS; i++, n++)
			memcpy(&fds[n], CMSG_DATA(cmsg) + i * sizeof(int),
			       sizeof(int));
	}
	return n;
}

/* The exporting process; without it nothing is imported by copying. */
static void find_peer(struct client *c)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	c->opts.peer = NULL;
	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return;
	c->peer.pid = cred.pid;
	c->peer.uid = cred.uid;
	c->peer.gid = cred.gid;
	c->opts.peer = &c->peer;
}

static int take(struct weir_mmap **ret, struct client *c, size_t len,
		const int *fds, uint32_t n_fds)
{
	const void *desc = NULL;
	size_t desc_len = 0;
	int err;

	if (!len)
		return why(-ECONNRESET, CALL ": the exporter has ended, or cut "
			   "us off");
	if (c->msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return why(-EPROTO, CALL ": the answer is too long");
	err = message_get_answer(&desc, &desc_len, c->buf, len);
	if (err)
		return why(err, CALL ": the exporter at %s answered: %s",
			   c->address.sun_path, strerror(-err));
	find_peer(c);
	return weir_mmap_import(ret, desc, desc_len, fds, n_fds, &c->opts);
}

static void receive(struct client *c);

static void on_answer(struct weir_op *step, int64_t res)
{
	struct client *c = weir_container_of(step, struct client, step);
	struct weir_mmap *mmap = NULL;
	int fds[WEIR_EXPORT_FDS];
	uint32_t n_fds, i;
	int err;

	/* Hung up on, perhaps with an answer, which comes after this. */
	if (res == -ECONNRESET && !c->was_reset) {
		c->was_reset = true;
		receive(c);
		return;
	}
	if (res < 0) {
		end(c, (int)res, NULL);
		return;
	}
	n_fds = take_fds(fds, &c->msg);
	err = take(&mmap, c, (size_t)res, fds, n_fds);
	for (i = 0; i < n_fds; i++)
		close(fds[i]);
	end(c, err, mmap);
}

static void receive(struct client *c)
{
	int err;

	if (!go_on(c, on_answer))
		return;
	c->iov.iov_len = sizeof(c->buf);
	c->msg.msg_control = c->control;
	c->msg.msg_controllen = sizeof(c->control);
	err = weir_recvmsg(c->r, &c->step, c->fd, &c->msg, 0);
	if (err)
		end(c, err, NULL);
}

static void on_request_sent(struct weir_op *step, int64_t res)
{
	struct client *c = weir_container_of(step, struct client, step);

	/* An exporter that is full has answered and hung up already. */
	if (res < 0 && res != -EPIPE && res != -ECONNRESET)
		end(c, (int)res, NULL);
	else
		receive(c);
}

static void on_connected(struct weir_op *step, int64_t res)
{
	struct client *c = weir_container_of(step, struct client, step);
	int err = (int)res;

	if (err < 0) {
		end(c, err, NULL);
		return;
	}
	if (!go_on(c, on_request_sent))
		return;
	c->iov.iov_base = c->buf;
	c->iov.iov_len = c->request_len;
	c->msg.msg_iov = &c->iov;
	c->msg.msg_iovlen = 1;
	err = weir_sendmsg(c->r, &c->step, c->fd, &c->msg, 0);
	if (err)
		end(c, err, NULL);
}

static int check_args(const char *path, const char *name,
		      struct weir_import_opts *opts,
		      const struct weir_import_opts *user)
{
	size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path);

	if (!path || !*path || strlen(path) >= max)
		return why(-EINVAL, CALL ": not the path of a UNIX socket");
	if (!name || !*name || strlen(name) > MESSAGE_NAME_MAX)
		return why(-EINVAL, CALL ": a name has 1 to %d bytes",
			   MESSAGE_NAME_MAX);
	return opts_load(opts, sizeof(*opts), user, CALL);
}

static int keep_key(struct client *c, const struct weir_import_opts *opts)
{
	c->opts = *opts;
	c->opts.size = sizeof(c->opts);
	if (!opts->key)
		return 0;
	if (opts->key_len > sizeof(c->key))
		return why(-EINVAL, CALL ": the key is too long");
	memcpy(c->key, opts->key, opts->key_len);
	c->opts.key = c->key;
	return 0;
}

static int client_start(struct client *c)
{
	int err;

	c->fd = export_socket(0, CALL);
	if (c->fd < 0)
		return c->fd;
	err = op_admit(c->r, c->op);
	if (err)
		return err == OP_ENDED ? err : op_refused(err, c->op, CALL);
	weir_op_init(&c->step, on_connected);
	err = weir_connect(c->r, &c->step, c->fd,
			   (struct sockaddr *)&c->address, c->address_len);
	if (err)
		return err;
	c->op->u.words[0] = (uintptr_t)c;
	op_enlist(c->r, c->op, &client_class);
	return 0;
}

int weir_mmap_import_from(struct weir_reactor *r, struct weir_op *op,
			  const char *path, const char *name,
			  const struct weir_import_opts *user)
{
	struct weir_import_opts opts;
	struct client *c;
	int err = check_args(path, name, &opts, user);

	if (!err && r->backend->isolated)
		err = why(-EOPNOTSUPP, CALL ": a simulated world has no UNIX "
			  "sockets; take what weir_mmap_export() gives");
	if (err)
		return err;
	c = mem_calloc(1, sizeof(*c));
	if (!c)
		return why(-ENOMEM, CALL ": no memory");
	c->r = r;
	c->op = op;
	c->fd = -1;
	c->address_len = export_address(&c->address, path);
	c->request_len = message_put_request(c->buf, name);
	err = keep_key(c, &opts);
	if (!err)
		err = client_start(c);
	if (err)
		client_free(c);
	return op_admitted(err);
}

struct weir_mmap *weir_mmap_imported(struct weir_op *op)
{
	struct weir_mmap *mmap = (struct weir_mmap *)(uintptr_t)op->u.words[0];

	op->u.words[0] = 0;
	return mmap;
}

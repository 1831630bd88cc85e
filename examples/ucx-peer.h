/* SPDX-License-Identifier: CC0-1.0 */
/* A process that only UCX drives, without weir, for 32-ucx.c: it offers memory,
 * and waits by ucp_worker_arm() and poll(2) until its parent ends. */
#ifndef EXAMPLES_UCX_PEER_H
#define EXAMPLES_UCX_PEER_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define UCX_PEER_BLOB 4096

/* The peer, and what it tells of itself. */
struct ucx_peer {
	pid_t pid;
	int fd;
	int hangs, can_hang;
	uint64_t addr;
	char address[UCX_PEER_BLOB], key[UCX_PEER_BLOB];
};

struct ucx_end {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
	ucp_rkey_h key;
	int efd;
};

/* The same on both sides: features, and a worker that can be waited for. */
static inline ucs_status_t ucx_end_open(struct ucx_end *end)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES,
		.features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
	};
	const ucp_worker_params_t one_thread = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucs_status_t status = ucp_init(&params, NULL, &end->context);

	if (!status)
		status = ucp_worker_create(end->context, &one_thread,
					   &end->worker);
	return status ? status : ucp_worker_get_efd(end->worker, &end->efd);
}

static inline void ucx_peer_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg, (void)ep;
	fprintf(stderr, "the peer: %s\n", ucs_status_string(status));
}

/*
 * An endpoint, and the key of the memory there.  One that may be closed by
 * force needs a transport that reports the failure of a peer, which shared
 * memory does not (UCX 1.13).
 */
static inline ucs_status_t ucx_end_connect(struct ucx_end *end,
					   struct ucx_peer *peer)
{
	ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
			      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
			      UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = (const ucp_address_t *)peer->address,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler.cb = ucx_peer_failed,
	};
	ucs_status_t status = ucp_ep_create(end->worker, &params, &end->ep);

	peer->can_hang = !status;
	if (status) {
		params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
		status = ucp_ep_create(end->worker, &params, &end->ep);
	}
	return status ? status :
	       ucp_ep_rkey_unpack(end->ep, peer->key, &end->key);
}

static inline void ucx_end_close(struct ucx_end *end)
{
	ucp_rkey_destroy(end->key);
	ucp_worker_destroy(end->worker);
	ucp_cleanup(end->context);
}

/* Memory of UCX's own, which a peer on this machine can map. */
static inline void ucx_peer_serve(int fd, size_t bytes)
{
	const ucp_mem_map_params_t map = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
			      UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.length = bytes, .flags = UCP_MEM_MAP_ALLOCATE,
	};
	ucp_mem_attr_t attr = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };
	struct ucx_peer *peer = calloc(1, sizeof(*peer));
	struct pollfd p[2] = { { .events = POLLIN },
			       { .fd = fd, .events = POLLIN } };
	size_t address_len, key_len;
	ucp_address_t *address;
	struct ucx_end end;
	ucp_mem_h mem;
	void *key;

	if (!peer || ucx_end_open(&end) ||
	    ucp_mem_map(end.context, &map, &mem) || ucp_mem_query(mem, &attr) ||
	    ucp_worker_get_address(end.worker, &address, &address_len) ||
	    ucp_rkey_pack(end.context, mem, &key, &key_len) ||
	    address_len > UCX_PEER_BLOB || key_len > UCX_PEER_BLOB)
		_exit(1);
	peer->addr = (uintptr_t)attr.address;
	memcpy(peer->address, address, address_len);
	memcpy(peer->key, key, key_len);
	if (write(fd, peer, sizeof(*peer)) != sizeof(*peer))
		_exit(1);
	p[0].fd = end.efd;
	while (!p[1].revents) {
		while (ucp_worker_progress(end.worker))
			;
		if (ucp_worker_arm(end.worker) == UCS_OK)
			poll(p, 2, -1);
	}
	_exit(0);
}

/* Fork it, before this process uses UCX, and wait for what it tells.  Returns 0
 * or -1. */
static inline int ucx_peer_start(struct ucx_peer *peer, size_t bytes)
{
	size_t got = 0;
	ssize_t n = 1;
	pid_t pid;
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		return -1;
	pid = fork();
	if (!pid) {
		close(fd[0]);
		ucx_peer_serve(fd[1], bytes);
	}
	close(fd[1]);
	for (; n > 0 && got < sizeof(*peer); got += n > 0 ? (size_t)n : 0)
		n = read(fd[0], (char *)peer + got, sizeof(*peer) - got);
	peer->pid = pid;
	peer->fd = fd[0];
	return pid > 0 && got == sizeof(*peer) ? 0 : -1;
}

/* Have it answer no more, if the endpoint may be closed by force.  (UCX 1.13
 * aborts a process whose memory is being read over TCP by a peer that closes by
 * force: "Fatal: unexpected error: Endpoint timeout".) */
static inline int ucx_peer_hang(struct ucx_peer *peer)
{
	peer->hangs = peer->can_hang && !kill(peer->pid, SIGSTOP);
	return peer->hangs;
}

/* Have it end.  Returns 0 if it has served until then. */
static inline int ucx_peer_stop(const struct ucx_peer *peer)
{
	int status;

	close(peer->fd);
	if (peer->hangs)
		kill(peer->pid, SIGKILL);
	if (waitpid(peer->pid, &status, 0) != peer->pid)
		return 1;
	return peer->hangs ? !WIFSIGNALED(status) : status;
}

#endif /* EXAMPLES_UCX_PEER_H */

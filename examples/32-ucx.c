/* SPDX-License-Identifier: CC0-1.0 */

/* UCX in the loop, by a poll hook: a put, a get and a forced close are
 * operations as any other.  The peer is a process that UCX alone drives.
 * UCX_TLS names the transports: UCX_TLS=tcp or UCX_TLS=posix,cma, say. */

#include "ucx-peer.h"
#include <weir/poll-hook.h>
#include <weir/reactor.h>
#include <weir/timer.h>

struct ucx {
	struct weir_reactor *r;
	struct weir_poll_hook *hook;
	struct ucx_end end;
};

static int ucx_poll(void *arg)
{
	return ucp_worker_progress(((struct ucx *)arg)->end.worker) > 0;
}

/* UCS_ERR_BUSY: there is something to poll for. */
static int ucx_before_sleep(void *arg, int *fd)
{
	struct ucx *u = arg;
	ucs_status_t status = ucp_worker_arm(u->end.worker);

	*fd = u->end.efd;
	return status == UCS_ERR_BUSY ? 1 : status ? -EIO : 0;
}

static const struct weir_poll_hook_ops ucx_ops = {
	.size = sizeof(ucx_ops), .name = "ucx",
	.poll = ucx_poll, .before_sleep = ucx_before_sleep,
};

static int64_t errno_of(ucs_status_t status)
{
	return !status ? 0 : status == UCS_ERR_CANCELED ? -ECANCELED : -EIO;
}

/* UCX calls this in ucp_worker_progress(); the loop calls back later. */
static void on_done(void *request, ucs_status_t status, void *op)
{
	weir_op_finish(op, errno_of(status));
	ucp_request_free(request);
}

static ucp_request_param_t param_of(struct weir_op *op, uint32_t flags)
{
	return (ucp_request_param_t){
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
				UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FIELD_FLAGS,
		.cb.send = on_done, .user_data = op, .flags = flags,
	};
}

/* No pointer: it has ended, and UCX does not call on_done(). */
static int begun(struct weir_op *op, ucs_status_ptr_t request)
{
	if (!UCS_PTR_IS_PTR(request))
		weir_op_finish(op, errno_of(UCS_PTR_STATUS(request)));
	return 0;
}

/* Ends when the bytes are in the peer's memory, after a flush. */
static int ucx_put(struct ucx *u, struct weir_op *op, const void *buf,
		   size_t len, uint64_t to)
{
	ucp_request_param_t p = param_of(op, 0), none = { .op_attr_mask = 0 };
	int err = weir_op_start(u->r, op, NULL, NULL);
	void *put = err ? NULL : ucp_put_nbx(u->end.ep, buf, len, to,
					     u->end.key, &none);

	if (UCS_PTR_IS_PTR(put))
		ucp_request_free(put); /* When it has ended. */
	return err ? err : begun(op, UCS_PTR_IS_ERR(put) ? put :
				 ucp_ep_flush_nbx(u->end.ep, &p));
}

static int ucx_get(struct ucx *u, struct weir_op *op, void *buf, size_t len,
		   uint64_t from)
{
	ucp_request_param_t p = param_of(op, 0);
	int err = weir_op_start(u->r, op, NULL, NULL);

	return err ? err : begun(op, ucp_get_nbx(u->end.ep, buf, len, from,
						 u->end.key, &p));
}

/* With UCP_EP_CLOSE_FLAG_FORCE, what is in flight ends with -ECANCELED. */
static int ucx_close(struct ucx *u, struct weir_op *op, uint32_t flags)
{
	ucp_request_param_t p = param_of(op, flags);
	int err = weir_op_start(u->r, op, NULL, NULL);

	return err ? err : begun(op, ucp_ep_close_nbx(u->end.ep, &p));
}

static void on_end(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

static int64_t result(struct ucx *u, const struct weir_op *op, int err)
{
	while (!err && weir_op_is_busy(op))
		err = weir_reactor_turn(u->r, WEIR_FOREVER) < 0 ? -EIO : 0;
	return err ? err : *(int64_t *)op->data;
}

int main(void)
{
	static char out[4 << 20], in[sizeof(out)];
	struct weir_poll_hook_stats s = { .size = sizeof(s) }, idle = s;
	int64_t res, got = 0;
	struct weir_op op = { .fn = on_end, .data = &res };
	struct weir_op get = { .fn = on_end, .data = &got };
	struct ucx_peer peer;
	struct ucx u;
	int bad, force;

	memset(out, 'u', sizeof(out));
	if (ucx_peer_start(&peer, sizeof(out)) ||
	    ucx_end_open(&u.end) || ucx_end_connect(&u.end, &peer) ||
	    weir_reactor_create(&u.r, NULL) ||
	    weir_poll_hook_create(&u.hook, u.r, &ucx_ops, &u))
		return 1;
	bad = result(&u, &op, ucx_put(&u, &op, out, sizeof(out), peer.addr)) ||
	      result(&u, &op, ucx_get(&u, &op, in, sizeof(in), peer.addr)) ||
	      memcmp(in, out, sizeof(out));
	printf("put and get: %s\n", bad ? "failed" : "the same bytes");
	weir_poll_hook_stats(u.hook, &s);
	result(&u, &op, weir_sleep_until(u.r, &op, weir_reactor_now(u.r) +
					 200 * WEIR_MSEC));
	weir_poll_hook_stats(u.hook, &idle);
	printf("idle: %d wake-ups, %d sleeps\n", (int)(idle.wakeups - s.wakeups),
	       (int)(idle.sleeps - s.sleeps));
	force = ucx_peer_hang(&peer) ? UCP_EP_CLOSE_FLAG_FORCE : 0;
	bad |= ucx_get(&u, &get, in, sizeof(in), peer.addr) ||
	       result(&u, &op, ucx_close(&u, &op, (uint32_t)force)) ||
	       result(&u, &get, 0) != (force ? -ECANCELED : 0);
	printf("close%s: %s\n", force ? " by force" : "", strerror((int)-got));
	weir_poll_hook_destroy(u.hook);
	ucx_end_close(&u.end);
	return bad || ucx_peer_stop(&peer) || weir_reactor_destroy(u.r);
}

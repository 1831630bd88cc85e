/* SPDX-License-Identifier: BSD-3-Clause */

/* One end of a connection: it sends its bytes and shuts down, receives to the
 * end, and closes.  After an error it only closes. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <weir/file.h>

#include "sim-net.h"

struct end {
	struct pair *pair;
	struct weir_reactor *r;
	bool is_client;
	int fd;
	uint64_t epoch;		/* A server learns it. */
	uint64_t goal;		/* Bytes to send. */
	uint64_t sent, received;
	bool send_over, recv_over, broken, closing;
	bool unsure;		/* A timeout was a deadline's, or not. */
	uint32_t recv_flags;
	struct task send, recv, other;
	struct weir_receiver *receiver;	/* NULL: it receives by operations. */
	bool by_receiver;
	struct sockaddr_un to;
	struct end *next;
	struct end **pprev;
	char out[BLOCK], in[BLOCK];
};

static void go_on(struct end *end);

static struct run *run_of(const struct end *end)
{
	return end->pair->program->run;
}

/* Whether its connection is the pair's present one. */
static bool is_present(const struct end *end)
{
	return end->epoch == end->pair->epoch;
}

static struct flow *flow_out(struct end *end)
{
	return end->is_client ? &end->pair->up : &end->pair->down;
}

static struct flow *flow_in(struct end *end)
{
	return end->is_client ? &end->pair->down : &end->pair->up;
}

/* An error ends all its operations; without faults there must be a cause. */
static void fail(struct end *end, const struct task *task, int64_t res,
		 bool peer_may)
{
	must(run_of(end)->trial->faults || task_was_ended(task, res) ||
	     peer_may, "nothing fails without a cause", "a %s: %lld",
	     task->what, (long long)res);
	end->broken = true;
	end->send_over = end->recv_over = true;
}

/* Received bytes are those that were sent: in order, once, and no more. */
static void take(struct end *end, const char *data, size_t len)
{
	size_t skip = 0;

	if (!end->is_client && end->received < HEADER) {
		skip = HEADER - (size_t)end->received;
		if (skip > len)
			skip = len;
		memcpy((char *)&end->epoch + end->received, data, skip);
		end->received += skip;
		data += skip;
		len -= skip;
		if (end->received == HEADER && is_present(end))
			end->pair->is_known = true;
	}
	if (!len)
		return;
	must(pattern_is(run_of(end), data, len, 2 * end->epoch +
			end->is_client, end->received),
	     "a stream's bytes come in order, once", "epoch %llu at %llu",
	     (unsigned long long)end->epoch,
	     (unsigned long long)end->received);
	end->received += len;
	must(!is_present(end) || end->received <= flow_in(end)->tried,
	     "no more is received than was sent", "%llu",
	     (unsigned long long)end->received);
}

static void take_end(struct end *end)
{
	const struct flow *flow = flow_in(end);

	end->recv_over = true;
	/* An error is reported once: if a send got it, a receive sees the
	 * end. */
	if (end->broken || end->unsure || end->send.is_under_way ||
	    end->other.is_under_way)
		return;
	if (!is_present(end) || (!end->is_client && end->received < HEADER))
		return;
	/* A server that has received nothing may have closed after an error. */
	if (end->is_client && !end->pair->is_known) {
		must(!end->received, "no more is received than was sent",
		     "%llu", (unsigned long long)end->received);
		return;
	}
	must(flow->shut && end->received == flow->sent,
	     "the end comes after all bytes", "%llu of %llu",
	     (unsigned long long)end->received,
	     (unsigned long long)flow->sent);
}

static void recv_end(struct task *task, int64_t res)
{
	struct end *end = task->op.data;

	end->unsure = end->unsure || res == -ETIMEDOUT;
	if (res > 0)
		take(end, end->in, (size_t)res);
	else if (!res)
		take_end(end);
	else if (!task_was_ended(task, res))
		fail(end, task, res, end->pair->program->closing);
	else
		/* The data that a long receive had before its cancel are not
		 * lost. */
		take(end, end->in, (size_t)task->op.detail.bytes);
	go_on(end);
}

static int on_data(struct weir_receiver *receiver, void *data, int64_t len,
		   void *arg)
{
	struct end *end = arg;

	(void)receiver;
	if (len > 0) {
		take(end, data, (size_t)len);
	} else if (!len) {
		take_end(end);
	} else {
		must(run_of(end)->trial->faults,
		     "nothing fails without a cause", "a receiver: %lld",
		     (long long)len);
		end->broken = end->send_over = end->recv_over = true;
	}
	if (len <= 0)
		go_on(end);
	return WEIR_RECEIVER_DONE;
}

static void start_recv(struct end *end)
{
	struct run *run = run_of(end);
	size_t len = 1 + rnd(run, BLOCK);
	uint32_t flags = one_in(run, 4) ? WEIR_SOCK_ALL : 0;

	if (end->by_receiver) {
		if (!end->receiver &&
		    weir_receiver_create(&end->receiver, end->r, end->fd, NULL,
					 on_data, end))
			end->by_receiver = false;
		return;
	}
	if (end->recv.is_under_way)
		return;
	task_init(&end->recv, run, "recv", recv_end);
	end->recv.ends_at_once = true;
	end->recv.op.data = end;
	task_began(&end->recv, weir_recv(end->r, &end->recv.op, end->fd,
					 end->in, len, flags));
}

/* Its bytes from @off on: the header, if it is the client, and the pattern. */
static void fill(struct end *end, size_t len)
{
	size_t skip = 0;

	if (end->is_client && end->sent < HEADER) {
		skip = HEADER - (size_t)end->sent;
		if (skip > len)
			skip = len;
		memcpy(end->out, (char *)&end->epoch + end->sent, skip);
	}
	pattern_fill(end->out + skip, len - skip,
		     2 * end->epoch + !end->is_client, end->sent + skip);
}

static void send_end(struct task *task, int64_t res)
{
	struct end *end = task->op.data;
	uint64_t n = task->op.detail.bytes;

	must(res < 0 || (uint64_t)res == n, "all of it is sent, or the detail "
	     "says how much", "%lld, %llu", (long long)res,
	     (unsigned long long)n);
	end->unsure = end->unsure || res == -ETIMEDOUT;
	end->sent += n;
	if (is_present(end))
		flow_out(end)->sent = flow_out(end)->tried = end->sent;
	if (res < 0 && !task_was_ended(task, res))
		fail(end, task, res, false);
	go_on(end);
}

static void shut_end(struct task *task, int64_t res)
{
	struct end *end = task->op.data;

	end->send_over = true;
	if (res < 0)
		fail(end, task, res, false);
	go_on(end);
}

static void start_shut(struct end *end)
{
	if (is_present(end))
		flow_out(end)->shut = true;
	task_init(&end->other, run_of(end), "shutdown", shut_end);
	end->other.op.data = end;
	task_began(&end->other, weir_shutdown(end->r, &end->other.op, end->fd,
					      SHUT_WR));
}

static void start_send(struct end *end)
{
	uint64_t left = end->goal - end->sent;
	size_t len = 1 + rnd(run_of(end), BLOCK);

	if (end->send.is_under_way || end->other.is_under_way)
		return;
	if (!left) {
		start_shut(end);
		return;
	}
	if (len > left)
		len = (size_t)left;
	fill(end, len);
	task_init(&end->send, run_of(end), "send", send_end);
	end->send.ends_at_once = true;
	end->send.op.data = end;
	if (!task_began(&end->send, weir_send(end->r, &end->send.op, end->fd,
					      end->out, len, 0)))
		return;
	if (is_present(end))
		flow_out(end)->tried = end->sent + len;
}

static void close_end(struct task *task, int64_t res)
{
	struct end *end = task->op.data;
	struct pair *pair = end->pair;

	must(!res || res == -EIO, "a close is done in any case", "%lld",
	     (long long)res);
	if (pair->client == end)
		pair->client = NULL;
	*end->pprev = end->next;
	if (end->next)
		end->next->pprev = end->pprev;
	free(end);
}

static void start_close(struct end *end)
{
	int err;

	if (end->send.is_under_way && !end->send.may_be_cancelled)
		task_cancel(&end->send);
	if (end->recv.is_under_way && !end->recv.may_be_cancelled)
		task_cancel(&end->recv);
	if (end->send.is_under_way || end->recv.is_under_way ||
	    end->other.is_under_way || end->closing)
		return;
	end->closing = true;
	if (is_present(end))
		flow_out(end)->shut = true;
	weir_receiver_destroy(end->receiver);
	end->receiver = NULL;
	task_init(&end->other, run_of(end), "close", close_end);
	end->other.op.data = end;
	err = weir_close(end->r, &end->other.op, end->fd);
	must(!err, "a close is never refused", "%d", err);
	task_began(&end->other, err);
}

/* A server sends when it has the client's header. */
static bool may_send(const struct end *end)
{
	return end->is_client || end->received >= HEADER;
}

static void go_on(struct end *end)
{
	if (end->recv_over && !may_send(end))
		end->send_over = true;
	if (end->send_over && end->recv_over) {
		start_close(end);
		return;
	}
	if (!end->recv_over)
		start_recv(end);
	if (!end->send_over && may_send(end))
		start_send(end);
}

static void connect_end(struct task *task, int64_t res)
{
	struct end *end = task->op.data;

	/* A full backlog is not an error. */
	if (res < 0)
		fail(end, task, res, res == -ECONNREFUSED || res == -EAGAIN);
	go_on(end);
}

/* End operations early, or retry one that found no capacity. */
void net_end_disturb(struct end *end)
{
	struct run *run = run_of(end);
	struct task *task = one_in(run, 2) ? &end->send : &end->recv;

	if (end->other.is_under_way)
		return;
	if (task->is_under_way && one_in(run, 2))
		task_cancel(task);
	else if (task->is_under_way)
		task_deadline(task, rnd(run, 1000000));
	else
		go_on(end);
}

void net_ends_go_on(struct program *p)
{
	struct end *end, *next;

	for (end = p->ends; end; end = next) {
		next = end->next;
		if (!end->other.is_under_way)
			go_on(end);
	}
}

struct end *net_end_create(struct pair *pair, bool is_client, int fd)
{
	struct program *p = pair->program;
	struct end *end = calloc(1, sizeof(*end));

	must(end != NULL, "there is memory", "none");
	end->pair = pair;
	end->is_client = is_client;
	end->r = is_client ? p->client : p->server;
	end->fd = fd;
	end->epoch = is_client ? pair->epoch : 0;
	end->goal = HEADER + rnd(p->run, one_in(p->run, 3) ? 100000 : 5000);
	end->by_receiver = one_in(p->run, 2);
	end->next = p->ends;
	end->pprev = &p->ends;
	if (end->next)
		end->next->pprev = &end->next;
	p->ends = end;
	if (!is_client)
		go_on(end);
	return end;
}

void net_end_connect(struct end *end, const char *name)
{
	int err;

	end->to.sun_family = AF_UNIX;
	strncpy(end->to.sun_path, name, sizeof(end->to.sun_path) - 1);
	task_init(&end->other, run_of(end), "connect", connect_end);
	end->other.ends_at_once = true;
	end->other.op.data = end;
	err = weir_connect(end->r, &end->other.op, end->fd,
			   (const struct sockaddr *)&end->to, sizeof(end->to));
	if (task_began(&end->other, err))
		return;
	end->send_over = end->recv_over = true;
	go_on(end);
}

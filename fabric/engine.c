/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: jobs are divided into slices, which are posted as long as their link
 * has less than a window of them in flight.  The jobs of a link are posted in order;
 * links take turns.
 */

#include <errno.h>

#include <weir/domain-user.h>

#include "fabric/fabric.h"

static struct fabric_job *part_of(struct weir_job *job)
{
	return weir_job_area(job);
}

static void queue_push(struct link *link, struct weir_job *job)
{
	struct fabric_job *p = part_of(job);

	p->next = NULL;
	p->pprev = link->last;
	*link->last = job;
	link->last = &p->next;
}

static void queue_del(struct fabric_job *p)
{
	if (!p->pprev)
		return;
	*p->pprev = p->next;
	if (p->next)
		part_of(p->next)->pprev = p->pprev;
	else
		p->link->last = p->pprev;
	p->pprev = NULL;
}

static uint64_t now_of(const struct link *link)
{
	return weir_reactor_now(link->port->fabric->reactor);
}

static void begin_grace(struct link *link)
{
	uint64_t grace = atomic_load(&link->port->card->grace_ns);

	link->grace = grace == WEIR_FOREVER ? grace :
		      now_of(link) + grace;
}

static void end(struct weir_job *job, struct fabric_job *p)
{
	uint64_t done = p->posted;

	queue_del(p);
	/* The other cancelled jobs get as long again. */
	if (p->is_cancelled && --p->link->cancelled)
		begin_grace(p->link);
	/* Slices behind the first failed one may be complete: they do not count. */
	if (p->failed_at < done)
		done = p->failed_at;
	weir_job_end(job, done, p->res, p->code);
}

/* Slices. */

static struct slice *slice_take(struct link *link, struct weir_job *job)
{
	struct port *port = link->port;
	struct slice *slice = port->free;

	port->free = slice->next;
	slice->link = link;
	slice->job = job;
	slice->next = link->posted;
	slice->pprev = &link->posted;
	if (slice->next)
		slice->next->pprev = &slice->next;
	link->posted = slice;
	return slice;
}

static void slice_give(struct slice *slice)
{
	struct port *port = slice->link->port;

	*slice->pprev = slice->next;
	if (slice->next)
		slice->next->pprev = slice->pprev;
	slice->link = NULL;
	slice->next = port->free;
	port->free = slice;
}

void slice_ended(struct slice *slice, int err)
{
	struct link *link = slice->link;
	struct weir_job *job = slice->job;
	struct fabric_job *p = part_of(job);

	link->in_flight--;
	link->port->in_flight--;
	p->in_flight--;
	if (err) {
		if (slice->off < p->failed_at)
			p->failed_at = slice->off;
		if (!p->res) {
			p->res = p->is_cancelled ? -ECANCELED : -ECONNRESET;
			p->code = err;
			queue_del(p);
		}
		link_is_broken(link, err);
	} else {
		link->moved = now_of(link);
	}
	slice_give(slice);
	link_ready(link);
	if (!p->in_flight && (p->res || p->posted == weir_job_bytes(job)))
		end(job, p);
}

/* Ends those of which not all is posted, when nothing is in flight. */
void link_end_jobs(struct link *link, int res, int code)
{
	struct fabric_job *p;
	struct weir_job *job;

	while ((job = link->first)) {
		p = part_of(job);
		p->res = res;
		p->code = code;
		end(job, p);
	}
}

/* Memory of another process, of a job that began, was revoked. */
static void end_stale(struct weir_job *job, struct fabric_job *p)
{
	p->res = -ESTALE;
	queue_del(p);
	if (!p->in_flight)
		end(job, p);
}

/* Posts the next slice of @job.  Returns 0, or libfabric's error. */
static ssize_t post_slice(struct link *link, struct weir_job *job)
{
	struct fabric_job *p = part_of(job);
	const struct fi_info *info = link->port->card->info;
	int here = p->is_write ? WEIR_JOB_SRC : WEIR_JOB_DST;
	int there = p->is_write ? WEIR_JOB_DST : WEIR_JOB_SRC;
	struct iovec iov[PIECES], far;
	struct fi_rma_iov rma = { .key = link->peer->key };
	struct fi_msg_rma msg = {
		.msg_iov = iov, .rma_iov = &rma, .rma_iov_count = 1,
	};
	uint32_t max = info->tx_attr->iov_limit < PIECES ?
		       (uint32_t)info->tx_attr->iov_limit : PIECES;
	uint64_t len = SLICE_MAX, sum = 0;
	struct slice *slice;
	uint32_t n, i;
	ssize_t err;

	weir_job_pieces(job, there, 0, &far, 1);
	if (far.iov_len < len)
		len = far.iov_len;
	if (info->ep_attr->max_msg_size < len)
		len = info->ep_attr->max_msg_size;
	n = weir_job_pieces(job, here, 0, iov, max);
	for (i = 0; i < n && sum < len; i++) {
		if (iov[i].iov_len > len - sum)
			iov[i].iov_len = len - sum;
		sum += iov[i].iov_len;
	}
	msg.iov_count = i;
	rma.addr = link->peer->base +
		   ((uint64_t)(uintptr_t)far.iov_base - link->peer->addr);
	rma.len = sum;
	slice = slice_take(link, job);
	slice->off = p->posted;
	msg.context = &slice->ctx;
	err = p->is_write ?
	      fi_writemsg(link->end.ep, &msg, FI_COMPLETION |
			  FI_DELIVERY_COMPLETE) :
	      fi_readmsg(link->end.ep, &msg, FI_COMPLETION);
	if (err) {
		slice_give(slice);
		return err;
	}
	link->fruitless = 0;
	weir_job_skip(job, sum);
	p->posted += sum;
	p->in_flight++;
	link->in_flight++;
	link->port->in_flight++;
	return 0;
}

/* Returns whether there is more, for which there was no capacity. */
static bool post_link(struct link *link)
{
	bool was_idle = !link->in_flight, was_full = link->is_full;
	struct weir_job *job;
	struct fabric_job *p;
	ssize_t err;

	link->is_full = false;
	while ((job = link->first) && link->in_flight < WINDOW &&
	       link->port->free) {
		p = part_of(job);
		if (weir_job_is_stale(job)) {
			end_stale(job, p);
			continue;
		}
		err = post_slice(link, job);
		if (err == -FI_EAGAIN) {
			link->is_full = true;
			break;
		}
		if (err) {
			link_is_broken(link, (int)-err);
			return false;
		}
		if (p->posted == weir_job_bytes(job))
			queue_del(p);
	}
	/* With nothing in flight no completion reports capacity: try again by the timer. */
	if (link->is_full && !link->in_flight) {
		if (!was_full)
			link->moved = now_of(link);
		link_watch(link);
		port_timer(link->port, now_of(link) + RETRY_NS);
	}
	if (was_idle && link->in_flight) {
		link->moved = now_of(link);
		link_watch(link);
	}
	return link->first && link->in_flight < WINDOW;
}

void port_post(struct port *port)
{
	struct link *link = port->ready, *next;

	port->ready = NULL;
	port->last_ready = &port->ready;
	for (; link; link = next) {
		next = link->next_ready;
		link->is_ready = false;
		if (!link->broken && post_link(link))
			link_ready(link);
	}
	if (!port->in_flight && !port->connecting && !port->ready &&
	    weir_timer_is_set(port->timer))
		weir_timer_stop(port->timer);
}

/* Jobs, at their start. */

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	(void)arg;
	*why = "only copies between memory of this process and an import by "
	       "libweir-fabric";
	if (q->kind != WEIR_JOB_COPY && q->kind != WEIR_JOB_PULL &&
	    q->kind != WEIR_JOB_PUSH)
		return 0;
	if (q->flags & WEIR_JOB_SIGNAL) {
		*why = "no signals, which need messages";
		return 0;
	}
	return is_imported(q->dst) ?
		       weir_domain_is_memory(q->src) :
		       is_imported(q->src) && weir_domain_is_memory(q->dst);
}

static int start(void *arg, struct weir_job *job)
{
	struct weir_domain *dst = weir_job_domain(job, WEIR_JOB_DST);
	struct weir_domain *src = weir_job_domain(job, WEIR_JOB_SRC);
	bool is_write = is_imported(dst);
	struct link *link = NULL;
	int err = link_of(&link, arg, weir_domain_ctx(is_write ? dst : src));

	if (!err && link->state == LINK_IDLE)
		err = link_connect(link);
	if (err)
		return err;
	*part_of(job) = (struct fabric_job){
		.link = link, .failed_at = UINT64_MAX, .is_write = is_write,
	};
	queue_push(link, job);
	link_ready(link);
	/* The flush of what a callback starts comes after the next poll. */
	if (!link->in_flight)
		port_post(link->port);
	return 0;
}

static void cancel(void *arg, struct weir_job *job)
{
	struct fabric_job *p = part_of(job);
	struct link *link = p->link;

	(void)arg;
	if (!p->res && p->posted < weir_job_bytes(job))
		p->res = -ECANCELED;
	queue_del(p);
	if (!p->in_flight) {
		end(job, p);
		return;
	}
	p->is_cancelled = true;
	if (!link->cancelled++)
		begin_grace(link);
	link_watch(link);
}

static void flush(void *arg)
{
	struct fabric *f = arg;
	struct port *port;

	for (port = f->ports; port; port = port->next)
		port_post(port);
}

const struct weir_engine_ops fabric_engine_ops = {
	.size = sizeof(fabric_engine_ops), .name = "fabric",
	.flags = WEIR_ENGINE_FOREIGN | WEIR_ENGINE_NO_FILES,
	.can = can, .start = start,
	.cancel = cancel, .flush = flush,
};

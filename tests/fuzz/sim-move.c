/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools, jobs, and the places that bytes can be. */

#include "tests/fuzz/sim-world.h"

/* Pools and their bufs. */

static bool has_links(const struct core *c)
{
	uint32_t i;

	for (i = 0; i < CHAINS; i++)
		if (c->links[i])
			return true;
	return false;
}

static void pool_create(struct core *c)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .bufs = 3, .buf_size = 4096,
		.flags = WEIR_POOL_NO_HUGE,
	};
	int err;

	if (byte_below(2)) {
		opts = (struct weir_pool_opts){ .size = sizeof(opts),
						.shared_pool = w.shared_pool,
						.cache = 1 };
		opts.flags = byte_below(2) * WEIR_POOL_NO_CACHE;
		if (opts.flags)
			opts.cache = 0;
	}
	opts.waiters_max = byte_below(3);
	err = weir_pool_create(&c->pool, c->r, &opts);
	MUST(err != -EINVAL && (err != -ESHUTDOWN || c->is_stopped));
	if (err)
		c->pool = NULL;
}

static void buf_keep(struct core *c, struct weir_buf *buf)
{
	uint32_t i;

	memset(weir_buf_addr(buf), 'b', weir_buf_len(buf));
	for (i = 0; i < HELD && c->bufs[i]; i++)
		;
	if (i == HELD)
		weir_buf_put(buf);
	else
		c->bufs[i] = buf;
}

static void end_with_buf(struct task *t, int64_t res)
{
	struct weir_buf *buf = weir_pool_taken(&t->job.op);

	MUST((res > 0) == (buf != NULL));
	if (buf)
		buf_keep(t->core, buf);
}

static void pool_wait(struct core *c)
{
	struct task *t = task_new(c);
	int err;

	if (!t)
		return;
	task_begin(t, "wait", 4096);
	t->end = end_with_buf;
	err = weir_pool_wait(c->pool, &t->job.op);
	task_started(t, err);
}

static void pool_touch(struct core *c)
{
	struct weir_buf *buf;
	int err;

	if (!c->pool) {
		pool_create(c);
		return;
	}
	switch (byte_below(8)) {
	case 0:
		if (has_links(c))	/* A pipeline may take from it. */
			break;
		err = weir_pool_destroy(c->pool);
		MUST(!err || err == -EBUSY);
		if (!err)
			c->pool = NULL;
		break;
	case 1:
	case 2:
	case 3:
		pool_wait(c);
		break;
	default:
		err = weir_pool_get(&buf, c->pool);
		MUST(!err || err == -EAGAIN);
		if (!err)
			buf_keep(c, buf);
	}
}

/* It is its list's now, which is put as one. */
static void forget(struct core *c, const struct weir_buf *buf)
{
	uint32_t i;

	for (i = 0; i < HELD; i++)
		if (c->bufs[i] == buf)
			c->bufs[i] = NULL;
}

static void buf_touch(struct core *c)
{
	uint32_t at = byte_below(HELD);
	struct weir_buf *buf = c->bufs[at], *other = c->bufs[byte_below(HELD)];

	if (!buf)
		return;
	switch (byte_below(5)) {
	case 0:
		(void)weir_buf_set_data(buf, weir_buf_addr(buf),
					some_span() % 4096);
		break;
	case 1:
		(void)weir_buf_reset(buf);
		break;
	case 2:
		if (other && other != buf && !weir_buf_chain(buf, other))
			forget(c, other);
		break;
	default:
		c->bufs[at] = NULL;
		weir_buf_put(buf);
	}
}

void move_release(struct core *c)
{
	uint32_t i;

	for (i = 0; i < HELD; i++) {
		if (c->bufs[i])
			weir_buf_put(c->bufs[i]);
		if (c->kept[i])
			weir_receiver_release(c->r, c->kept[i]);
		c->bufs[i] = NULL;
		c->kept[i] = NULL;
	}
}

/* Contexts. */

static void dma_create(struct core *c)
{
	struct weir_dma_opts opts = {
		.size = sizeof(opts), .jobs_max = 1 + byte_below(8),
		.turn_bytes = 4096, .staging_bufs = 1 + byte_below(2),
		.staging_size = 4096, .worker_min = byte_below(3) * 300,
	};
	int err = weir_dma_create(&c->dma, c->r, &opts);

	MUST(err != -EINVAL && (err != -ESHUTDOWN || c->is_stopped));
	if (err)
		c->dma = NULL;
	else
		MUST(!weir_dma_start(c->dma));
}

static void dma_stop(struct core *c)
{
	struct task *t = task_new(c);
	int err;

	if (!t)
		return;
	task_begin(t, "stop", 0);
	err = weir_dma_stop(c->dma, &t->job.op);
	t->is_of_device = err == -EBUSY;
	task_started(t, err);
}

static void dma_touch(struct core *c)
{
	int err;

	switch (byte_below(8)) {
	case 0:
		dma_stop(c);
		break;
	case 1:
		if (has_links(c))	/* Their steps may name it. */
			break;
		err = weir_dma_destroy(c->dma);
		MUST(!err || err == -EBUSY);
		if (!err)
			c->dma = NULL;
		break;
	case 2:
		weir_dma_flush(c->dma);
		break;
	default:
		err = weir_dma_start(c->dma);
		MUST(!err || err == -EBUSY || err == -EAGAIN);
	}
}

/* Jobs. */

/* A step of a chain may start when files and bufs are gone: not for it. */
static struct weir_operand some_operand(struct core *c, char *mem, size_t len,
					bool is_step)
{
	uint64_t at = byte_below(2) * 1024;
	uint32_t which = byte_below(8);
	struct weir_operand operand;

	if (is_step && which > 2)
		return weir_operand_mem(mem, len);

	switch (which) {
	case 0:
		return weir_operand_at(weir_sim_peer_domain(w.peer), at, len);
	case 1:
	case 2:
		return weir_operand_at(weir_sim_card_domain(w.cards[which - 1]),
				       at, len);
	case 3:
	case 4:
		if (w.files[which - 3])
			return weir_operand_at(w.files[which - 3], at, len);
		break;
	case 5:
		operand = weir_operand_buf(c->bufs[byte_below(HELD)]);
		if (operand.buf)
			return operand;
		break;
	}
	return weir_operand_mem(mem, len);
}

/* What @job is to do, with three places of @len bytes at @mem. */
static void job_draw(struct core *c, struct weir_job *job,
		     struct weir_operand *more, char *mem, size_t len)
{
	weir_job_copy(job, some_operand(c, mem, len, !more),
		      some_operand(c, mem + len, len, !more));
	job->kind = 1 + byte_below(9);
	job->flags = byte_below(16);
	job->pattern = UINT64_C(0x0123456789abcdef);
	if (more && job->kind >= WEIR_JOB_DUALCAST) {
		*more = some_operand(c, mem + 2 * len, len, false);
		job->more = more;
		job->n_extra = 1;
	}
}

static void job_end(struct task *t, int64_t res)
{
	struct weir_op_detail detail;

	MUST(!weir_op_get_detail(&t->job.op, &detail));
	if (t->job.kind != WEIR_JOB_COMPARE && res >= 0)
		MUST((uint64_t)res == detail.bytes);
	if (t->job.kind != WEIR_JOB_COPY || res != (int64_t)t->len ||
	    t->job.src.domain || t->job.src.buf || t->job.dst.domain ||
	    t->job.dst.buf)
		return;
	MUST(!memcmp((char *)(uintptr_t)t->job.src.addr,
		     (char *)(uintptr_t)t->job.dst.addr, t->len));
}

static void job_start(struct core *c)
{
	static const size_t lens[] = { 512, 1, 3000, 1024, 100, 8192 };
	struct task *t;
	uint32_t i;

	if (!c->dma) {
		dma_create(c);
		return;
	}
	t = task_new(c);
	if (!t)
		return;
	t->len = lens[byte_below(6)];
	t->buf = malloc(3 * t->len);
	MUST(t->buf);
	for (i = 0; i < 3 * t->len; i++)
		t->buf[i] = (char)(i * 7 + t->len);
	task_begin(t, "job", 65536);
	t->is_of_device = true;
	t->end = job_end;
	job_draw(c, &t->job, &t->more, t->buf, t->len);
	task_started(t, weir_job_start(c->dma, &t->job));
}

void move_draw_step(struct link *l, uint32_t i)
{
	job_draw(l->core, &l->jobs[i], NULL, l->memory[i], 128);
}

/* What is not a reactor's. */

static void file_domain_touch(void)
{
	uint32_t i = byte_below(DOMAINS);
	struct weir_domain_file_opts opts = {
		.size = sizeof(opts),
		.flags = byte_below(2) * WEIR_DOMAIN_FILE_DIRECT_ONLY,
	};
	struct place *place;
	int err;

	if (w.files[i]) {
		err = weir_domain_destroy(w.files[i]);
		MUST(!err || err == -EBUSY);
		if (err)
			return;
		w.files[i] = NULL;
		w.file_places[i]->users--;
		return;
	}
	place = place_any();
	if (!place || weir_domain_file_create(&w.files[i], place->fd, &opts)) {
		w.files[i] = NULL;
		return;
	}
	w.file_places[i] = place;
	place->users++;
}

static void peer_touch(void)
{
	switch (byte_below(5)) {
	case 0:
		weir_sim_peer_revoke(w.peer);
		break;
	case 1:
		weir_sim_peer_crash(w.peer);
		break;
	case 2:
		(void)weir_sim_peer_grant(w.peer, byte_below(4));
		break;
	case 3:
		(void)weir_sim_peer_restart(w.peer);
		break;
	default:
		(void)weir_sim_peer_reset(w.peer);
	}
}

static void disk_touch(void)
{
	switch (byte_below(4)) {
	case 0:
		(void)weir_sim_space(w.sim, "a/", some_span());
		break;
	case 1:
		(void)weir_sim_bad_sectors(w.sim, "a/x", 0, 512,
					   byte_below(4));
		break;
	case 2:
		(void)weir_sim_file_corrupt(w.sim, "a/x", 3, 0x40);
		break;
	default:
		(void)weir_sim_file_write(w.sim, "a/y", "hello", 5,
					  some_span() & 0xffff);
	}
}

void world_touch(void)
{
	static const char *const hosts[] = { "a/", "b/", "", "a", "b:" };

	switch (byte_below(8)) {
	case 0:
		weir_sim_set_faults(w.sim, (int)byte_below(2));
		break;
	case 1:
		weir_sim_power_cut(w.sim, hosts[byte_below(5)]);
		break;
	case 2:
		(void)weir_sim_partition(w.sim, "a", byte_below(2) ? "b" : "a",
					 (int)byte_below(2));
		break;
	case 3:
		weir_sim_card_reset(w.cards[byte_below(CARDS)]);
		break;
	case 4:
		(void)weir_sim_card_open(w.cards[byte_below(CARDS)]);
		break;
	case 5:
		peer_touch();
		break;
	case 6:
		disk_touch();
		break;
	default:
		file_domain_touch();
	}
}

void move_touch(struct core *c)
{
	switch (byte_below(8)) {
	case 0:
	case 1:
		pool_touch(c);
		break;
	case 2:
		buf_touch(c);
		break;
	case 3:
		if (c->dma)
			dma_touch(c);
		break;
	case 4:
	case 5:
		link_touch(c);
		break;
	default:
		job_start(c);
	}
}

void move_set_up(void)
{
	struct weir_shared_pool_class class = { .buf_size = 4096, .bufs = 5 };
	struct weir_shared_pool_opts shared_pool = {
		.size = sizeof(shared_pool),
		.classes = &class,
		.n_classes = 1,
		.flags = WEIR_SHARED_POOL_NO_HUGE,
	};
	struct weir_sim_card_opts card = { .size = sizeof(card) };
	struct weir_sim_peer_opts peer = { .size = sizeof(peer) };
	uint32_t i;

	for (i = 0; i < CARDS; i++) {
		card.bytes = PLACE;
		card.depth = 1 + byte_below(4);
		card.flags = byte_below(16);
		card.align = byte_below(2) * 16;
		MUST(!weir_sim_card_create(&w.cards[i], w.sim, &card));
	}
	peer.bytes = PLACE;
	peer.depth = 1 + byte_below(4);
	peer.name = "b/peer";
	MUST(!weir_sim_peer_create(&w.peer, w.sim, &peer));
	MUST(!weir_shared_pool_create(&w.shared_pool, &shared_pool));
}

void move_take_down_core(struct core *c)
{
	uint32_t i;

	for (i = 0; i < CHAINS; i++)
		if (c->links[i])
			MUST(link_destroy(c, i));
	MUST(!weir_pool_destroy(c->pool));
	c->pool = NULL;
}

void move_take_down(void)
{
	uint32_t i;

	for (i = 0; i < DOMAINS; i++) {
		MUST(!weir_domain_destroy(w.files[i]));
		if (w.files[i])
			w.file_places[i]->users--;
	}
	for (i = 0; i < CARDS; i++)
		MUST(!weir_sim_card_destroy(w.cards[i]));
	MUST(!weir_sim_peer_destroy(w.peer));
	MUST(!weir_shared_pool_destroy(w.shared_pool));
}

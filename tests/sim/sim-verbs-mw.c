/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: each end opens one at times for its peer, over a word of its own,
 * and takes it back.  The peer writes there as long as it knows the key, and
 * longer.  What is written when the window is over is found: the word stays as
 * it was then.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/rdma/export.h>
#include <weir/rdma/mw.h>

#include "tests/sim/sim-verbs.h"

static uint32_t state_of(const struct pane *p)
{
	struct weir_mw_info info = { .size = sizeof(info) };
	int err = weir_mw_info(p->window, &info);

	must(!err, "a window can be asked", "%d", err);
	return info.state;
}

static void look(struct pane *p)
{
	must(!p->shut || *p->word == p->last,
	     "nothing is written by a window that is over", "%llx, not %llx",
	     (unsigned long long)*p->word, (unsigned long long)p->last);
}

static void shut(struct pane *p)
{
	p->last = *p->word;
	p->shut = true;
}

/* The key, as the peer gets it. */
static void tell_peer(struct end *e)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_import_info info = { .size = sizeof(info) };
	struct pane *p = &e->pane;
	struct weir_mmap *m = NULL;
	int err = weir_mw_export(p->window, &desc);

	if (!err)
		err = weir_mmap_import_rdma(&m, peer_of(e)->there, desc.bytes,
					    desc.len, NULL);
	if (!err)
		err = weir_mmap_import_info(m, &info);
	must(!err || run_of(e)->trial->faults,
	     "what a window opens can be imported", "%d: %s", err, weir_why());
	if (!err)
		p->rkey = info.rkey;
	if (m)
		weir_mmap_destroy(m);
}

static void on_opened(struct task *task, int64_t res)
{
	struct end *e = task->op.data;

	must(res <= 0, "a result that is documented", "%lld", (long long)res);
	if (res || state_of(&e->pane) != WEIR_MW_OPEN)
		return;
	e->pane.shut = false;
	tell_peer(e);
}

static void on_revoked(struct task *task, int64_t res)
{
	struct end *e = task->op.data;

	must(!res || run_of(e)->trial->faults, "a window can be taken back",
	     "%lld", (long long)res);
	must(state_of(&e->pane) == WEIR_MW_OVER, "it is over", "%u",
	     state_of(&e->pane));
	if (!res)
		shut(&e->pane);
}

static void begin(struct end *e, const char *what,
		  void (*end)(struct task *task, int64_t res))
{
	task_init(&e->pane.task, run_of(e), what, end);
	e->pane.task.op.data = e;
}

static void open_it(struct end *e)
{
	struct weir_export_rdma_opts opts = {
		.size = sizeof(opts),
		.permissions = WEIR_MMAP_RDMA_WRITE,
		.off = PANE_OFF,
		.len = sizeof(*e->pane.word),
	};
	struct pane *p = &e->pane;
	int err;

	begin(e, "window", on_opened);
	err = weir_mw_create(&p->window, e->conn, &p->task.op, p->mmap, &opts);
	must(!err || err == -ENOTCONN || err == -EAGAIN ||
		     run_of(e)->trial->faults,
	     "a window is refused for a cause", "%d: %s", err, weir_why());
	task_began(&p->task, err);
}

static void revoke(struct end *e)
{
	struct pane *p = &e->pane;
	int err;

	begin(e, "revocation", on_revoked);
	err = weir_mw_revoke(p->window, &p->task.op);
	must(!err || err == -EAGAIN, "a revocation is refused for a cause",
	     "%d: %s", err, weir_why());
	task_began(&p->task, err);
}

/* A device that has faults may keep it for a while. */
static void destroy(struct run *run, struct pane *p)
{
	int err = weir_mw_destroy(p->window);

	must(!err || (run->trial->faults && !run->ending),
	     "a window with no operation can go", "%d: %s", err, weir_why());
	if (err)
		return;
	p->window = NULL;
	if (!p->shut)
		shut(p);
}

/* The peer's side: a write by the last key that it was told. */

static void on_poked(struct weir_op *op, int64_t res)
{
	struct end *e = op->data;
	struct pane *p = &peer_of(e)->pane;

	e->poking = false;
	must(res < 0 || !e->poked_shut, "a key that was taken back is no good",
	     "link %u", e->link->number);
	look(p);
	weir_sim_note(run_of(e)->sim, "poke", (uint32_t)res);
}

/* One that comes too late ends the connection. */
static void poke(struct end *e)
{
	struct pane *p = &peer_of(e)->pane;
	struct weir_operand there =
		weir_operand_at(e->there, (uintptr_t)p->word, 8);

	if (!p->rkey || e->poking || !e->up ||
	    (p->shut && !one_in(run_of(e), 20)))
		return;
	e->stamp++;
	e->poke_key = (struct weir_remote_key){ .rkey = p->rkey };
	there.ctx = &e->poke_key;
	weir_job_init(&e->poke, on_poked);
	e->poke.op.data = e;
	weir_job_copy(&e->poke, there, weir_operand_mem(&e->stamp, 8));
	e->poked_shut = p->shut;
	e->poking = !weir_job_start(e->host->dma, &e->poke);
}

void window_act(struct end *e)
{
	struct run *run = run_of(e);
	struct pane *p = &e->pane;

	look(p);
	poke(e);
	if (p->task.is_under_way) {
		if (one_in(run, 16))
			task_cancel(&p->task);
		return;
	}
	if (!p->window && e->up)
		open_it(e);
	else if (p->window && one_in(run, 4))
		revoke(e);
	else if (p->window && one_in(run, 8))
		destroy(run, p);
}

void window_set_up(struct end *e)
{
	struct pane *p = &e->pane;
	unsigned char *mem = aligned_alloc(4096, 4096);

	must(mem, "memory for the scenario", "4096 bytes");
	memset(mem, 0, 4096);
	p->mem = mem;
	p->word = (uint64_t *)(void *)(mem + PANE_OFF);
	p->mmap = target_mmap(e, mem, 4096, WEIR_MMAP_RDMA_WRITE);
	p->shut = true;
}

void window_take_down(struct end *e)
{
	struct pane *p = &e->pane;
	int err;

	look(p);
	destroy(run_of(e), p);
	err = weir_mmap_destroy(p->mmap);
	must(!err, "an mmap with no windows can go", "%d: %s", err, weir_why());
	free(p->mem);
}

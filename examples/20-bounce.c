/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A domain of one's own, which no file can be copied to: a "card" that gives
 * and takes bytes by pull and push, and knows nothing of files.  A job from the
 * one to the other is a job like any other; its way goes through staging
 * memory, and it says so, before and after.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/dma.h>
#include <weir/domain-user.h>
#include <weir/job.h>
#include <weir/reactor.h>
#include <weir/route.h>

#define LEN (1u << 20)

static char card[LEN], back[LEN];

/* Pull and push: one side is the card, whose addresses are offsets. */
static int card_move(struct weir_domain *d, struct weir_reactor *r,
		     struct weir_op *op, const struct weir_domain_move *m)
{
	int pulls = m->src.domain == d;
	const struct weir_domain_side *ours = pulls ? &m->src : &m->dst;
	const struct weir_domain_side *mem = pulls ? &m->dst : &m->src;
	char *at = card + (uintptr_t)ours->iov->iov_base;
	int64_t n = 0;

	(void)r;
	for (uint32_t i = 0; i < mem->n_iov; i++) {
		if (pulls)
			memcpy(mem->iov[i].iov_base, at + n,
			       mem->iov[i].iov_len);
		else
			memcpy(at + n, mem->iov[i].iov_base,
			       mem->iov[i].iov_len);
		n += (int64_t)mem->iov[i].iov_len;
	}
	weir_domain_complete(op, n);
	return 0;
}

static void on_copied(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

/* Copy, and say which way it will go and which way it went. */
static int64_t copy(struct weir_dma *dma, struct weir_operand to,
		    struct weir_operand from)
{
	struct weir_job_route route = { .size = sizeof(route) };
	struct weir_job job;
	char plan[1024];
	int64_t res;

	weir_job_init(&job, on_copied);
	weir_job_copy(&job, to, from);
	job.op.data = &res;
	weir_route_explain(dma, &job, plan, sizeof(plan));
	printf("%s\n", plan);
	res = weir_job_start(dma, &job);
	while (weir_op_is_busy(&job.op))
		weir_reactor_turn(weir_dma_reactor(dma), WEIR_FOREVER);
	if (res >= 0 && !weir_job_get_route(&job, &route))
		printf("  %lld bytes in %u steps: pulled by %s, pushed by "
		       "%s\n", (long long)res, route.steps, route.pull,
		       route.push);
	return route.route == WEIR_ROUTE_BOUNCE ? res : -1;
}

int main(void)
{
	struct weir_domain_opts opts = { .size = sizeof(opts), .id = "card",
					 .kind = WEIR_DOMAIN_USER };
	struct weir_domain *d, *file;
	struct weir_operand on_card, in_file;
	struct weir_reactor *r;
	struct weir_dma *dma;
	FILE *f = tmpfile();
	int bad;

	for (size_t i = 0; i < LEN; i++)
		card[i] = (char)(i * 31 >> 4);
	if (!f || weir_reactor_create(&r, NULL) ||
	    weir_dma_create(&dma, r, NULL) || weir_dma_start(dma) ||
	    weir_domain_create(&d, &opts) ||
	    weir_domain_set_pull(d, card_move) ||
	    weir_domain_set_push(d, card_move) ||
	    weir_domain_file_create(&file, fileno(f), NULL))
		return fprintf(stderr, "20-bounce: %s\n", weir_why()), 1;
	on_card = weir_operand_at(d, 0, LEN);
	in_file = weir_operand_at(file, 4096, LEN);

	bad = copy(dma, in_file, on_card) != LEN;
	memcpy(back, card, LEN);
	memset(card, 0, LEN);
	bad |= copy(dma, on_card, in_file) != LEN || memcmp(card, back, LEN);
	fclose(f);
	return weir_dma_destroy(dma) || weir_domain_destroy(d) ||
	       weir_domain_destroy(file) || weir_reactor_destroy(r) || bad;
}

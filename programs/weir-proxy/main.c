/* SPDX-License-Identifier: CC0-1.0 */
/* The life of the program: a group of cores, and a configuration for each. */
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "weir-proxy.h"

static atomic_bool complained;

void complain(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	atomic_store(&complained, true);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "weir-proxy: %s\n", text);
}

/* A connection needs two; the rest is for what the cores have, and the log. */
static void allow_descriptors(struct proxy *p)
{
	rlim_t others = 32 + 8 * (rlim_t)p->n_cores;
	struct rlimit limit;

	p->conns_max = UINT64_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	p->conns_max = limit.rlim_max > others + 2 ?
		       (limit.rlim_max - others) / 2 : 1;
}

static int make_cores(struct proxy *p)
{
	struct weir_reactor_opts reactor = {
		.size = sizeof(reactor),
		.ops_max = CORE_CONNS_MAX * CONN_OPS_MAX + OTHER_OPS_MAX,
	};
	struct weir_group_opts opts = { .size = sizeof(opts),
					.n_cores = p->o.cores,
					.reactor = &reactor,
					.flags = WEIR_GROUP_ADOPT };
	size_t bytes;
	uint32_t i;
	int err;

	/* On fewer than all, the kernel knows better which are free. */
	if (p->o.cores)
		opts.flags |= WEIR_GROUP_NO_PIN;
	err = weir_group_create(&p->group, &opts);

	if (err) {
		complain("%s", weir_why());
		return err;
	}
	p->n_cores = weir_group_size(p->group);
	bytes = p->n_cores * sizeof(*p->cores);
	p->cores = aligned_alloc(_Alignof(struct core), bytes);
	if (!p->cores)
		return -1;
	memset(p->cores, 0, bytes);
	for (i = 0; i < p->n_cores; i++) {
		p->cores[i].proxy = p;
		p->cores[i].index = i;
	}
	return 0;
}

static int run(struct proxy *p)
{
	int err = weir_group_set_core_fns(p->group, core_begin, core_end, p);

	if (!err)
		err = weir_group_start(p->group);
	if (!err)
		err = weir_group_run(p->group);
	if (err)
		complain("%s", weir_why());
	return err;
}

static int serve(struct proxy *p)
{
	struct config *plan;
	int err;

	p->first = configs_open(p, &plan);
	if (!p->first)
		return -1;
	p->config = plan;
	err = log_begin(p);
	if (!err)
		err = run(p);
	log_end(p);
	if (!p->draining)
		names_remove(p->config, NULL);
	configs_close(p, p->first);
	config_put(p->config);
	return err;
}

static int check(const struct options *o)
{
	char *text = config_text(o);
	struct config *c = text ? config_parse(text, NULL) : NULL;
	int err = c ? 0 : -1;

	config_put(c);
	free(text);
	return err;
}

int main(int argc, char **argv)
{
	struct proxy p = { .n_cores = 0 };
	int status, err;

	if (parse_options(&p.o, argc, argv, &status))
		return status;
	if (p.o.check) {
		err = check(&p.o);
	} else {
		signal(SIGPIPE, SIG_IGN); /* A splice would send it. */
		err = make_cores(&p);
		allow_descriptors(&p);
		if (!err)
			err = serve(&p);
		weir_group_destroy(p.group);
	}
	free(p.cores);
	free(p.o.text);
	/* All else that fails says so itself. */
	if (err && !atomic_load(&complained))
		complain("no memory");
	return err ? 1 : 0;
}

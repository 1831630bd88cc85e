/* SPDX-License-Identifier: BSD-3-Clause */

/* Remote domains: what they are made with, and the table of
 * docs/internals/mem.md. */

#include "tests/support/harness.h"

#include <weir/domain.h>
#include <weir/mmap.h>

#include "base/fault.h"
#include "mem/domain-internal.h"
#include "tests/support/table-fixture.h"

static void remote_domain_has_its_attributes(void **state)
{
	int ctx;
	struct weir_domain_remote_opts opts = {
		.size = sizeof(opts), .id = "the other one", .ctx = &ctx,
	};
	struct weir_domain *d, *found;

	(void)state;
	assert_int_equal(weir_domain_remote_create(&d, &opts), 0);
	assert_int_equal(weir_domain_kind(d), WEIR_DOMAIN_REMOTE);
	assert_string_equal(weir_domain_id(d), "the other one");
	assert_ptr_equal(weir_domain_ctx(d), &ctx);
	assert_false(domain_is_memory(d));
	found = weir_domain_next(NULL, "the other one");
	assert_ptr_equal(found, d);
	weir_domain_put(found);
	assert_int_equal(weir_domain_destroy(d), 0);
	assert_int_equal(weir_domain_remote_create(&d, NULL), 0);
	assert_string_equal(weir_domain_id(d), "remote");
	assert_int_equal(weir_domain_destroy(d), 0);
}

static void options_that_are_unknown_are_refused(void **state)
{
	struct weir_domain_remote_opts opts = {
		.size = sizeof(opts), .flags = 1,
	};
	struct weir_domain *d = NULL;

	(void)state;
	assert_int_equal(weir_domain_remote_create(&d, &opts), -EINVAL);
	assert_starts_with(weir_why(), "weir_domain_remote_create: ");
	opts.flags = 0;
	opts.reserved = 1;
	assert_int_equal(weir_domain_remote_create(&d, &opts), -E2BIG);
	assert_null(d);
}

static void remote_domain_refuses_an_mmap(void **state)
{
	struct weir_mmap *m = NULL;
	struct weir_domain *d;

	(void)state;
	assert_int_equal(weir_domain_remote_create(&d, NULL), 0);
	assert_int_equal(weir_mmap_create(&m, d), -EOPNOTSUPP);
	assert_null(m);
	assert_int_equal(weir_domain_destroy(d), 0);
}

static void link_is_one_of_a_remote_domain(void **state)
{
	struct weir_domain *d;
	int link, other;

	(void)state;
	assert_int_equal(weir_domain_attach(weir_domain_system(), &link,
					    "link"), -EINVAL);
	assert_starts_with(weir_why(), "weir_domain_attach: ");
	weir_domain_detach(weir_domain_system(), &link);
	assert_null(weir_domain_link(weir_domain_system()));
	assert_int_equal(weir_domain_remote_create(&d, NULL), 0);
	assert_int_equal(weir_domain_attach(d, NULL, "link"), -EINVAL);
	assert_int_equal(weir_domain_attach(d, &link, "link"), 0);
	assert_int_equal(weir_domain_attach(d, &link, "link"), -EALREADY);
	assert_int_equal(weir_domain_attach(d, &other, "other"), -EBUSY);
	assert_ptr_equal(weir_domain_link(d), &link);
	weir_domain_detach(d, &other);
	assert_int_equal(weir_domain_destroy(d), -EBUSY);
	weir_domain_detach(d, &link);
	assert_int_equal(weir_domain_destroy(d), 0);
}

/* The table. */

struct fixture {
	struct weir_domain *d;
	int link, other;
};

static int do_attach(void *arg)
{
	struct fixture *g = arg;

	return weir_domain_attach(g->d, &g->link, "link");
}

static int do_attach_other(void *arg)
{
	struct fixture *g = arg;

	return weir_domain_attach(g->d, &g->other, "other");
}

static int do_detach(void *arg)
{
	struct fixture *g = arg;

	weir_domain_detach(g->d, &g->link);
	return 0;
}

static int do_detach_other(void *arg)
{
	struct fixture *g = arg;

	weir_domain_detach(g->d, &g->other);
	return 0;
}

static int do_destroy(void *arg)
{
	struct fixture *g = arg;
	int err = weir_domain_destroy(g->d);

	if (!err)
		g->d = NULL;
	return err;
}

static const struct table_call calls[] = {
	{ "attach", do_attach },
	{ "attach of another link", do_attach_other },
	{ "detach", do_detach },
	{ "detach of another link", do_detach_other },
	{ "destroy", do_destroy },
};

enum column { MADE, ATTACHED, ATTACHED_USED, USED };
static const char *const columns[] = {
	[MADE] = "made",
	[ATTACHED] = "attached",
	[ATTACHED_USED] = "attached, and an mmap is in it",
	[USED] = "an mmap is in it",
};

static void check_then(const struct table_cell *c, const struct fixture *g)
{
	bool attached = !strcmp(c->then, "attached");

	if (!strcmp(c->then, "gone"))
		assert_null(g->d);
	else if (*c->then)
		assert_int_equal(weir_domain_link(g->d) != NULL, attached);
	else
		assert_non_null(g->d);
}

static void the_table_is_true(void **state)
{
	struct table_cell c;
	struct table t;

	(void)state;
	table_open(&t, "docs/internals/mem.md", "remote domain: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		struct fixture g = { NULL, 0, 0 };
		bool used = c.column >= ATTACHED_USED;

		assert_int_equal(weir_domain_remote_create(&g.d, NULL), 0);
		if (used)
			domain_use(g.d);
		if (c.column == ATTACHED || c.column == ATTACHED_USED)
			assert_int_equal(do_attach(&g), 0);
		table_result(&c, c.call->fn(&g));
		check_then(&c, &g);
		if (!g.d)
			continue;
		do_detach(&g);
		do_detach_other(&g);
		if (used)
			domain_unuse(g.d);
		assert_int_equal(weir_domain_users(g.d), 0);
		assert_int_equal(weir_domain_destroy(g.d), 0);
	}
	table_close(&t);
}

static void no_memory_leaves_nothing_behind(void **state)
{
	struct weir_domain *d = NULL;

	(void)state;
	fault_arm(0);
	assert_int_equal(weir_domain_remote_create(&d, NULL), -ENOMEM);
	assert_int_equal(fault_disarm(), 1);
	assert_null(d);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(remote_domain_has_its_attributes),
		CASE(options_that_are_unknown_are_refused),
		CASE(remote_domain_refuses_an_mmap),
		CASE(link_is_one_of_a_remote_domain),
		CASE(the_table_is_true),
		CASE(no_memory_leaves_nothing_behind),
	};

	return harness_run_plain(cases, N_OF(cases));
}

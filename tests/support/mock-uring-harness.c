/* SPDX-License-Identifier: BSD-3-Clause */
/* The model as backends of the harness: "model-5.11" and so on. */

#include "tests/support/harness.h"
#include "reactor/cached.h"
#include "tests/support/mock-uring.h"

#define ODDS 6
#define PREFIX "model-"

static const char *names[] = {
	PREFIX "5.11", PREFIX "5.15", PREFIX "5.19", PREFIX "6.1",
	PREFIX "6.18",
};

/*
 * Tests of what a model does not do: to be prompt, to leave multishot requests
 * alone, to be the kernel that uname(2) tells of.
 */
static const char *const not_here[] = {
	"a_callback_may_destroy_another_that_is_due",
	"a_zero_copy_send_tells_that_it_was_a_copy",
	"an_acceptor_can_follow_another",
	"idle_it_is_quiet",
	"reactor_in_use_refuses_a_host",
	"slow_sends_use_no_thread",
	"the_environment_names_a_backend",
	"trickling_receives_use_no_thread",
};

static bool has(const char *name, const char *test)
{
	for (size_t i = 0; i < N_OF(not_here); i++)
		if (!strcmp(test, not_here[i]))
			return false;
	/* A poll that is made again has its edge again. */
	return !strcmp(name, PREFIX "5.11") ||
	       strcmp(test, "end_of_the_peer_is_told_once_at_its_edge") != 0;
}

/* What delays is for all tests; what cuts short, for those that expect it. */
static void use(const char *name)
{
	const char *seed = getenv("WEIR_TEST_SEED");

	mock_uring_use(name + strlen(PREFIX), seed ? strtoull(seed, NULL, 0) :
						     1);
	mock_uring_set_odds(ODDS);
	mock_uring.odds.cut_stream = 0;
}

static void calm(const char *name)
{
	mock_uring_use(name + strlen(PREFIX), 1);
	mock_uring_set_odds(0);
}

static const struct harness_model model = {
	.names = names, .n_names = N_OF(names), .use = use, .calm = calm,
	.has = has,
};

__attribute__((constructor)) static void set_model(void)
{
	harness_model = &model;
	cached_is_off = true;
}

/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What weir relies on in rdma-core, in rdma-core's own calls.  Linked once with
 * the mock and once with the real libraries, that the one be held to what
 * the other does.  The numbers beside the cases are those of the rules.
 */

#include "tests/support/mock-verbs.h"
#include "tests/rdma/verbs-rules.h"

#include <rdma/rdma_cma.h>

static const struct rules_part *const parts[] = {
	&rules_queue, &rules_error, &rules_move, &rules_memory,
	&rules_states, &rules_ids, &rules_connections, &rules_unused,
};

#define MOST 512

static struct harness_case all[MOST];
static char names[MOST][160];
static size_t n_all;

static void add_part(const char *device, const struct rules_part *part)
{
	const struct harness_case *from;
	size_t i;

	for (i = 0; i < part->n; i++, n_all++) {
		from = &part->cases[i];
		if (n_all == MOST)
			abort();
		snprintf(names[n_all], sizeof(names[n_all]), "%s: %s", device,
			 from->name);
		all[n_all] = *from;
		all[n_all].name = names[n_all];
		all[n_all].arg = device;
	}
}

static void add_device(const char *device)
{
	size_t i;

	for (i = 0; i < N_OF(parts); i++)
		add_part(device, parts[i]);
	if (&rules_told)
		add_part(device, &rules_told);
}

static void no_device_is_here(void **state)
{
	(void)state;
	skip_because("this machine has no RDMA device");
}

static void add_first(void)
{
	static const struct harness_case none = CASE(no_device_is_here);
	static char device[64];
	struct ibv_device **list;
	int n = 0;

	/* What librdmacm opens stays open. */
	rdma_free_devices(rdma_get_devices(NULL));
	list = ibv_get_device_list(&n);
	if (list && n) {
		snprintf(device, sizeof(device), "%s",
			 ibv_get_device_name(list[0]));
		add_device(device);
	} else {
		all[n_all++] = none;
	}
	if (list)
		ibv_free_device_list(list);
}

int main(void)
{
	if (mocked) {
		mock_cm_hold_timewait(false);
		add_device("mock_mlx5");
		add_device("mock_rxe");
	} else {
		add_first();
	}
	return harness_run_plain(all, n_all);
}

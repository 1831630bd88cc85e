/* SPDX-License-Identifier: BSD-3-Clause */

/* The rules of rdma_cm, without queue pairs: B4. */

#include "tests/rdma/verbs-rules-cm.h"

/* B4.1 */
static void an_empty_channel_of_events_says_EAGAIN(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, false);
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(cm->ours, &event), -1);
	assert_int_equal(errno, EAGAIN);
	rules_cm_end();
}

/* B4.1 */
static void an_address_and_a_route_are_resolved_in_order(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, false);
	struct rdma_cm_id *id = rules_cm_client(cm);

	assert_null(id->verbs);
	assert_int_equal(rules_cm_resolve(cm, id), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, rules_cm_address(cm),
					   1000), -1);
	assert_int_equal(errno, EINVAL);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	assert_string_equal(ibv_get_device_name(id->verbs->device),
			    cm->rules->device);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ROUTE_RESOLVED, id, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

/* B4.1: refused by the call, or by an event. */
static void an_address_without_route_is_an_error(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, false);
	struct rdma_cm_id *id = rules_cm_client(cm);
	struct sockaddr_in nowhere = { .sin_family = AF_INET,
				       .sin_port = htons(1) };

	inet_pton(AF_INET, "192.0.2.1", &nowhere.sin_addr);
	assert_int_equal(rdma_resolve_addr(id, NULL,
					   (struct sockaddr *)&nowhere, 1000),
			 -1);
	assert_int_equal(errno, ENETUNREACH);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void a_port_is_given_or_is_in_use(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_client(cm);

	assert_int_not_equal(rdma_get_src_port(cm->listener), 0);
	assert_int_equal(rdma_bind_addr(id, rules_cm_address(cm)), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

/* B4.2; an id without a device is more than the real library can bear. */
static void calls_out_of_their_order_are_EINVAL(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm);
	struct rdma_conn_param param = { .qp_num = 1 };

	assert_int_equal(rdma_resolve_route(id, 1000), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_accept(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_reject(id, NULL, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_disconnect(id), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_listen(cm->listener, 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_bind_addr(cm->listener, rules_cm_address(cm)),
			 -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void connect_where_nobody_listens_is_rejected(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm);

	assert_int_equal(rdma_destroy_id(cm->listener), 0);
	cm->listener = NULL;
	assert_int_equal(rules_cm_connect(cm, id, NULL, 0), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_REJECTED, id, 8);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

/* B4.2: a new id, on the channel of the listener, that knows its context;
 * private data come in full length. */
static void a_request_is_a_new_id(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm), *child;
	struct rdma_cm_event *event;
	static const char zeros[56];

	assert_int_equal(rules_cm_connect(cm, id, "hello", 5), 0);
	event = rules_cm_wait(cm->theirs);
	child = event->id;
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, cm->listener);
	assert_ptr_not_equal(child, cm->listener);
	assert_ptr_equal(child->context, cm->listener->context);
	assert_ptr_equal(child->channel, cm->theirs);
	assert_non_null(child->verbs);
	assert_int_equal(event->param.conn.private_data_len, 56);
	assert_memory_equal(event->param.conn.private_data, "hello", 5);
	assert_memory_equal((const char *)event->param.conn.private_data + 5,
			    zeros, 51);
	assert_int_equal(event->param.conn.responder_resources, 3);
	assert_int_equal(event->param.conn.initiator_depth, 2);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_destroy_id(child), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_REJECTED, id, 28);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void a_request_that_is_refused_says_why(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm), *child;
	struct rdma_cm_event *event;

	assert_int_equal(rules_cm_connect(cm, id, NULL, 0), 0);
	child = rules_cm_request(cm);
	assert_int_equal(rdma_reject(child, "no", 2), 0);
	event = rules_cm_wait(cm->ours);
	assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 28);
	assert_int_equal(event->param.conn.private_data_len, 148);
	assert_memory_equal(event->param.conn.private_data, "no", 3);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_destroy_id(child), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void a_listener_that_goes_refuses_what_nobody_read(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm);

	assert_int_equal(rules_cm_connect(cm, id, NULL, 0), 0);
	rules_idle(cm->rules);
	assert_int_equal(rdma_destroy_id(cm->listener), 0);
	cm->listener = NULL;
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_REJECTED, id, 28);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void private_data_have_a_limit(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm);
	char bytes[57] = { 0 };

	assert_int_equal(rules_cm_connect(cm, id, bytes, 57), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void an_event_of_an_id_that_is_gone_is_not_delivered(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, false);
	struct rdma_cm_id *id = rules_cm_client(cm);
	struct rdma_cm_event *event;

	assert_int_equal(rules_cm_resolve(cm, id), 0);
	rules_idle(cm->rules);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_get_cm_event(cm->ours, &event), -1);
	assert_int_equal(errno, EAGAIN);
	rules_cm_end();
}

static void an_id_can_change_its_channel(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, false);
	struct rdma_cm_id *id = rules_cm_client(cm);

	assert_int_equal(rules_cm_resolve(cm, id), 0);
	rules_idle(cm->rules);
	assert_int_equal(rdma_migrate_id(id, cm->theirs), 0);
	assert_ptr_equal(id->channel, cm->theirs);
	rules_cm_expect(cm->theirs, RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void destroy_unacked(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, false);
	struct rdma_cm_id *id = rules_cm_client(cm);

	rules_cm_resolve(cm, id);
	rules_cm_wait(cm->ours);
	alarm(1);
	rdma_destroy_id(id);
}

/* B4.3 */
static void an_id_waits_for_acknowledgements(void **state)
{
	rules_wait_for_ever(destroy_unacked, state);
}

static const struct harness_case cases[] = {
	CASE(an_empty_channel_of_events_says_EAGAIN),
	CASE(an_address_and_a_route_are_resolved_in_order),
	CASE(an_address_without_route_is_an_error),
	CASE(a_port_is_given_or_is_in_use),
	CASE(calls_out_of_their_order_are_EINVAL),
	CASE(connect_where_nobody_listens_is_rejected),
	CASE(a_request_is_a_new_id),
	CASE(a_request_that_is_refused_says_why),
	CASE(a_listener_that_goes_refuses_what_nobody_read),
	CASE(private_data_have_a_limit),
	CASE(an_event_of_an_id_that_is_gone_is_not_delivered),
	CASE(an_id_can_change_its_channel),
	CASE(an_id_waits_for_acknowledgements),
};

const struct rules_part rules_ids = { cases, N_OF(cases) };

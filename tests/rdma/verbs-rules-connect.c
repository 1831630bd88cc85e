/* SPDX-License-Identifier: BSD-3-Clause */

/* The rules of connections: B4, with the queue pairs of the program. */

#include "tests/support/mock-verbs.h"
#include "tests/rdma/verbs-rules-cm.h"

#include <poll.h>
#include <time.h>

static struct rules_cm self;

static void set_address(const char *name, const char *otherwise)
{
	const char *text = getenv(name);
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&self.address;
	struct sockaddr_in *four = (struct sockaddr_in *)&self.address;

	if (!text)
		text = otherwise;
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		return;
	}
	memset(&self.address, 0, sizeof(self.address));
	six->sin6_family = AF_INET6;
	assert_int_equal(inet_pton(AF_INET6, text, &six->sin6_addr), 1);
}

struct sockaddr *rules_cm_address(struct rules_cm *cm)
{
	return (struct sockaddr *)&cm->address;
}

static struct rdma_event_channel *open_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	assert_non_null(channel);
	set_nonblock(channel->fd);
	return channel;
}

static void start_listener(void)
{
	static int context;
	in_port_t port;

	assert_int_equal(rdma_create_id(self.theirs, &self.listener, &context,
					RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(self.listener,
					rules_cm_address(&self)), 0);
	assert_int_equal(rdma_listen(self.listener, 4), 0);
	port = rdma_get_src_port(self.listener);
	if (self.address.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&self.address)->sin6_port = port;
	else
		((struct sockaddr_in *)&self.address)->sin_port = port;
}

static struct rules_cm *begin(void **state)
{
	memset(&self, 0, sizeof(self));
	self.rules = rules_ends(state, &(struct rules_opts){ 0 });
	if (mocked)
		mocked()->cm_device = self.rules->device;
	self.ours = open_channel();
	self.theirs = open_channel();
	return &self;
}

struct rules_cm *rules_cm_begin(void **state, bool listens)
{
	begin(state);
	set_address("WEIR_RDMA_ADDRESS", "127.0.0.1");
	if (listens)
		start_listener();
	return &self;
}

struct rules_cm *rules_cm_begin_6(void **state)
{
	begin(state);
	set_address("WEIR_RDMA_ADDRESS_6", "::1");
	start_listener();
	return &self;
}

void rules_cm_end(void)
{
	if (self.listener)
		assert_int_equal(rdma_destroy_id(self.listener), 0);
	rdma_destroy_event_channel(self.ours);
	rdma_destroy_event_channel(self.theirs);
	rules_end();
	if (!mocked)
		return;
	assert_int_equal(mocked()->ids, 0);
	assert_int_equal(mocked()->cm_channels, 0);
}

struct rdma_cm_id *rules_cm_client(struct rules_cm *cm)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(cm->ours, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

int rules_cm_resolve(struct rules_cm *cm, struct rdma_cm_id *id)
{
	return rdma_resolve_addr(id, NULL, rules_cm_address(cm), 1000);
}

struct rdma_cm_id *rules_cm_resolved(struct rules_cm *cm)
{
	struct rdma_cm_id *id = rules_cm_client(cm);

	assert_int_equal(rules_cm_resolve(cm, id), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ROUTE_RESOLVED, id, 0);
	return id;
}

int rules_cm_connect(struct rules_cm *cm, struct rdma_cm_id *id,
		     const void *data, uint8_t len)
{
	struct rdma_conn_param param = {
		.private_data = data, .private_data_len = len,
		.responder_resources = 2, .initiator_depth = 3,
		.retry_count = 3, .rnr_retry_count = 5,
		.qp_num = cm->rules->a.qp->qp_num,
	};

	return rdma_connect(id, &param);
}

struct rdma_cm_event *rules_cm_wait(struct rdma_event_channel *channel)
{
	struct pollfd pfd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	assert_int_equal(poll(&pfd, 1, mocked ? 0 : 20000), 1);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	return event;
}

void rules_cm_expect(struct rdma_event_channel *channel,
		     enum rdma_cm_event_type type, struct rdma_cm_id *id,
		     int status)
{
	struct rdma_cm_event *event = rules_cm_wait(channel);

	if (event->event != type || event->status != status)
		print_error("%s %d, not %s %d\n", rdma_event_str(event->event),
			    event->status, rdma_event_str(type), status);
	assert_int_equal(event->event, type);
	assert_int_equal(event->status, status);
	assert_ptr_equal(event->id, id);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

struct rdma_cm_id *rules_cm_request(struct rules_cm *cm)
{
	struct rdma_cm_event *event = rules_cm_wait(cm->theirs);
	struct rdma_cm_id *id = event->id;

	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	return id;
}

/* Connections. */

static void take_to(struct rdma_cm_id *id, struct rules_end *end,
		    enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	if (state == IBV_QPS_INIT)
		attr.qp_access_flags = RULES_REMOTE;
	assert_int_equal(ibv_modify_qp(end->qp, &attr, mask), 0);
}

struct both {
	struct rdma_cm_id *client, *server;
};

/* The server is ready before it accepts. */
static void accept_one(struct rules_cm *cm, struct both *both)
{
	struct rdma_conn_param param = {
		.private_data = "welcome", .private_data_len = 7,
		.responder_resources = 3, .initiator_depth = 2,
		.rnr_retry_count = 6, .qp_num = cm->rules->b.qp->qp_num,
	};

	both->server = rules_cm_request(cm);
	take_to(both->server, &cm->rules->b, IBV_QPS_INIT);
	take_to(both->server, &cm->rules->b, IBV_QPS_RTR);
	take_to(both->server, &cm->rules->b, IBV_QPS_RTS);
	assert_int_equal(rdma_accept(both->server, &param), 0);
}

static void read_answer(struct rules_cm *cm, const struct both *both)
{
	struct rdma_cm_event *event = rules_cm_wait(cm->ours);

	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_ptr_equal(event->id, both->client);
	assert_int_equal(event->param.conn.private_data_len, 196);
	assert_memory_equal(event->param.conn.private_data, "welcome", 8);
	assert_int_equal(event->param.conn.qp_num, cm->rules->b.qp->qp_num);
	assert_int_equal(event->param.conn.responder_resources, 2);
	assert_int_equal(event->param.conn.initiator_depth, 3);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static struct both establish(struct rules_cm *cm)
{
	struct both both = { rules_cm_resolved(cm), NULL };

	take_to(both.client, &cm->rules->a, IBV_QPS_INIT);
	assert_int_equal(rules_cm_connect(cm, both.client, NULL, 0), 0);
	accept_one(cm, &both);
	read_answer(cm, &both);
	take_to(both.client, &cm->rules->a, IBV_QPS_RTR);
	take_to(both.client, &cm->rules->a, IBV_QPS_RTS);
	assert_int_equal(rdma_establish(both.client), 0);
	rules_cm_expect(cm->theirs, RDMA_CM_EVENT_ESTABLISHED, both.server, 0);
	return both;
}

static void no_more_events(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static void move_8(struct rules_cm *cm)
{
	struct rules_end *a = &cm->rules->a, *b = &cm->rules->b;

	memcpy(a->bytes, "12345678", 8);
	assert_int_equal(rules_send(a, rules_wr(IBV_WR_RDMA_WRITE, a, b, 0, 8,
						1)), 0);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(b->bytes, "12345678", 8);
	assert_int_equal(rules_send(b, rules_wr(IBV_WR_RDMA_READ, b, a, 0, 8,
						2)), 0);
	rules_expect(b->cq, 2, IBV_WC_SUCCESS);
}

static void leave(struct rdma_cm_id *id)
{
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* Reads at a time, retries, waits: what was agreed on, or more. */
static void check_agreement(struct rules_cm *cm)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a, b;
	int mask = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
		   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT;

	assert_int_equal(ibv_query_qp(cm->rules->a.qp, &a, mask, &init), 0);
	assert_int_equal(ibv_query_qp(cm->rules->b.qp, &b, mask, &init), 0);
	assert_in_range(a.max_rd_atomic, 3, 4);
	assert_in_range(a.max_dest_rd_atomic, 2, 4);
	assert_in_range(b.max_rd_atomic, 2, 4);
	assert_in_range(b.max_dest_rd_atomic, 3, 4);
	assert_int_equal(a.retry_cnt, 3);
	assert_int_equal(b.retry_cnt, 3);
	assert_int_equal(a.rnr_retry, 6);
	assert_int_equal(b.rnr_retry, 5);
	assert_true(a.timeout && b.timeout);
}

/* B4.1, B4.2; one's own queue pair: the client is told of the answer, and no
 * more. */
static void a_connection_is_made_and_ended(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct both both = establish(cm);

	no_more_events(cm->ours);
	check_agreement(cm);
	move_8(cm);
	assert_int_equal(rdma_disconnect(both.client), 0);
	rules_cm_expect(cm->theirs, RDMA_CM_EVENT_DISCONNECTED, both.server,
			0);
	assert_int_equal(rdma_disconnect(both.server), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_DISCONNECTED, both.client, 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_TIMEWAIT_EXIT, both.client, 0);
	rules_cm_expect(cm->theirs, RDMA_CM_EVENT_TIMEWAIT_EXIT, both.server,
			0);
	leave(both.client);
	leave(both.server);
	rules_cm_end();
}

static void a_connection_is_made_over_IPv6(void **state)
{
	struct rules_cm *cm = rules_cm_begin_6(state);
	struct both both = establish(cm);

	move_8(cm);
	leave(both.client);
	leave(both.server);
	rules_cm_end();
}

static void an_end_that_goes_disconnects_the_other(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct both both = establish(cm);

	leave(both.client);
	rules_cm_expect(cm->theirs, RDMA_CM_EVENT_DISCONNECTED, both.server,
			0);
	leave(both.server);
	rules_cm_end();
}

/* The queue pair is the program's: nobody takes it to the error state. */
static void disconnect_leaves_the_queue_pairs_as_they_are(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct both both = establish(cm);

	assert_int_equal(rdma_disconnect(both.client), 0);
	rules_cm_expect(cm->theirs, RDMA_CM_EVENT_DISCONNECTED, both.server,
			0);
	assert_int_equal(rules_state(&cm->rules->a), IBV_QPS_RTS);
	assert_int_equal(rules_state(&cm->rules->b), IBV_QPS_RTS);
	leave(both.client);
	leave(both.server);
	rules_cm_end();
}

static void a_client_can_refuse_the_answer(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct both both = { rules_cm_resolved(cm), NULL };

	take_to(both.client, &cm->rules->a, IBV_QPS_INIT);
	assert_int_equal(rules_cm_connect(cm, both.client, NULL, 0), 0);
	accept_one(cm, &both);
	read_answer(cm, &both);
	assert_int_equal(rdma_reject(both.client, NULL, 0), 0);
	rules_cm_expect(cm->theirs, RDMA_CM_EVENT_REJECTED, both.server, 28);
	leave(both.client);
	leave(both.server);
	rules_cm_end();
}

/* Nobody tells the server; it finds out when it accepts. */
static void the_request_of_a_client_that_went_cannot_be_accepted(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm), *child;
	struct rdma_conn_param param = { .qp_num = cm->rules->b.qp->qp_num };

	assert_int_equal(rules_cm_connect(cm, id, NULL, 0), 0);
	child = rules_cm_request(cm);
	leave(id);
	rules_idle(cm->rules);
	no_more_events(cm->theirs);
	assert_int_equal(rdma_accept(child, &param), -1);
	leave(child);
	rules_cm_end();
}

/* Both are told of the end, when both asked for it. */
static void peers_can_disconnect_at_once(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct both both = establish(cm);

	assert_int_equal(rdma_disconnect(both.client), 0);
	assert_int_equal(rdma_disconnect(both.server), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_DISCONNECTED, both.client, 0);
	rules_cm_expect(cm->theirs, RDMA_CM_EVENT_DISCONNECTED, both.server,
			0);
	leave(both.client);
	leave(both.server);
	rules_cm_end();
}

/* It returns 0, and nobody hears of it. */
static void a_client_that_has_an_answer_cannot_disconnect(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct both both = { rules_cm_resolved(cm), NULL };

	take_to(both.client, &cm->rules->a, IBV_QPS_INIT);
	assert_int_equal(rules_cm_connect(cm, both.client, NULL, 0), 0);
	accept_one(cm, &both);
	read_answer(cm, &both);
	assert_int_equal(rdma_disconnect(both.client), 0);
	rules_idle(cm->rules);
	no_more_events(cm->ours);
	no_more_events(cm->theirs);
	leave(both.client);
	leave(both.server);
	rules_cm_end();
}

/* What a queue pair is to be told.  A client's INIT gives no rights, and who
 * asks for what comes later is given INIT, too. */
static void attributes_are_those_of_the_state_of_the_id(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm), *child;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	int mask = 0;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       IBV_QP_ACCESS_FLAGS);
	assert_int_equal(attr.qp_access_flags, 0);
	assert_int_equal(rules_cm_connect(cm, id, NULL, 0), 0);
	child = rules_cm_request(cm);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), -1);
	assert_int_equal(errno, EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(rdma_init_qp_attr(child, &attr, &mask), 0);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE |
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	leave(child);
	leave(id);
	rules_cm_end();
}

static const struct harness_case cases[] = {
	CASE(a_connection_is_made_and_ended),
	CASE(a_connection_is_made_over_IPv6),
	CASE(an_end_that_goes_disconnects_the_other),
	CASE(disconnect_leaves_the_queue_pairs_as_they_are),
	CASE(a_client_can_refuse_the_answer),
	CASE(the_request_of_a_client_that_went_cannot_be_accepted),
	CASE(peers_can_disconnect_at_once),
	CASE(a_client_that_has_an_answer_cannot_disconnect),
	CASE(attributes_are_those_of_the_state_of_the_id),
};

const struct rules_part rules_connections = { cases, N_OF(cases) };

/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Late writes of UCX, beside bench-late: the owner unmaps the memory that a put is
 * arriving in ("unmap"), or cancels the receive that a message is arriving in
 * ("cancel"); or the writer closes its endpoint by force in the middle of a put,
 * and tells the owner that the put is over ("force").  The engine is a transport.
 */

#include <stdbool.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "bench/late-two.h"

#define BLOB_MAX 4096

/* What the owner tells the writer. */
struct hello {
	uint64_t addr;
	size_t address_len, key_len;
	char address[BLOB_MAX], key[BLOB_MAX];
};

struct end {
	struct late_two *t;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_mem_h mem;
	ucp_ep_h ep;
	ucp_rkey_h key;
};

static void must(struct end *e, ucs_status_t status, const char *what)
{
	char why[80];

	if (status == UCS_OK)
		return;
	snprintf(why, sizeof(why), "%s: %s", what, ucs_status_string(status));
	late_skip(e->t->one, why);
}

static void progress(void *arg)
{
	ucp_worker_progress(((struct end *)arg)->worker);
}

static bool is_for_messages(const struct end *e)
{
	return !strcmp(e->t->ending, "cancel");
}

static bool is_forced(const struct end *e)
{
	return !strcmp(e->t->ending, "force");
}

static void open_end(struct end *e, struct late_two *t)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES,
		.features = UCP_FEATURE_RMA | UCP_FEATURE_TAG,
	};
	const ucp_worker_params_t worker = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	const ucp_mem_map_params_t map = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
			      UCP_MEM_MAP_PARAM_FIELD_LENGTH,
		.address = t->memory, .length = t->size,
	};
	const char *transports = t->engine;
	ucp_config_t *config;

	memset(e, 0, sizeof(*e));
	e->t = t;
	/* It copies between processes, and needs another one to connect. */
	if (!strcmp(transports, "cma"))
		transports = "cma,sysv";
	must(e, ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	must(e, ucp_config_modify(config, "TLS", transports), transports);
	must(e, ucp_init(&params, config, &e->context), "ucp_init");
	must(e, ucp_worker_create(e->context, &worker, &e->worker),
	     "ucp_worker_create");
	must(e, ucp_mem_map(e->context, &map, &e->mem), "ucp_mem_map");
	t->progress = progress;
	t->arg = e;
}

static void describe(struct end *e, struct hello *h)
{
	ucp_address_t *address;
	void *key;

	memset(h, 0, sizeof(*h));
	must(e, ucp_worker_get_address(e->worker, &address, &h->address_len),
	     "ucp_worker_get_address");
	must(e, ucp_rkey_pack(e->context, e->mem, &key, &h->key_len),
	     "ucp_rkey_pack");
	if (h->address_len > BLOB_MAX || h->key_len > BLOB_MAX)
		late_skip(e->t->one, "an address of more than 4 KiB");
	memcpy(h->address, address, h->address_len);
	memcpy(h->key, key, h->key_len);
	h->addr = (uint64_t)(uintptr_t)e->t->memory;
}

/* Returns when it has ended, by success or not. */
static void wait_for(struct end *e, void *request)
{
	if (!UCS_PTR_IS_PTR(request))
		return;
	while (ucp_request_check_status(request) == UCS_INPROGRESS)
		progress(e);
}

static void on_recv(void *request, ucs_status_t status,
		    const ucp_tag_recv_info_t *info, void *data)
{
	(void)request;
	(void)status;
	(void)info;
	(void)data;
}

static void *post_recv(struct end *e)
{
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
				UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv = on_recv,
	};
	void *request = ucp_tag_recv_nbx(e->worker, e->t->memory, e->t->size, 1,
					 UINT64_MAX, &param);

	if (UCS_PTR_IS_ERR(request))
		must(e, UCS_PTR_STATUS(request), "ucp_tag_recv_nbx");
	return request;
}

static void owner(struct late_two *t)
{
	void *request = NULL;
	struct hello h;
	struct end e;
	uint64_t begun;

	open_end(&e, t);
	describe(&e, &h);
	if (is_for_messages(&e))
		request = post_recv(&e);
	late_two_put(t, &h, sizeof(h));
	begun = late_two_in_flight(t);
	if (is_forced(&e)) {
		late_two_put(t, "", 1);
		/* Says that its put is over. */
		late_two_wait(t);
	} else if (is_for_messages(&e)) {
		ucp_request_cancel(e.worker, request);
		wait_for(&e, request);
	} else {
		t->one->refused = ucp_mem_unmap(e.context, e.mem) != UCS_OK;
	}
	late_two_ended(t, begun);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg;
	(void)ep;
	(void)status;
}

static void connect_end(struct end *e, const struct hello *h)
{
	ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
		.address = (const ucp_address_t *)h->address,
	};

	/* Its header asks for that where an endpoint is closed by force. */
	if (is_forced(e)) {
		params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
				     UCP_EP_PARAM_FIELD_ERR_HANDLER;
		params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
		params.err_handler.cb = on_error;
	}
	must(e, ucp_ep_create(e->worker, &params, &e->ep), "ucp_ep_create");
	if (!is_for_messages(e))
		must(e, ucp_ep_rkey_unpack(e->ep, h->key, &e->key),
		     "ucp_ep_rkey_unpack");
}

static void *post_write(struct end *e, const struct hello *h)
{
	const ucp_request_param_t param = { .op_attr_mask = 0 };
	void *request;

	if (is_for_messages(e))
		request = ucp_tag_send_nbx(e->ep, e->t->memory, e->t->size, 1,
					   &param);
	else
		request = ucp_put_nbx(e->ep, e->t->memory, e->t->size, h->addr,
				      e->key, &param);
	if (UCS_PTR_IS_ERR(request))
		must(e, UCS_PTR_STATUS(request), "a write");
	return request;
}

/* Close by force when the owner says so, and tell it when the put has ended. */
static void force(struct end *e, void *put)
{
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
		.flags = UCP_EP_CLOSE_FLAG_FORCE,
	};
	void *request;

	late_two_wait(e->t);
	request = ucp_ep_close_nbx(e->ep, &param);
	wait_for(e, request);
	wait_for(e, put);
	late_two_put(e->t, "", 1);
	late_two_written(e->t);
}

static void writer(struct late_two *t)
{
	const ucp_request_param_t param = { .op_attr_mask = 0 };
	struct hello h;
	struct end e;
	void *put;

	open_end(&e, t);
	late_two_get(t, &h, sizeof(h));
	connect_end(&e, &h);
	put = post_write(&e, &h);
	if (is_forced(&e))
		force(&e, put);
	wait_for(&e, put);
	wait_for(&e, ucp_ep_flush_nbx(e.ep, &param));
	late_two_written(t);
}

int main(int argc, char **argv)
{
	return late_two_main(argc, argv, ucp_get_version_string(), owner,
			     writer);
}

/* SPDX-License-Identifier: BSD-3-Clause */

/* The bytes of one side of what the mock moves. */

#include "tests/support/mock-verbs-internal.h"

#include <string.h>

enum ibv_wc_status mock_sges(const struct mock_qp *qp,
			     const struct mock_wqe *wqe, unsigned int need,
			     struct mock_side *ret)
{
	enum ibv_wc_status status;
	int i;

	ret->len = 0;
	ret->n = 0;
	for (i = 0; i < wqe->n_sge; i++) {
		if (!wqe->sge[i].length)
			continue;
		status = mock_local(qp, &wqe->sge[i], need, &ret->span[ret->n]);
		if (status != IBV_WC_SUCCESS)
			return status;
		ret->len += ret->span[ret->n++].len;
	}
	return IBV_WC_SUCCESS;
}

enum ibv_wc_status mock_local_side(const struct mock_qp *qp,
				   const struct mock_wqe *wqe,
				   unsigned int need, struct mock_side *ret)
{
	enum ibv_wc_status status;

	if (!wqe->inlined) {
		status = mock_sges(qp, wqe, need, ret);
		if (status == IBV_WC_LOC_QP_OP_ERR && (!qp->soft || need))
			status = IBV_WC_LOC_PROT_ERR;
		return status;
	}
	ret->n = 1;
	ret->span[0] = wqe->inlined_span;
	ret->len = ret->span[0].len;
	return IBV_WC_SUCCESS;
}

/* A word that somebody polls arrives whole. */
static void move_bytes(char *to, const char *from, size_t len)
{
	uint64_t word;

	if (len != 8 || ((uintptr_t)to & 7)) {
		memmove(to, from, len);
		return;
	}
	memcpy(&word, from, 8);
	__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
}

void mock_move(const struct mock_side *to, const struct mock_side *from)
{
	struct mock_span d = { NULL, 0 }, s = { NULL, 0 };
	int i = 0, j = 0;
	size_t n;

	for (;;) {
		while (!s.len && j < from->n)
			s = from->span[j++];
		while (!d.len && i < to->n)
			d = to->span[i++];
		n = s.len < d.len ? s.len : d.len;
		if (!n)
			return;
		move_bytes(d.at, s.at, n);
		s = (struct mock_span){ s.at + n, s.len - n };
		d = (struct mock_span){ d.at + n, d.len - n };
	}
}

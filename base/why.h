/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_WHY_H
#define WEIR_BASE_WHY_H

/*
 * Leave the sentence that weir_why() returns on this thread, and return @err,
 * so that a failing control call ends in one line:
 *
 *	return why(-EINVAL, "weir_timer_create: no callback");
 *
 * "which call: what, the likely cause; the remedy".  Never on the data path:
 * it formats.
 */
__attribute__((format(printf, 2, 3), cold)) int why(int err, const char *fmt,
						    ...);

#endif /* WEIR_BASE_WHY_H */

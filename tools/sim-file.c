/* SPDX-License-Identifier: BSD-3-Clause */

/* What a run depends on, as options: for people, and in files. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

void params_default(struct params *params, const struct scenario *scenario)
{
	memset(params, 0, sizeof(*params));
	params->scenario = scenario;
	params->seed = 1;
	params->faults = scenario->faults;
	params->ops = scenario->ops;
}

static int find_fault(const char *name, size_t len)
{
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		if (strlen(weir_sim_fault_name(i)) == len &&
		    !memcmp(weir_sim_fault_name(i), name, len))
			return (int)i;
	return -1;
}

int params_parse_faults(uint64_t *ret, const char *text)
{
	uint64_t faults = 0;
	size_t len;
	int kind;

	if (!strcmp(text, "none") || !strcmp(text, "all")) {
		*ret = *text == 'n' ? 0 : WEIR_SIM_ALL_FAULTS;
		return 0;
	}
	for (;; text += len + 1) {
		len = strcspn(text, ",");
		kind = find_fault(text, len);
		if (kind < 0)
			return -EINVAL;
		faults |= UINT64_C(1) << kind;
		if (!text[len])
			break;
	}
	*ret = faults;
	return 0;
}

void params_print(char *buf, size_t size, const struct params *p)
{
	size_t n;
	char sep = ' ';

	n = (size_t)snprintf(buf, size, "%s --seed %" PRIu64 " --ops %u",
			     p->scenario->name, p->seed, p->ops);
	if (p->rate)
		n += (size_t)snprintf(buf + n, size - n, " --rate %u", p->rate);
	if (p->steady)
		n += (size_t)snprintf(buf + n, size - n, " --steady");
	if (p->faults_max)
		n += (size_t)snprintf(buf + n, size - n,
				      " --faults-max %" PRIu64, p->faults_max);
	n += (size_t)snprintf(buf + n, size - n, " --faults");
	if (!p->faults)
		snprintf(buf + n, size - n, " none");
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++) {
		if (!(p->faults >> i & 1))
			continue;
		n += (size_t)snprintf(buf + n, size - n, "%c%s", sep,
				      weir_sim_fault_name(i));
		sep = ',';
	}
}

/* One option of a file; returns how many words it took, or 0. */
static int load_option(struct params *p, const char *word, const char *value)
{
	if (!strcmp(word, "--steady")) {
		p->steady = true;
		return 1;
	}
	if (!value)
		return 0;
	if (!strcmp(word, "--seed"))
		p->seed = strtoull(value, NULL, 10);
	else if (!strcmp(word, "--ops"))
		p->ops = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(word, "--rate"))
		p->rate = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(word, "--faults-max"))
		p->faults_max = strtoull(value, NULL, 10);
	else if (strcmp(word, "--faults") ||
		 params_parse_faults(&p->faults, value))
		return 0;
	return 2;
}

static int load_line(struct params *ret, char *line)
{
	const struct scenario *scenario;
	char *words[32], *save = NULL, *word;
	int n = 0, i = 1, took;

	for (word = strtok_r(line, " \t\n", &save); word && n < 31;
	     word = strtok_r(NULL, " \t\n", &save))
		words[n++] = word;
	words[n] = NULL;
	scenario = n ? scenario_find(words[0]) : NULL;
	if (!scenario)
		return -ENOENT;
	params_default(ret, scenario);
	while (i < n) {
		took = load_option(ret, words[i], words[i + 1]);
		if (!took)
			return -EINVAL;
		i += took;
	}
	return 0;
}

/* The first line that is no comment. */
int params_load(struct params *ret, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[1024];
	int err = -ENODATA;

	if (!file)
		return -errno;
	while (err == -ENODATA && fgets(line, sizeof(line), file))
		if (*line != '#' && *line != '\n')
			err = load_line(ret, line);
	fclose(file);
	return err;
}

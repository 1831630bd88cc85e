/* SPDX-License-Identifier: BSD-3-Clause */

/* The parameters of a run as options: on the command line, and in files. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/runner.h"

static int find_fault(const char *name, size_t len)
{
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		if (strlen(weir_sim_fault_name(i)) == len &&
		    !memcmp(weir_sim_fault_name(i), name, len))
			return (int)i;
	return -1;
}

int params_faults(uint64_t *ret, const char *text)
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
	if (p->faults_max && p->faults)
		n += (size_t)snprintf(buf + n, size - n,
				      " --faults-max %" PRIu64, p->faults_max);
	if (*p->hosts && p->faults)
		n += (size_t)snprintf(buf + n, size - n, " --hosts %s",
				      p->hosts);
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

/* A number and its destination; false: it is not a number, or not such an
 * option. */
static bool load_number(struct params *p, const char *word, const char *value)
{
	uint64_t n;

	if (!strcmp(word, "--seed"))
		return params_number(value, 0, UINT64_MAX, &p->seed);
	if (!strcmp(word, "--faults-max"))
		return params_number(value, 1, UINT64_MAX, &p->faults_max);
	if (!params_number(value, 1, UINT32_MAX, &n))
		return false;
	if (!strcmp(word, "--ops"))
		p->ops = (uint32_t)n;
	else if (!strcmp(word, "--rate"))
		p->rate = (uint32_t)n;
	else
		return false;
	return true;
}

/* One option of a file; returns how many words it took, or 0. */
static int load_option(struct params *p, const char *word, const char *value)
{
	if (!strcmp(word, "--trace"))
		return 1;	/* As a failure is told. */
	if (!strcmp(word, "--steady")) {
		p->steady = true;
		return 1;
	}
	if (!value)
		return 0;
	if (!strcmp(word, "--faults"))
		return params_faults(&p->faults, value) ? 0 : 2;
	if (!strcmp(word, "--hosts"))
		return params_hosts(p, value) ? 2 : 0;
	return load_number(p, word, value) ? 2 : 0;
}

static const char *load_line(struct params *ret,
			     const struct weir_sim_scenario *all, char *line)
{
	const struct weir_sim_scenario *scenario;
	char *words[32], *save = NULL, *word;
	int n = 0, i = 1, took;

	for (word = strtok_r(line, " \t\n", &save); word && n < 31;
	     word = strtok_r(NULL, " \t\n", &save))
		words[n++] = word;
	words[n] = NULL;
	scenario = n ? scenario_find(all, words[0]) : NULL;
	if (!scenario)
		return "there is no such scenario";
	params_default(ret, scenario);
	while (i < n) {
		took = load_option(ret, words[i], words[i + 1]);
		if (!took)
			return "an option in it makes no sense";
		i += took;
	}
	return NULL;
}

/* One line besides comments. */
int params_load(struct params *ret, const struct weir_sim_scenario *all,
		const char *path, const char **why)
{
	FILE *file = fopen(path, "re");
	char line[1024];
	bool has_line = false;

	*why = file ? NULL : strerror(errno);
	while (!*why && fgets(line, sizeof(line), file)) {
		if (*line == '#' || *line == '\n')
			continue;
		*why = has_line ? "there is more than one line in it" :
				  load_line(ret, all, line);
		has_line = true;
	}
	if (!*why && ferror(file))
		*why = strerror(errno);
	if (!*why && !has_line)
		*why = "there is nothing in it";
	if (file)
		fclose(file);
	return *why ? -EINVAL : 0;
}

void params_save(const struct params *params, const struct outcome *found,
		 const char *dir)
{
	char path[4096], line[512];
	FILE *file;
	bool err = true;

	snprintf(path, sizeof(path), "%s/%s-%" PRIu64 ".seed", dir,
		 params->scenario->name, params->seed);
	params_print(line, sizeof(line), params);
	file = fopen(path, "we");
	if (file) {
		fprintf(file, "# '%s' does not hold: %s\n%s\n", found->rule,
			found->text, line);
		err = fclose(file) != 0;
	}
	fprintf(stderr, "%s: %s%s%s\n", runner_name, err ? "" : "kept in ", path,
		err ? ": it cannot be written" : "");
}

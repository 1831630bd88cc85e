#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mutate.py [options] SOURCE WORK: plant the bugs of tests/mutations.txt, one at a
time, and report which of them the tests detect.

They are compiled into one copy of the tree, in WORK; the environment variable
WEIR_MUTATION has the number of the active one.  A mutation is detected if one of
its tests fails, hangs or crashes.  WORK/results has the results.  A result is
valid for one version of the mutation, of the file that it changes, and of its
tests and their headers.  If one of these has changed, the mutation runs again.

It fails if a mutation survives and its entry does not say so, or if more than 5 %
of the entries say so.

  --list FILE      other mutations than those of SOURCE
  --part K/M       only each Mth mutation, from the Kth on
  --rotate M       one part of M, another for each commit
  --only N,N       only these
  --all            of each mutation all tests, not only the first that fails
  --built DIR      start from a copy of DIR, a build directory in SOURCE, and
                   compile only what those that are run change
  --least PERCENT  with --sim: fail if fewer are detected
  --sim SEEDS      weir-sim as the only test: which of the mutations whose code a
                   scenario runs it detects, in so many seeds of each scenario
  --check          only report what cannot be planted, or names no test
  -j N             so many compilers, and tests, at once
"""
import argparse
import concurrent.futures
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time

# A header may be changed, too, and the file that includes it.
SELECTOR = '''#ifndef WEIR_MUTATION
#define WEIR_MUTATION
#include <stdlib.h>
static int weir_mutation;
static void __attribute__((constructor(101))) weir_mutation_init(void)
{
	const char *n = getenv("WEIR_MUTATION");

	weir_mutation = n ? atoi(n) : 0;
}
#endif
#line 1
'''

# C: is the mutation of this number active?
ACTIVE = 'weir_mutation == {}'


class Mutation:
    def __init__(self, number, text):
        self.number = number
        self.text = text
        self.old, self.new = [], []
        self.what = self.file = self.survives = ''
        self.tests = []
        for line in text.split('\n'):
            key, _, rest = line.partition(' ')
            if key == '#':
                self.what = (self.what + ' ' + rest).strip()
            elif key == 'file':
                self.file = rest
            elif key == 'test':
                self.tests += rest.split()
            elif key == 'survives':
                self.survives = (self.survives + ' ' + rest).strip()
            elif key == '-':
                self.old.append(rest.strip())
            elif key == '+':
                self.new.append(rest.strip())
            elif line:
                sys.exit(f'mutation {number}: what is "{line}"?')
        if not (self.what and self.file and self.tests and self.old):
            sys.exit(f'mutation {number} is incomplete: {text}')
        for code in (' '.join(self.old), ' '.join(self.new)):
            if any(code.count(a) != code.count(b) for a, b in ('()', '{}', '[]')):
                sys.exit(f'mutation {number} is cut in a bracket: {code}')
            if code.endswith(('&&', '||', '=', ',')) or \
                    re.match(r'return\b[^;]*$', code):
                sys.exit(f'mutation {number} is cut in an expression: {code}')
            if code.count('/*') != code.count('*/'):
                sys.exit(f'mutation {number} is cut in a comment: {code}')

    def code(self):
        """What takes the place of the old code."""
        old, new = ' '.join(self.old), ' '.join(self.new)
        test = ACTIVE.format(self.number)
        if old.startswith('if (') and old.endswith(')'):
            return f'if ({test} ? ({new[3:]}) : ({old[3:]}))'
        if old.endswith((';', '}')):
            return f'if ({test}) {{ {new} }} else {{ {old} }}'
        return f'({test} ? ({new}) : ({old}))'

    def apply(self, text):
        pattern = r'\s*'.join(re.escape(token) for line in self.old
                              for token in re.findall(r'\w+|\S', line))
        found = list(re.finditer(r'(?<!\w)' + pattern, text))
        if len(found) != 1:
            sys.exit(f'{self.file}: the old code of mutation {self.number} is '
                     f'there {len(found)} times: {" ".join(self.old)}')
        a, b = found[0].span()
        # Lines stay where they are.
        lines = text[a:b].count('\n')
        return text[:a] + self.code() + '\n' * lines + text[b:]


def load(path):
    with open(path) as f:
        text = f.read()
    blocks = re.split(r'\n\s*\n', text)
    blocks = [b for b in blocks if re.search(r'^file ', b, re.M)]
    return [Mutation(i + 1, b.strip()) for i, b in enumerate(blocks)]


def find_test(source, test):
    found = [at for end in ('c', 'sh')
             for at in glob.glob(f'{source}/tests/*/{test}.{end}')]
    if len(found) != 1:
        sys.exit(f'there is no test {test}')
    return os.path.relpath(found[0], source)


def digest(source, mutation):
    """Of all that decides whether it is detected, but for the rest of the tree."""
    wanted = [mutation.file] + [find_test(source, t) for t in mutation.tests]
    sha, seen = hashlib.sha256(mutation.text.encode()), set()
    while wanted:
        name = wanted.pop()
        at = os.path.join(source, name)
        if name in seen or not os.path.isfile(at):
            continue
        seen.add(name)
        with open(at, 'rb') as f:
            content = f.read()
        sha.update(content)
        # A header of the tests stands for the code beside it, too.
        for named in re.findall(rb'tests/[\w./-]+\.(?:h|c|sh|py)', content):
            named = named.decode()
            wanted += [named, re.sub(r'(-fixture)?\.h$', '.c', named),
                       re.sub(r'\.h$', '.c', named)]
    return sha.hexdigest()[:16]


def copy_made(source, work):
    """What autoreconf has made, no newer than it is."""
    for pattern in ('configure', 'aclocal.m4', 'Makefile.in', 'config.h.in',
                    'build-aux/*', 'build-aux/m4/*'):
        for at in glob.glob(os.path.join(source, pattern)):
            to = os.path.join(work, 'src', os.path.relpath(at, source))
            if os.path.isfile(at) and not os.path.exists(to):
                os.makedirs(os.path.dirname(to), exist_ok=True)
                shutil.copy2(at, to)


def plant(source, work, mutations):
    """A copy of the tree with all of them; no file that did not change is new."""
    listed = subprocess.run(['git', '-C', source, 'ls-files', '-co',
                             '--exclude-standard'], text=True,
                            capture_output=True)
    if listed.returncode:
        sys.exit(f'{source} is no git checkout')
    names = listed.stdout.split('\n')
    by_file = {}
    for m in mutations:
        by_file.setdefault(m.file, []).append(m)
    for name in filter(None, names):
        at, to = os.path.join(source, name), os.path.join(work, 'src', name)
        if not os.path.isfile(at):
            continue
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if name not in by_file:
            if not os.path.exists(to):
                shutil.copy2(at, to)
            elif open(at, 'rb').read() != open(to, 'rb').read():
                shutil.copy(at, to)
            continue
        with open(at) as f:
            text = f.read()
        for m in by_file.pop(name):
            text = m.apply(text)
        # A file may ask for _GNU_SOURCE, which has to come before.
        text = '#define _GNU_SOURCE 1\n' + SELECTOR + text
        text = text.replace('\n#define _GNU_SOURCE 1\n', '\n\n')
        if not os.path.exists(to) or open(to).read() != text:
            with open(to, 'w') as f:
                f.write(text)
    if by_file:
        sys.exit(f'there is no {", ".join(by_file)}')


def build(work, jobs, built, tests):
    src = os.path.join(work, 'src')
    to = os.path.join(src, 'build') if built else os.path.join(work, 'build')
    log = open(os.path.join(work, 'build.log'), 'w')

    def run(*command, **more):
        if subprocess.run(command, stdout=log, stderr=log, **more).returncode:
            with open(log.name, errors='replace') as f:
                print(*[x for x in f if 'error' in x.lower()][:20], sep='', end='')
            sys.exit(f'{" ".join(command)} has failed: see {log.name}')

    if built and not os.path.exists(to):
        with open(os.path.join(built, 'Makefile')) as f:
            if '\nsrcdir = ..\n' not in f.read():
                sys.exit(f'{built} was not configured as ../configure in it')
        run('cp', '-a', '--reflink=auto', os.path.realpath(built), to)
    os.makedirs(to, exist_ok=True)
    if not os.path.exists(os.path.join(src, 'configure')):
        run('autoreconf', '-i', cwd=src)
    if not os.path.exists(os.path.join(to, 'Makefile')):
        run('../src/configure', '--enable-debug', '--disable-static',
            cwd=to)
    flags = ['CFLAGS=-O1 -w', 'pkglibexec_PROGRAMS=']
    programs = [t[:-2] for t in tests if t.endswith('.c')]
    if any(t.endswith('.sh') for t in tests):
        programs.append('$(script_programs)')
    run('make', f'-j{jobs}', *flags, 'all', cwd=to)
    run('make', f'-j{jobs}', *flags, 'check', 'TESTS=',
        f'check_PROGRAMS={" ".join(programs)}', cwd=to)
    return to


class Runner:
    """Runs tests as make check does, without make."""

    def __init__(self, work, to, source):
        self.work, self.to, self.source = work, to, source
        self.limits = {}

    def passes(self, number, test):
        src, name = os.path.join(self.work, 'src'), find_test(self.source, test)
        script = name.endswith('.sh')
        at = f'{src}/{name}' if script else f'{self.to}/{name[:-2]}'
        env = dict(os.environ, WEIR_MUTATION=str(number), WEIR_MODELS='0',
                   srcdir=src, CC='cc', AWK='awk', MAKE='make', SAN_CFLAGS='',
                   CMOCKA_MESSAGE_OUTPUT='TAP', MALLOC_PERTURB_='165')
        env.setdefault('WEIR_TEST_TIMEOUT', str(self.limits.get(test, 600)))
        command = ['sh', f'{src}/build-aux/tap-run.sh'] + \
            (['sh'] if script else []) + [at]
        ran = subprocess.run(command, env=env, cwd=self.to,
                             stdin=subprocess.DEVNULL, capture_output=True)
        with open(f'{self.work}/test-{threading.get_ident()}.log',
                  'wb') as log:
            log.write(ran.stdout + ran.stderr)
        return not (ran.returncode or
                    re.search(rb'^(not ok|Bail out)', ran.stdout, re.M))

    def sound(self, test):
        """Whether it passes without a mutation, and how long it may take."""
        start = time.monotonic()
        passed = self.passes(0, test)
        self.limits[test] = int(15 + 5 * (time.monotonic() - start))
        if os.environ.get('MUTATE_TIMES'):
            print(test, self.limits[test], flush=True)
        return passed

    def judge(self, mutation, every, unsound):
        by = []
        for test in mutation.tests:
            if test in unsound:
                continue
            if not self.passes(mutation.number, test):
                by.append(test)
                if not every:
                    break
        return ' '.join(by) or 'survives'


def commits(source):
    """How many commits there are: a number that each commit changes."""
    said = subprocess.run(['git', '-C', source, 'rev-list', '--count', 'HEAD'],
                          text=True, capture_output=True)
    return int(said.stdout) if said.returncode == 0 else 0


def part(mutations, k, m):
    return [x for i, x in enumerate(mutations) if i % m == k]


def check(source, mutations):
    """Whether all can be planted together, and their tests exist."""
    bad, texts = 0, {}
    for m in mutations:
        try:
            if m.file not in texts:
                with open(os.path.join(source, m.file)) as f:
                    texts[m.file] = f.read()
            texts[m.file] = m.apply(texts[m.file])
            for test in m.tests:
                find_test(source, test)
        except (OSError, SystemExit) as e:
            print(f'mutation {m.number}: {e}')
            bad += 1
    return bad


def choose(args, mutations, source):
    if args.only:
        numbers = [int(n) for n in args.only.split(',')]
        return [x for x in mutations if x.number in numbers]
    if args.rotate:
        k = commits(source) % args.rotate
        print(f'part {k + 1} of {args.rotate}')
        return part(mutations, k, args.rotate)
    k, m = (int(n) for n in args.part.split('/'))
    return part(mutations, k - 1, m)


def known(path):
    done = {}
    if os.path.exists(path):
        for line in open(path):
            key, said = line.rstrip('\n').split('\t')
            done[key] = said
    return done


# The simulator alone.

SIM_SELECTOR = '''#ifndef WEIR_MUTATION
#define WEIR_MUTATION
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static int weir_mutation;
static char *weir_mutation_ran;
static void __attribute__((constructor(101))) weir_mutation_init(void)
{
	const char *n = getenv("WEIR_MUTATION");
	const char *ran = getenv("WEIR_MUTATIONS_RAN");
	int fd = ran ? open(ran, O_RDWR | O_CLOEXEC) : -1;

	weir_mutation = n ? atoi(n) : 0;
	if (fd < 0)
		return;
	weir_mutation_ran = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			       fd, 0);
	if (weir_mutation_ran == MAP_FAILED)
		weir_mutation_ran = 0;
	close(fd);
}
static int weir_mutation_is_active(int n)
{
	if (weir_mutation_ran)
		weir_mutation_ran[n] = 1;
	return weir_mutation == n;
}
#endif
#line 1
'''

SIM_PROGRAMS = ('weir-sim', 'weir-sim-verbs')


def sim_build(work, jobs):
    """Only what the simulator is."""
    src, to = os.path.join(work, 'src'), os.path.join(work, 'build')
    os.makedirs(to, exist_ok=True)
    targets = ' '.join('tools/' + name for name in SIM_PROGRAMS)
    script = (f'cd {src} && {{ [ -e configure ] || autoreconf -i; }} && cd {to} '
              '&& { [ -e Makefile ] || ../src/configure --enable-debug '
              '--disable-shared CFLAGS="-O1 -w"; } && '
              f'make -j{jobs} {targets}')
    with open(os.path.join(work, 'build.log'), 'w') as log:
        if subprocess.run(['sh', '-c', script], stdout=log,
                          stderr=log).returncode:
            sys.exit(f'the build has failed: see {log.name}')


def sim_digest(source):
    """Of what judges, so that another judge has other results."""
    digest = hashlib.sha256()
    for name in sorted(glob.glob(f'{source}/tools/sim-*.[ch]') +
                       glob.glob(f'{source}/sim/*.[ch]') +
                       glob.glob(f'{source}/tests/sim/sim-*.[ch]')):
        with open(name, 'rb') as f:
            digest.update(f.read())
    return digest.hexdigest()[:8]


def sim_run(work, number, scenario, seeds):
    """The rule that is broken, or None; and which mutations' code ran."""
    program, name = scenario
    ran = os.path.join(work, 'ran')
    with open(ran, 'wb') as f:
        f.write(bytes(4096))
    env = dict(os.environ, WEIR_MUTATION=str(number), WEIR_MUTATIONS_RAN=ran,
               MALLOC_PERTURB_='165')
    got = subprocess.run([f'{work}/build/tools/{program}', '--quiet', '--seeds',
                          str(seeds), '--jobs', str(os.cpu_count()),
                          '--no-shrink', '--timeout', '20', name], env=env,
                         text=True, capture_output=True,
                         stdin=subprocess.DEVNULL, errors='replace')
    with open(ran, 'rb') as f:
        seen = {n for n, byte in enumerate(f.read()) if byte}
    if not got.returncode:
        return None, seen
    said = re.search(r"'(.*)' does not hold", got.stderr)
    return (said.group(1) if said else f'exit {got.returncode}'), seen


def sim_scenarios(work):
    found = []
    for program in SIM_PROGRAMS:
        said = subprocess.run([f'{work}/build/tools/{program}', '--list'],
                              text=True, capture_output=True)
        found += [(program, line.split()[0])
                  for line in said.stdout.split('\n\n')[0].split('\n')]
    return found


def sim_judge(work, x, scenarios):
    """The first that detects it, and the rule; @scenarios run its code."""
    for scenario, seeds in scenarios:
        rule, _ = sim_run(work, x.number, scenario, seeds)
        if rule:
            return f'{scenario[1]}: {rule}'
    return 'survives'


def sim_main(args, source, work, mutations):
    global SELECTOR, ACTIVE
    SELECTOR, ACTIVE = SIM_SELECTOR, 'weir_mutation_is_active({})'
    work = os.path.join(work, 'sim')
    plant(source, work, mutations)
    sim_build(work, args.jobs)
    runs = {}
    for scenario in sim_scenarios(work):
        rule, seen = sim_run(work, 0, scenario, args.sim)
        if rule:
            sys.exit(f'{scenario[1]}: "{rule}" fails without a mutation')
        for n in seen:
            runs.setdefault(n, []).append((scenario, args.sim))
    results = os.path.join(work, 'results')
    done = {}
    if os.path.exists(results):
        for line in open(results):
            key, said = line.rstrip('\n').split('\t')
            done[key] = said
    judge = f'{sim_digest(source)} {args.sim}'
    only = args.only and [int(n) for n in args.only.split(',')]
    chosen = [x for x in mutations if x.number in runs and
              (not only or x.number in only)]
    told = {}
    for x in chosen:
        key = f"{digest(source, x)} {judge}"
        if key not in done:
            done[key] = sim_judge(work, x, runs[x.number])
            with open(results, 'a') as f:
                f.write(f'{key}\t{done[key]}\n')
        told[x.number] = done[key]
        print(f'{x.number:4} {done[key]:48} {x.file}: {x.what}', flush=True)
    n = sum(said != 'survives' for said in told.values())
    print(f'{len(runs)} of {len(mutations)} have code that a scenario runs')
    print(f'{n} of {len(chosen)} detected, {100 * n // max(len(chosen), 1)} %')
    sys.exit(100 * n < args.least * len(chosen))


def main():
    ap = argparse.ArgumentParser(usage=__doc__.replace('%', '%%'))
    ap.add_argument('source')
    ap.add_argument('work')
    ap.add_argument('--list')
    ap.add_argument('--part', default='1/1')
    ap.add_argument('--rotate', type=int)
    ap.add_argument('--only')
    ap.add_argument('--all', action='store_true')
    ap.add_argument('--built')
    ap.add_argument('--check', action='store_true')
    ap.add_argument('--least', type=float, default=0)
    ap.add_argument('--sim', type=int)
    ap.add_argument('-j', type=int, default=os.cpu_count(), dest='jobs')
    args = ap.parse_args()
    source, work = os.path.abspath(args.source), os.path.abspath(args.work)
    mutations = load(args.list or os.path.join(source, 'tests/mutations.txt'))
    if args.check:
        sys.exit(bool(check(source, mutations)))
    if args.sim:
        sim_main(args, source, work, mutations)
    chosen = choose(args, mutations, source)
    digests = {x: digest(source, x) for x in chosen}
    results = os.path.join(work, 'results')
    done = known(results)
    left = [x for x in chosen if digests[x] not in done]
    tests = sorted({t for x in left for t in x.tests})

    if left:
        os.makedirs(work, exist_ok=True)
        if args.built:
            copy_made(source, work)
        plant(source, work, left if args.built else mutations)
        to = build(work, args.jobs, args.built,
                   [find_test(source, t) for t in tests])
        runner = Runner(work, to, source)
    unsound = set()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for test, passed in zip(tests, pool.map(
                lambda t: runner.sound(t) or runner.sound(t), tests)):
            if not passed:
                print(f'error: {test} fails without a mutation', flush=True)
                unsound.add(test)
        for x, said in zip(left, pool.map(
                lambda x: runner.judge(x, args.all, unsound), left)):
            done[digests[x]] = said
            # What a test would have said that is of no use is not known.
            if said != 'survives' or not unsound & set(x.tests):
                with open(results, 'a') as f:
                    f.write(f'{digests[x]}\t{said}\n')

    new = []
    for x in chosen:
        said = done[digests[x]]
        if said == 'survives' and not x.survives and \
                not unsound & set(x.tests):
            new.append(x)
        print(f'{x.number:4} {said:28} {x.file}: {x.what}')
    n = sum(done[digests[x]] != 'survives' for x in chosen)
    print(f'{n} of {len(chosen)} detected, {100 * n // max(len(chosen), 1)} %')
    for x in new:
        print(f'error: no test detects mutation {x.number}: {x.file}: {x.what}')
    listed = sum(bool(x.survives) for x in mutations)
    if 100 * listed > 5 * len(mutations):
        print(f'error: {listed} of {len(mutations)} are listed as survivors')
        new.append(None)
    sys.exit(bool(new or unsound))


main()

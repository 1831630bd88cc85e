#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mutate.py [options] SOURCE WORK: plant the bugs of tests/mutations.txt, one at a
time, and report which of them the tests detect.

All of them are compiled into one copy of the tree, in WORK; the environment
variable WEIR_MUTANT names the one that lives, by its number.  A mutation is
detected if one of its tests fails, hangs or dies.  What was run is kept in
WORK/results, under a digest of the mutation, and is not run again until that
changes: remove the file when the tests have.

  --list FILE      other mutations than those of SOURCE
  --part K/M       only each Mth mutation, from the Kth on
  --only N,N       only these
  --all            of each mutation all tests, not only the first that fails
  --least PERCENT  fail if fewer are detected
  -j N             so many compilers at once
"""
import argparse
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

SELECTOR = '''#include <stdlib.h>
static int weir_mutant;
static void __attribute__((constructor(101))) weir_mutant_init(void)
{
	const char *n = getenv("WEIR_MUTANT");

	weir_mutant = n ? atoi(n) : 0;
}
#line 1
'''


class Mutation:
    def __init__(self, number, text):
        self.number = number
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.old, self.new = [], []
        self.what = self.file = ''
        self.tests = []
        for line in text.split('\n'):
            key, _, rest = line.partition(' ')
            if key == '#':
                self.what = (self.what + ' ' + rest).strip()
            elif key == 'file':
                self.file = rest
            elif key == 'test':
                self.tests += rest.split()
            elif key == '-':
                self.old.append(rest.strip())
            elif key == '+':
                self.new.append(rest.strip())
            elif line:
                sys.exit(f'mutation {number}: what is "{line}"?')
        if not (self.what and self.file and self.tests and self.old):
            sys.exit(f'mutation {number} is incomplete: {text}')

    def code(self):
        """What takes the place of the old code."""
        old, new = ' '.join(self.old), ' '.join(self.new)
        test = f'weir_mutant == {self.number}'
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
            if not os.path.exists(to) or \
                    open(at, 'rb').read() != open(to, 'rb').read():
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


def build(work, jobs):
    src, to = os.path.join(work, 'src'), os.path.join(work, 'build')
    log = open(os.path.join(work, 'build.log'), 'w')

    def run(*command, **more):
        if subprocess.run(command, stdout=log, stderr=log, **more).returncode:
            sys.exit(f'{" ".join(command)} has failed: see {log.name}')

    os.makedirs(to, exist_ok=True)
    if not os.path.exists(os.path.join(src, 'configure')):
        run('autoreconf', '-i', cwd=src)
    if not os.path.exists(os.path.join(to, 'Makefile')):
        run('../src/configure', '--enable-debug', '--disable-static',
            'CFLAGS=-O1 -w', cwd=to)
    run('make', f'-j{jobs}', cwd=to)
    run('make', f'-j{jobs}', 'check', 'TESTS=', cwd=to)


def passes(work, number, test):
    """As make check runs it, without make."""
    src, to = os.path.join(work, 'src'), os.path.join(work, 'build')
    script = glob.glob(f'{src}/tests/**/{test}.sh', recursive=True)
    found = script or glob.glob(f'{to}/tests/**/{test}', recursive=True)
    if len(found) != 1:
        sys.exit(f'there is no test {test}')
    env = dict(os.environ, WEIR_MUTANT=str(number), WEIR_MODELS='0',
               srcdir=src, CC='cc', AWK='awk', MAKE='make', SAN_CFLAGS='',
               CMOCKA_MESSAGE_OUTPUT='TAP', MALLOC_PERTURB_='165')
    env.setdefault('WEIR_TEST_TIMEOUT', '60')
    command = ['sh', f'{src}/build-aux/tap-run.sh'] + \
        (['sh'] if script else []) + found
    ran = subprocess.run(command, env=env, cwd=to, stdin=subprocess.DEVNULL,
                         capture_output=True)
    with open(os.path.join(work, 'test.log'), 'wb') as log:
        log.write(ran.stdout + ran.stderr)
    return not (ran.returncode or
                re.search(rb'^(not ok|Bail out)', ran.stdout, re.M))


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument('source')
    ap.add_argument('work')
    ap.add_argument('--list')
    ap.add_argument('--part', default='1/1')
    ap.add_argument('--only')
    ap.add_argument('--all', action='store_true')
    ap.add_argument('--least', type=float, default=0)
    ap.add_argument('-j', type=int, default=os.cpu_count(), dest='jobs')
    args = ap.parse_args()
    source, work = os.path.abspath(args.source), os.path.abspath(args.work)
    mutations = load(args.list or os.path.join(source, 'tests/mutations.txt'))
    plant(source, work, mutations)
    build(work, args.jobs)

    k, m = (int(n) for n in args.part.split('/'))
    chosen = [x for i, x in enumerate(mutations) if i % m == k - 1]
    if args.only:
        chosen = [x for x in mutations
                  if x.number in [int(n) for n in args.only.split(',')]]
    results = os.path.join(work, 'results')
    done = {}
    if os.path.exists(results):
        for line in open(results):
            digest, said = line.rstrip('\n').split('\t')
            done[digest] = said

    for test in sorted({t for x in chosen for t in x.tests
                        if x.digest not in done}):
        if not passes(work, 0, test):
            sys.exit(f'{test} fails without a mutation')
    for x in chosen:
        if x.digest not in done:
            by = []
            for test in x.tests:
                if not passes(work, x.number, test):
                    by.append(test)
                    if not args.all:
                        break
            done[x.digest] = ' '.join(by) or 'survives'
            with open(results, 'a') as f:
                f.write(f'{x.digest}\t{done[x.digest]}\n')
        print(f'{x.number:4} {done[x.digest]:28} {x.file}: {x.what}',
              flush=True)
    n = sum(done[x.digest] != 'survives' for x in chosen)
    print(f'{n} of {len(chosen)} detected, {100 * n // len(chosen)} %')
    sys.exit(100 * n < args.least * len(chosen))


main()

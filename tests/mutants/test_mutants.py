"""Do the faults still fit the sources? Each must change its file once, in one place, and be judged by some op.
PORTICO in the environment is the program, of which lavapipe is asked what launches its kernels."""

import fnmatch
import json
import os
import subprocess
import sys
import unittest

import plugins
import sites
import sources


class Mutants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table, cls.mechanical = sites.table(), sites.mechanical()
        cls.lowering = sources.Lowering()
        cls.kernels = sources.Kernels(cls.lowering)

    def test_described(self):
        """What changes a device's limits finds its lines."""
        for folder, name, _, edits in (*plugins.SMALL_WINDOWS.values(), *plugins.FEW_GROUPS.values()):
            text = sources.read(os.path.join(sources.ROOT, 'backends', folder, name))
            for old, new in edits:
                self.assertEqual(text.count(old), 1, old)
                self.assertNotIn(new, text)

    def test_enough(self):
        everything = len(self.table) + len(self.mechanical) + len(sites.faults())
        self.assertGreaterEqual(everything, 150)
        self.assertGreaterEqual(2 * len(self.mechanical), everything)

    def test_names(self):
        names = [m.name for m in self.table + self.mechanical + sites.faults()]
        self.assertEqual(len(names), len(set(names)))
        there = set(names) | sites.every_name()
        self.assertLessEqual(set(sites.ASKED), set(names))
        for name in sites.equivalents():
            self.assertTrue(name in there, f'equivalent.txt argues about {name}, which is not there')
        argued = sum(name in sites.equivalents() for name in names)
        self.assertLessEqual(10 * argued, len(names))

    def test_edits(self):
        for mutant in self.table + self.mechanical:
            text = sources.read(f'{sources.ROOT}/{mutant.file}')
            self.assertNotEqual(mutant.text, text, mutant.name)
            self.assertEqual(text[mutant.start:mutant.start + len(mutant.old)], mutant.old, mutant.name)
            back = mutant.text[:mutant.start] + mutant.old + mutant.text[mutant.start + len(mutant.new):]
            self.assertEqual(back, text, mutant.name)

    def test_the_same_again(self):
        first, again, other = (sites.choose(190, seed) for seed in (1, 1, 2))
        self.assertEqual([m.key for m in first], [m.key for m in again])
        self.assertNotEqual([m.key for m in first], [m.key for m in other])
        self.assertEqual(len(first), 190)

    def test_spread(self):
        for kind in ('arithmetic', 'index', 'comparison', 'constant', 'barrier'):
            self.assertTrue(any(m.kind == kind for m in self.mechanical), kind)
        touched, listed = {m.file for m in sites.choose(190, 1)}, {m.name for m in self.mechanical}
        self.assertEqual([f for f in sites.files() if f not in touched and
                          {site.name for site in sites.sites_of(f)} - listed], [])
        self.assertFalse({m.name for m in sites.choose(190, 1)} & listed)

    def test_nobody_lists_a_new_file(self):
        """A file has faults before mechanical.txt names it, and functions that only choose have none."""
        sample = [site for site in sites.sites_of('shaders/cumsum.kern')]
        first = sites.first_of_each_kind(sample)
        self.assertEqual({site.kind for site in first}, {site.kind for site in sample})
        self.assertEqual(len(first), len({site.kind for site in sample}))
        for name in ('conv1d_choose', 'gpu_choose_cumsum', 'attention_choose'):
            self.assertIn(name, sites.choosing())
        for name in ('conv1d_lower', 'gpu_emit_cumsum', 'conv1d_sizes_of'):
            self.assertNotIn(name, sites.choosing())
        self.assertEqual(sites.CHOICES & sites.choosing(), set(), 'listed, and found all the same')

    def test_every_op_has_kernels(self):
        self.assertGreater(len(self.lowering.ops), 60)
        for op in self.lowering.ops:
            self.assertTrue(self.lowering.kernels[op], op)
        for file in self.kernels.reach:
            self.assertTrue(self.lowering.ops_of_kernel(file), file)

    def test_someone_judges(self):
        for mutant in self.table + self.mechanical:
            name = mutant.file.split('/')[-1]
            if mutant.family == 'lowering':
                self.assertTrue(self.lowering.ops_of_line(name, mutant.first), mutant.name)
            else:
                files = self.kernels.files_of(name, mutant.first)
                self.assertTrue(files, f'{mutant.name}: no kernel has line {mutant.first}')
                self.assertTrue(any(self.kernels.ops_of(file, name, mutant.first) for file in files), mutant.name)

    def test_variants(self):
        """A kernel of which only some variants judge the faults must not be launched by others."""
        if 'PORTICO' not in os.environ:
            self.skipTest('PORTICO is not set')
        done = subprocess.run([os.environ['PORTICO'], 'conformance', '--devices', 'vulkan:lavapipe', '--tier', 'quick',
                               '--compile-only', '--ops', ','.join(sources.WITH_VARIANTS), '--json'],
                              capture_output=True, text=True, check=False)
        if done.returncode == 2:
            self.skipTest('there is no lavapipe')
        self.assertEqual(done.returncode, 0, done.stderr)
        file_of = {row.name: row.file for row in sources.embed.read_table(sources.SHADERS)}
        launched = {(file_of[pipeline['kernel']], pipeline['variant'])
                    for pipeline in json.loads(done.stdout)['compile_only'][0]['pipelines'] if pipeline['op'] == 'matmul'}
        self.assertGreater(len(launched), 5)
        for file, variant in launched:
            patterns = sources.VARIANTS.get(file, ['*'])
            self.assertTrue(any(fnmatch.fnmatch(variant, pattern) for pattern in patterns), f'{file}: {variant}')

    def test_a_backend_without_words(self):
        """A file whose rows a language has no words for has no code there: PoCL judges no kernel for matrix units."""
        if 'PORTICO' not in os.environ:
            self.skipTest('PORTICO is not set')
        for language, backend in (('spirv', 'vulkan'), ('opencl', 'opencl')):
            coded = plugins.files_with_code(backend, os.path.dirname(os.environ['PORTICO']))
            beyond = sources.files_that_need(sources.embed.LACKS[language])
            self.assertTrue(beyond)
            self.assertFalse(coded & beyond, backend)

    def test_reach(self):
        """Samples of what the sources are read for."""
        line = sources.read(f'{sources.SHADERS}/functions.inc').split('\n').index('FUNCTION float pco_erf(float x)') + 1
        self.assertEqual(self.kernels.ops_of('unary.kern', 'functions.inc', line), ['erf', 'gelu'])
        self.assertNotIn('rope.kern', self.kernels.files_of('functions.inc', line))
        self.assertEqual(self.lowering.kernels['argmax'], {'argmax.kern'})
        self.assertIn('copy.kern', self.lowering.kernels['scatter_add'])


if __name__ == '__main__':
    sys.exit(unittest.main())

"""How many multiply-adds scripts/gpu_density.py counts in the loops of three compilers' listings."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import gpu_density  # noqa: E402

AMD = """BB0:
        v_mov_b32_e32 v0, 0
BB1:
        v_fma_f32 v0, v1, v2, v0
        {}
        s_cbranch_scc1 BB1
        s_endpgm
"""
INTEL = """L0:
        mov (8) r1:f, r2:f
L1:
        mad (8) r1:{}, r2, r3, r4
(+f0)   while (8) L1
"""


class Density(unittest.TestCase):
    def test_amd(self):
        for line, terms in (("s_waitcnt vmcnt(0)", 0), ("v_fma_f32 v0, v1, v2, v3", 1), ("v_pk_fma_f16 v0, v1, v2, v3", 2),
                            ("v_dot2_f32_f16 v0, v1, v2, v3", 2), ("v_dot4_i32_i8 v0, v1, v2, v3", 4),
                            ("v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", 128)):
            self.assertEqual(gpu_density.densest(AMD.format(line)), ((1 + terms) / 3, 3), line)

    def test_intel(self):
        for kind in ("f", "hf"):
            self.assertEqual(gpu_density.densest(INTEL.format(kind)), (1 / 2, 2), kind)
        self.assertIsNone(gpu_density.densest(INTEL.format("d")))


if __name__ == "__main__":
    unittest.main()

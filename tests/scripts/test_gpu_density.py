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

# That of Mesa 22.3 to 25.0; the mov of 16 lanes has nothing to do with how many invocations the loop is for.
INTEL_OLDER = """Push constant ranges:
    RANGE0 (544B): Vulkan push constants and API params
mov(16)         g126<1>UD       g0<8,8,1>UD                     {{ align1 WE_all 1H }};

LABEL45:
(+f0.0) break(8) JIP:  LABEL46         UIP:  LABEL46            {{ align1 1Q }};
sync nop(1)                     null<0,1,0>UB                   {{ align1 WE_all 1N I@3 }};
send(8)         g40<1>UW        g8<0,1,0>UD     0x02106e06
                            dp data 1 MsgDesc: (untyped surface read, Surface = 6, SIMD8, Mask = 0xe) mlen 1 rlen 1 {{ align1 1Q }};
mad(8)          g120<1>{0}        g1<8,8,1>{0}    g2<8,8,1>{0}    g3<8,8,1>{0} {{ align1 1Q compacted }};
while(8)        JIP:  LABEL45                                   {{ align1 1Q }};

LABEL46:
"""
NVIDIA = """block.u 0 L2 [] -> {{
      r1       = mov 0x0                       // delay=1
}}
block.u 1 L4 [0, 1] -> {{
{}
@!p1             bra L4                        // delay=1
}}
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

    def test_intel_of_older_mesa(self):
        for kind in ("F", "HF"):
            self.assertEqual(gpu_density.densest(INTEL_OLDER.format(kind)), (1 / 5, 5), kind)
        self.assertIsNone(gpu_density.densest(INTEL_OLDER.format("D")))

    def test_product_and_sum_apart(self):
        """As of GCN 4: the sum is the multiply-add, and adds no product twice."""
        lines = "v_mul_f32_e32 v5, v6, v7 ; 0a0a0f06\n        v_add_f32_e32 v8, v5, v8\n        v_add_f32_e32 v9, v5, v9"
        text = AMD.replace("v_fma_f32 v0, v1, v2, v0", "v_mov_b32_e32 v0, v1").format(lines)
        self.assertEqual(gpu_density.densest(text), (1 / 5, 5))

    def test_nvidia(self):
        for lines, terms in ((["      r0       = ffma r1 r2 r0          // delay=4"], 1),
                             (["      r0       = fmul r1 r2             // delay=4",
                               "      r3       = fadd r3 r0             // delay=4"], 1),
                             (["      r0..2    = hmma.m16n8k16.f32 r4..8 r8..10 r0..2"], 64)):
            self.assertEqual(gpu_density.densest(NVIDIA.format("\n".join(lines))),
                             (terms / (len(lines) + 1), len(lines) + 1), lines)


if __name__ == "__main__":
    unittest.main()

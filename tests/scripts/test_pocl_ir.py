"""Does scripts/pocl_ir.py tell the bits of a vector that are read one by one from vectors that are read whole?"""

import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import pocl_ir  # noqa: E402

WHOLE = """define void @kernel(ptr %p) {
  %kept = alloca [4 x <8 x i1>], align 8
  %at = getelementptr [4 x <8 x i1>], ptr %kept, i64 0, i64 2
  %all = load <8 x i1>, ptr %at, align 1
  %one = extractelement <8 x i1> %all, i64 7
}
"""
NEXT = """define void @other(ptr %at) {
  %1 = load i1, ptr %at, align 1
}
"""
BY_OBJECT = WHOLE.replace("load <8 x i1>", "load i1")
BY_ADDRESS = """define i1 @last(ptr %p) {
  %1 = getelementptr inbounds <8 x i1>, ptr %p, i32 0, i64 7
  %2 = load i1, ptr %1, align 1
  store i1 %2, ptr %1, align 1
}
"""


class Scan(unittest.TestCase):
    def test_none(self):
        self.assertEqual(pocl_ir.scan("define i1 @f(ptr %p) {\n  %1 = alloca i1\n  %2 = load i1, ptr %1\n}\n"), (0, []))

    def test_whole(self):
        self.assertEqual(pocl_ir.scan(WHOLE), (1, []))

    def test_single_bits(self):
        self.assertEqual(pocl_ir.scan(BY_OBJECT), (1, ["%all = load i1, ptr %at, align 1"]))
        kept, wrong = pocl_ir.scan(BY_ADDRESS)
        self.assertEqual((kept, len(wrong)), (0, 2))

    def test_names_belong_to_a_function(self):
        self.assertEqual(pocl_ir.scan(WHOLE + NEXT), (1, []))


if __name__ == "__main__":
    unittest.main()

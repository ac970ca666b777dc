// The dialect's part for rows that need INTEGER_DOT: OpSDotKHR by its number, since this glslc need not
// have a name for it. Words are four signed bytes each; 0 is PackedVectorFormat4x8Bit.
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int pco_dot_bytes(uint a, uint b, spirv_literal int format);
// sum + the products of the bytes of two words
#define DOT4(a, b, sum) ((sum) + pco_dot_bytes(a, b, 0))

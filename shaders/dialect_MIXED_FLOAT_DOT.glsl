// The dialect's part for rows that need MIXED_FLOAT_DOT: OpFDot2MixAcc32VALVE by its number, since this glslc need not
// have a name for it.
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
spirv_instruction(extensions = ["SPV_VALVE_mixed_float_dot_product"], capabilities = [6912], id = 6916)
float pco_dot_halves(f16vec2 a, f16vec2 b, float sum);
// sum + the products of the halves of two words
#define DOT2(a, b, sum) pco_dot_halves(unpackFloat2x16(a), unpackFloat2x16(b), sum)

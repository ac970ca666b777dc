// The dialect, Vulkan side: what a .kern file may use, in GLSL. Its twin is dialect.cl; keep them in step.
// A kernel is compiled as: this file, then -D defines of its row, then the .kern file.
#version 450
#extension GL_EXT_control_flow_attributes : enable
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

// Specialisation constants 0, 1, 2 are the workgroup size. SPEC declares the others (ints); a .kern file gives no
// numbers: embed.py puts in those that follow from its declarations (interface.py).
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(constant_id = 0) const int LOCAL_X = 64;
layout(constant_id = 1) const int LOCAL_Y = 1;
layout(constant_id = 2) const int LOCAL_Z = 1;
#define SPEC(id, name, initial) layout(constant_id = id) const int name = initial;

// 32 parameters of 32 bits: P(n) as uint, PI(n) as int, PF(n) as float. A PARAMETER's name is a variable, which ENTER
// fills with one: drivers of processors compile a load outside of all branches to one, and one in a branch to a gather.
layout(push_constant) uniform pco_parameters { uint p[32]; } pco_push;
#define P(n) pco_push.p[n]
#define PI(n) int(pco_push.p[n])
#define PF(n) uintBitsToFloat(pco_push.p[n])

// Buffers are arrays of 32-bit words: embed.py makes BUFFERS(use) of the BUFFER lines, with use(access, slot, name) for
// each. A kernel file names its shared arrays in a macro, and its body begins with ENTER:
//   #define SHARED_ARRAYS SHARED(float, tile, 256)
//   KERNEL(name) { ENTER ... }
#define RO(slot, name) layout(std430, set = 0, binding = slot) readonly buffer name##_block { uint name[]; };
#define RW(slot, name) layout(std430, set = 0, binding = slot) buffer name##_block { uint name[]; };
// The same binding seen as 4-word vectors (16-byte aligned), for kernels compiled with wide loads.
#define RO4(slot, name)                                                                                      \
    layout(std430, set = 0, binding = slot) readonly buffer name##_block4                                    \
    {                                                                                                        \
        uvec4 name[];                                                                                        \
    };
#define RW4(slot, name) layout(std430, set = 0, binding = slot) buffer name##_block4 { uvec4 name[]; };

#define BINDING(access, slot, name) access(slot, name)
#define SHARED(type, name, count) shared type name[count];
#define KERNEL(name) BUFFERS(BINDING) SHARED_ARRAYS void main()
#define ENTER LOAD_PARAMETERS

#define GLOBAL_ID(d) gl_GlobalInvocationID[d]
#define GROUP_ID(d) gl_WorkGroupID[d]
#define LOCAL_ID(d) gl_LocalInvocationID[d]
#define NUM_GROUPS(d) gl_NumWorkGroups[d]
// Number of the workgroup in a grid that gpu/ folded into three dimensions. There may be more groups than
// work.
#define LINEAR_GROUP() (GROUP_ID(0) + NUM_GROUPS(0) * (GROUP_ID(1) + NUM_GROUPS(1) * GROUP_ID(2)))
// Signed, for index arithmetic: the compiler may assume that it does not wrap and join neighbours' accesses.
#define GROUP() TO_INT(LINEAR_GROUP())
#define LANE_X() TO_INT(LOCAL_ID(0))
#define LANE_Y() TO_INT(LOCAL_ID(1))
#define BARRIER() barrier()
#define UNROLL [[unroll]]
#define UNROLL_MANY UNROLL
#define ROLLED [[dont_unroll]]
#define NOT_UNROLLED ROLLED
#define FUNCTION

#define float2 vec2
#define float4 vec4
#define int4 ivec4
#define uint2 uvec2
#define uint4 uvec4
#define MAKE4(a, b, c, d) vec4(a, b, c, d)
#define MAKE2(a, b) vec2(a, b)
#define MAKE_UINT4(a, b, c, d) uvec4(a, b, c, d)
#define AS_FLOAT(u) uintBitsToFloat(u)
#define AS_FLOAT4(u) uintBitsToFloat(u)
#define AS_UINT(f) floatBitsToUint(f)
#define AS_UINT4(f) floatBitsToUint(f)
#define AS_INT(u) int(u)
#define TO_INT(x) int(x)
#define TO_UINT(x) uint(x)
#define TO_FLOAT(x) float(x)
#define MAD(a, b, c) fma(a, b, c)
#define PRECISE precise
#define SQRT(x) sqrt(x)
#define RSQRT(x) inversesqrt(x)
// RINT: to the nearest integer, ties to even.
#define FLOOR(x) floor(x)
#define RINT(x) roundEven(x)
// The same for |x| below 2^22.
#define SMALL_RINT(x) roundEven(x)
#define FABS(x) abs(x)
#define FMAX(a, b) max(a, b)
#define FMIN(a, b) min(a, b)
#define ATOMIC_AND(name, i, v) atomicAnd(name[i], v)
#define ATOMIC_OR(name, i, v) atomicOr(name[i], v)

// The 64-bit product of two words: its high word.
uint pco_mul_hi(uint a, uint b)
{
    uint hi, lo;
    umulExtended(a, b, hi, lo);
    return hi;
}
#define MUL_HI(a, b) pco_mul_hi(a, b)

// f16 in the low or high half of a word.
#define HALF_LO(word) unpackHalf2x16(word).x
#define HALF_HI(word) unpackHalf2x16(word).y
// The numbers in one word or two, as float4: f16, bf16, signed bytes, the low nibbles of four bytes less 8.
#define HALVES4(low, high) vec4(unpackHalf2x16(low), unpackHalf2x16(high))
#define BFLOATS4(low, high) uintBitsToFloat(uvec4((low) << 16, (low) & 0xffff0000u, (high) << 16, (high) & 0xffff0000u))
#define BYTES4(word) vec4(ivec4(uvec4(word) << uvec4(24u, 16u, 8u, 0u)) >> 24)
#define NIBBLES4(word) vec4(ivec4((uvec4(word) >> uvec4(0u, 8u, 16u, 24u)) & 15u) - 8)

// With -DSUBGROUPS (rows that need PCO_GPU_NEEDS_SUBGROUPS; Vulkan only): of any width.
#ifdef SUBGROUPS
#define SUBGROUP_ADD(x) subgroupAdd(x)
#define SUBGROUP_MAX(x) subgroupMax(x)
#define SUBGROUP_MIN(x) subgroupMin(x)
#define SUBGROUP_ELECT() subgroupElect()
#define SUBGROUP_ID() gl_SubgroupID
#define NUM_SUBGROUPS() gl_NumSubgroups
#endif

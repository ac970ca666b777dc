// The dialect, OpenCL side: what a .kern file may use, in OpenCL C 1.2. Its twin is dialect.glsl.
// Specialisation constants arrive as -DS0=64 -DS1=1 ...; a program holds one kernel, called pco_main.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wconstant-logical-operand" // specialisation constants are known in advance
#endif
#define LOCAL_X S0
#define LOCAL_Y S1
#define LOCAL_Z S2
#define SPEC(id, name, initial) enum { name = S##id };

// Parameters come in two uint16 kernel arguments.
#define P_0 pco_p0.s0
#define P_1 pco_p0.s1
#define P_2 pco_p0.s2
#define P_3 pco_p0.s3
#define P_4 pco_p0.s4
#define P_5 pco_p0.s5
#define P_6 pco_p0.s6
#define P_7 pco_p0.s7
#define P_8 pco_p0.s8
#define P_9 pco_p0.s9
#define P_10 pco_p0.sa
#define P_11 pco_p0.sb
#define P_12 pco_p0.sc
#define P_13 pco_p0.sd
#define P_14 pco_p0.se
#define P_15 pco_p0.sf
#define P_16 pco_p1.s0
#define P_17 pco_p1.s1
#define P_18 pco_p1.s2
#define P_19 pco_p1.s3
#define P_20 pco_p1.s4
#define P_21 pco_p1.s5
#define P_22 pco_p1.s6
#define P_23 pco_p1.s7
#define P_24 pco_p1.s8
#define P_25 pco_p1.s9
#define P_26 pco_p1.sa
#define P_27 pco_p1.sb
#define P_28 pco_p1.sc
#define P_29 pco_p1.sd
#define P_30 pco_p1.se
#define P_31 pco_p1.sf
#define P(n) P_##n
#define PI(n) as_int(P_##n)
#define PF(n) as_float(P_##n)

// Whole buffers are bound. Where in each the kernel's window begins comes beside them, in units of 16 bytes: NVIDIA's
// driver crashes when sub-buffers are released. Where SUB_BUFFERS is set, they are bound instead: see record.c.
#ifdef SUB_BUFFERS
#define WINDOW_AT(slot) 0
#else
#define WINDOW_AT(slot) pco_at.s##slot
#endif
#define RO __global const uint *
#define RW __global uint *
#define RO4 __global const uint4 *
#define RW4 __global uint4 *
#define BOUND(access, slot, name) access pco_bound_##slot,
#define WINDOW(access, slot, name) access name = (access)((__global uint4 *)pco_bound_##slot + WINDOW_AT(slot));
#define SHARED(type, name, count) __local type name[count];
#define KERNEL(name) \
    __attribute__((reqd_work_group_size(S0, S1, S2))) \
    __kernel void pco_main(BUFFERS(BOUND) const uint8 pco_at, const uint16 pco_p0, const uint16 pco_p1)
#define ENTER SHARED_ARRAYS BUFFERS(WINDOW) (void)pco_p0; (void)pco_p1;

#define GLOBAL_ID(d) ((uint)get_global_id(d))
#define GROUP_ID(d) ((uint)get_group_id(d))
#define LOCAL_ID(d) ((uint)get_local_id(d))
#define NUM_GROUPS(d) ((uint)get_num_groups(d))
#define LINEAR_GROUP() (GROUP_ID(0) + NUM_GROUPS(0) * (GROUP_ID(1) + NUM_GROUPS(1) * GROUP_ID(2)))
// Signed, for index arithmetic: the compiler may assume that it does not wrap and join neighbours' accesses.
#define GROUP() TO_INT(LINEAR_GROUP())
#define LANE_X() TO_INT(LOCAL_ID(0))
#define LANE_Y() TO_INT(LOCAL_ID(1))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define UNROLL _Pragma("unroll")
// Where Intel's compiler unrolls all of many terms, it has too few registers on Arc.
#ifdef cl_intel_subgroups
#define UNROLL_MANY _Pragma("unroll 8")
#else
#define UNROLL_MANY UNROLL
#endif
#define ROLLED // a loop that gains nothing by being unrolled; the compilers of OpenCL decide for themselves
#define NOT_UNROLLED _Pragma("nounroll") // one whose reads of shared memory would then stay in registers, too many
#define FUNCTION static inline __attribute__((unused))

#define MAKE4(a, b, c, d) (float4)(a, b, c, d)
#define MAKE2(a, b) (float2)(a, b)
#define MAKE_UINT4(a, b, c, d) (uint4)(a, b, c, d)
#define AS_FLOAT(u) as_float(u)
#define AS_FLOAT4(u) as_float4(u)
#define AS_UINT(f) as_uint(f)
#define AS_UINT4(f) as_uint4(f)
#define AS_INT(u) as_int(u)
#define TO_INT(x) ((int)(x))
#define TO_UINT(x) ((uint)(x))
#define TO_FLOAT(x) ((float)(x))
#define MAD(a, b, c) fma(a, b, c)
#define PRECISE
#define SQRT(x) sqrt(x)
#define RSQRT(x) (1.0f / sqrt(x))
#define FLOOR(x) floor(x)
#define RINT(x) rint(x)
// The same for |x| below 2^22: beyond 2^23 a float has no fraction. PoCL emulates rint at length in vectors. The full
// profile rounds sums to nearest (OpenCL 1.2, 7.4); the embedded one may not.
#ifdef __EMBEDDED_PROFILE__
#define SMALL_RINT(x) rint(x)
#else
#define SMALL_RINT(x) (((x) + 12582912.0f) - 12582912.0f)
#endif
#define FABS(x) fabs(x)
#define FMAX(a, b) fmax(a, b)
#define FMIN(a, b) fmin(a, b)
#define ATOMIC_AND(name, i, v) atomic_and(&name[i], v)
#define ATOMIC_OR(name, i, v) atomic_or(&name[i], v)
#define MUL_HI(a, b) mul_hi(a, b)

// Elements that an invocation with a row of its own takes at once. Here only: SwiftShader takes minutes to compile such
// loops.
#define ROW_BLOCK 8

// Rows that need PCO_GPU_NEEDS_VECTOR_16 (OpenCL only): sixteen elements from element i on.
#define LOAD16(name, type, i) \
    ((type) == F32   ? vload16(0, (__global const float *)(name) + (i)) \
     : (type) == F16 ? vload_half16(0, (__global const half *)(name) + (i)) \
                     : as_float16(convert_uint16(vload16(0, (__global const ushort *)(name) + (i))) << 16u))

// One f16; sixteen signed bytes, or the low or high nibbles of 16 bytes less 8: element or byte i and those behind it.
#define LOAD_HALF(name, i) vload_half(i, (__global const half *)(name))
#define BYTES16(name, i) convert_float16(vload16(0, (__global const char *)(name) + (i)))
#define LOW16(name, i) convert_float16((vload16(0, (__global const char *)(name) + (i)) & (char16)(15)) - (char16)(8))
#define HIGH16(name, i) \
    convert_float16(as_char16(vload16(0, (__global const uchar *)(name) + (i)) >> (uchar16)(4)) - (char16)(8))

// f16 in the low or high half of a word, and the numbers in one word or two, as float4: f16, bf16, signed bytes, the
// low nibbles of four bytes less 8. VECTOR_16 comes from the plugin. A compiler that knows no halves may leave words
// behind a pointer in memory, which is slower than arithmetic.
#if defined(VECTOR_16) || defined(cl_khr_fp16)
FUNCTION float pco_half(uint bits)
{
    ushort word = (ushort)bits;
    return vload_half(0, (const half *)&word);
}
FUNCTION float4 pco_halves(uint low, uint high)
{
    uint2 words = (uint2)(low, high);
    return vload_half4(0, (const half *)&words);
}
#define HALF_LO(word) pco_half((word) & 0xffffu)
#define HALF_HI(word) pco_half((word) >> 16)
#define BYTES4(word) convert_float4(as_char4(word))
#define NIBBLES4(word) convert_float4(as_char4((word) & 0x0f0f0f0fu) - (char4)(8))
#else
FUNCTION float4 pco_halves(uint low, uint high)
{
    const uint4 h = (uint4)(low & 0xffffu, low >> 16, high & 0xffffu, high >> 16), m = h & 0x7fffu;
    const uint4 bits = (m << 13u) + select((uint4)(0x38000000u), (uint4)(0x70000000u), m >= 0x7c00u);
    const uint4 small = as_uint4(convert_float4(m) * 5.9604644775390625e-8f);
    return as_float4(select(bits, small, m < 0x400u) | ((h & 0x8000u) << 16u));
}
#define HALF_LO(word) pco_halves(word, 0u).x
#define HALF_HI(word) pco_halves(word, 0u).y
#define BYTES4(word) convert_float4(as_int4((uint4)(word) << (uint4)(24u, 16u, 8u, 0u)) >> 24)
#define NIBBLES4(word) convert_float4(as_int4(((uint4)(word) >> (uint4)(0u, 8u, 16u, 24u)) & 15u) - 8)
#endif
#define HALVES4(low, high) pco_halves(low, high)
#define BFLOATS4(low, high) as_float4(convert_uint4(as_ushort4((uint2)(low, high))) << 16u)

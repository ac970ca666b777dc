// The dialect's part for rows that need COOPERATIVE_MATRIX, Vulkan only: matrices that a subgroup holds together, of f16
// and, for sums, of f32. MATRIX_M, MATRIX_N and MATRIX_K are constants of the kernel. `at`, and `step` from one line in
// memory to the next, count elements of the array, of 16 bytes; a line is a row, or a column (ACROSS).
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define SUBGROUP_ID() gl_SubgroupID
#define SUBGROUP_LANE() gl_SubgroupInvocationID
#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#define MATRIX_SUMS coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define MATRIX_LOAD(matrix, array, at, step) \
    coopMatLoad(matrix, array, TO_UINT(at), TO_UINT(step), gl_CooperativeMatrixLayoutRowMajor)
#define MATRIX_LOAD_ACROSS(matrix, array, at, step) \
    coopMatLoad(matrix, array, TO_UINT(at), TO_UINT(step), gl_CooperativeMatrixLayoutColumnMajor)
#define MATRIX_STORE(matrix, array, at, step) \
    coopMatStore(matrix, array, TO_UINT(at), TO_UINT(step), gl_CooperativeMatrixLayoutRowMajor)
#define MATRIX_MULTIPLY(a, b, sums) coopMatMulAdd(a, b, sums)
// Two floats as f16; how they are rounded is the device's choice, where they are none.
#define PACK_HALVES(two) packHalf2x16(two)

// Each of 32 work-items has eight rows, of which those below n are there. It clamps them, and after a barrier stores
// whether its first row is there: the eight comparisons are one vector, of which one is used again.
__attribute__((reqd_work_group_size(32, 1, 1)))
__kernel void rows(__global int *clamped, __global int *there, int n)
{
    const int item = (int)get_global_id(0);
    const int8 row = 8 * item + (int8)(0, 1, 2, 3, 4, 5, 6, 7), inside = row < n;
    vstore8(select((int8)(n - 1), row, inside), item, clamped);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (inside.s0) there[item] = 1;
}

// The dialect's part for rows that need COOPERATIVE_MATRIX2 beside COOPERATIVE_MATRIX: functions over the elements of a
// matrix, over those of a row or a column, and a matrix of sums as one of f16 that is multiplied. Such functions are
// given an element's row and column, the element, and what else they are called with, of other matrices theirs.
#extension GL_NV_cooperative_matrix2 : require
#define MATRIX_MAP coopMatPerElementNV
// In each place what the function makes of the row or the column; the order of it is the device's.
#define MATRIX_OVER_ROW(result, matrix, function) \
    coopMatReduceNV(result, matrix, gl_CooperativeMatrixReduceRowNV, function)
#define MATRIX_OVER_COLUMN(result, matrix, function) \
    coopMatReduceNV(result, matrix, gl_CooperativeMatrixReduceColumnNV, function)

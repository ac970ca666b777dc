// The dialect's part for rows that need INTEGER_DOT: sum + the products of the bytes of two words, four signed ones each.
// With BYTES, which comes from the plugin, the device has cl_khr_integer_dot_product and this is OpenCL C 3.0: compilers
// know its functions where devices do not. Processors multiply without.
#ifdef BYTES
#define DOT4(a, b, sum) ((sum) + dot_4x8packed_ss_int(a, b))
#else
FUNCTION int pco_dot_bytes(uint a, uint b)
{
    const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
    return (products.x + products.y) + (products.z + products.w);
}
#define DOT4(a, b, sum) ((sum) + pco_dot_bytes(a, b))
#endif

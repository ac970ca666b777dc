#include <string.h>

#include "api/stop.h"
#include "base/philox.h"
#include "check.h"

/* What comes out of `text` in pieces of `step` bytes, into out (NUL-terminated); 1: a stop string ended it. */
static int through(const char *const *strings, size_t count, const char *text, size_t step, char *out)
{
    api_stop stop = {strings, count, {0}};
    size_t size = 0, length = strlen(text);
    int found = 0;
    for (size_t at = 0; at < length && !found; at += step) {
        const size_t bytes = length - at < step ? length - at : step,
                     sure = api_stop_add(&stop, text + at, bytes, &found);
        assert_int_equal(stop.held.status, PCO_OK);
        if (sure) memcpy(out + size, stop.held.data, sure);
        size += sure;
        api_stop_given(&stop, sure);
    }
    if (!found && stop.held.size) {
        memcpy(out + size, stop.held.data, stop.held.size);
        size += stop.held.size;
    }
    out[size] = 0;
    pco_writer_release(&stop.held);
    return found;
}

/* Byte by byte: up to the first end of a stop string; of several that end there, before the longest. */
static size_t expected(const char *const *strings, size_t count, const char *text)
{
    for (size_t end = 1; end <= strlen(text); end++)
        for (size_t begin = 0; begin < end; begin++)
            for (size_t i = 0; i < count; i++)
                if (strlen(strings[i]) == end - begin && memcmp(text + begin, strings[i], end - begin) == 0)
                    return begin;
    return strlen(text);
}

static void characters_in_parts(void **state)
{
    (void)state;
    const char *const strings[] = {"\xE2\x82\xAC", "end"}; /* the euro sign; another one shares two of its bytes */
    char out[64];
    for (size_t step = 1; step < 12; step++) {
        assert_int_equal(through(strings, 2, "5 \xE2\x82\xAB, 6 \xE2\x82\xAC, 7", step, out), 1);
        assert_string_equal(out, "5 \xE2\x82\xAB, 6 ");
        assert_int_equal(through(strings, 2, "en \xE2\x82", step, out), 0);
        assert_string_equal(out, "en \xE2\x82");
    }
}

/* 4,000 texts of a and b, with three stop strings of one to four: overlaps and false beginnings abound. */
static void as_searched(void **state)
{
    (void)state;
    int ended = 0;
    for (uint32_t n = 0; n < 4000; n++) {
        const pco_philox bits = pco_philox4x32_10((pco_philox){{n, 0, 0, 0}}, 17);
        char strings[3][5] = {{0}}, text[33] = {0}, out[33];
        const char *const list[] = {strings[0], strings[1], strings[2]};
        for (int i = 0; i < 32; i++) text[i] = (char)('a' + (bits.word[0] >> i & 1));
        for (int k = 0; k < 3; k++)
            for (uint32_t i = 0; i <= (bits.word[1] >> (2 * k) & 3); i++)
                strings[k][i] = (char)('a' + (bits.word[2] >> (4 * (uint32_t)k + i) & 1));
        const size_t keep = expected(list, 3, text);
        assert_int_equal(through(list, 3, text, 1, out), keep < 32);
        ended += keep < 32;
        if (strlen(out) != keep || memcmp(out, text, keep) != 0)
            fail_msg("text %s without %s, %s, %s: %s, not %zu bytes", text, list[0], list[1], list[2], out, keep);
        const char *const one[] = {list[0]}; /* of one string the pieces make no difference */
        const char *first = strstr(text, one[0]);
        for (size_t step = 1; step < 8; step++) {
            assert_int_equal(through(one, 1, text, step, out), first != NULL);
            assert_int_equal(strlen(out), first ? (size_t)(first - text) : 32);
        }
    }
    assert_true(ended > 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_in_parts),
        cmocka_unit_test(as_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

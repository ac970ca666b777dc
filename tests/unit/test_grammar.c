/* GBNF grammars: which texts they allow, byte by byte; what is wrong with those that are refused; bounds. */
#include "check.h"

#include "text/grammar.h"

#include <stdlib.h>
#include <time.h>

static const char *folder;

static pco_grammar *parse(const char *text)
{
    pco_grammar *grammar;
    check_ok(pco_grammar_parse(text, strlen(text), "g", &grammar, &err));
    return grammar;
}

/* How many bytes of it are allowed; *complete: and may it end there? */
static size_t follow(const pco_grammar *grammar, const char *text, size_t size, int *complete)
{
    pco_grammar_text *t;
    int allowed = 1;
    check_ok(pco_grammar_begin(grammar, &t, &err));
    for (size_t i = 0; i < size && allowed; i++) check_ok(pco_grammar_push(t, (unsigned char)text[i], &allowed, &err));
    const size_t followed = pco_grammar_size(t);
    *complete = pco_grammar_complete(t);
    for (size_t i = followed; i-- > 0;) { /* cut, and the same again */
        pco_grammar_cut(t, i);
        check_ok(pco_grammar_push(t, (unsigned char)text[i], &allowed, &err));
        assert_true(allowed);
        pco_grammar_cut(t, i);
    }
    pco_grammar_end(t);
    return followed;
}

/* `stop`: the first byte that is not allowed, or -1 for a whole text, -2 for the beginning of one. */
static void check_text(const char *grammar, const char *text, long stop)
{
    pco_grammar *g = parse(grammar);
    int complete;
    const size_t size = strlen(text), followed = follow(g, text, size, &complete);
    if (followed != (stop < 0 ? size : (size_t)stop) || (stop < 0 && complete != (stop == -1)))
        fail_msg("%s: '%s' is followed for %zu bytes, complete %d", grammar, text, followed, complete);
    pco_grammar_destroy(g);
}

static void test_texts(void **state)
{
    (void)state;
    check_text("root ::= \"ab\" | \"ac\"", "ac", -1);
    check_text("root ::= \"ab\" | \"ac\"", "a", -2);
    check_text("root ::= \"ab\" | \"ac\"", "ad", 1);
    check_text("root ::= \"ab\"", "abc", 2);
    check_text("root ::= [a-c]* \"d\"", "abcabcd", -1);
    check_text("root ::= [a-c]+ \"d\"", "d", 0);
    check_text("root ::= [a-c]? \"d\"", "d", -1);
    check_text("root ::= [^a-c\\n]{2}", "xy", -1);
    check_text("root ::= [^a-c\\n]{2}", "xa", 1);
    check_text("root ::= \"x\"{2,3}", "xxxx", 3);
    check_text("root ::= \"x\"{2,3}", "x", -2);
    check_text("root ::= \"x\"{2,}", "xxxxxxx", -1);
    check_text("root ::= (\"a\" | b \"c\") # why\nb ::= [0-9] |\n  \"z\"", "zc", -1);
    check_text("root ::= (\n \"a\"\n \"b\"\n)+", "abab", -1);
    check_text("root ::= \"\\x41\\u00e9\\U0001F600\\\"\\\\\"", "A\u00e9\U0001F600\"\\", -1);
    check_text("root ::= .", "\u00e9", -1);
    check_text("root ::= [\u3042-\u3096]", "\u3050", -1);
    check_text("root ::= [\u3042-\u3096]", "\u30a2", 2);              /* U+3080 to 30BF begin so, and some are in */
    check_text("root ::= [^\\x00-\\U0010FFFF] | \"k\"", "\u00e9", 0); /* a class of nothing */
    check_text("root ::= .", "\xc0\x80", 0);
    check_text("root ::= .", "\xed\xa0\x80", 1); /* a surrogate */
    check_text("root ::= .", "\xf4\x90\x80\x80", 1);
    check_text("root ::= a\na ::= a \"x\" | \"\"", "xxx", -1);                     /* recurs on the left */
    check_text("root ::= a\na ::= \"x\" a | \"\"", "xxx", -1);                     /* on the right */
    check_text("root ::= a\na ::= a a | \"x\" | \"\"", "xxxxxxx", -1);             /* in the middle of nothing */
    check_text("root ::= a b a\na ::= b | \"\"\nb ::= \"\" | a | \"y\"", "y", -1); /* hidden left recursion */
    check_text("root ::= e e \"q\"\ne ::= f\nf ::= \"\"", "q", -1);
    check_text("root ::= \"\"*  \"q\"", "q", -1);
    check_text("root ::= (\"a\"?)* \"q\"", "aaq", -1);
}

static void test_json(void **state)
{
    static char text[4096];
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/json.gbnf", folder);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = 0;
    fclose(in);
    check_text(text, "{\"a\": [1, -2.5e3, true, null, {}], \"\u00e9\\n\": \"\\u00e9\"}", -1);
    check_text(text, "[1, 2", -2);
    check_text(text, "[1,, 2]", 3);
    check_text(text, "{\"a\" 1}", 5);
    check_text(text, "01", 1);
    check_text(text, "\"\n\"", 1);
}

/* Texts that a schema allows, whole, and where one is not (stop as in check_text). */
static void check_schema(const char *schema, const char *text, long stop)
{
    pco_grammar *g;
    int complete;
    check_ok(pco_grammar_of_schema(schema, strlen(schema), "schema", &g, &err));
    const size_t size = strlen(text), followed = follow(g, text, size, &complete);
    if (followed != (stop < 0 ? size : (size_t)stop) || (stop < 0 && complete != (stop == -1)))
        fail_msg("%s: '%s' is followed for %zu bytes, complete %d", schema, text, followed, complete);
    pco_grammar_destroy(g);
}

static void test_schema(void **state)
{
    static const char person[] =
        "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 5}, \"age\": "
        "{\"type\": "
        "\"integer\"}, \"tags\": {\"type\": \"array\", \"items\": {\"enum\": [\"a\\\"b\", 2, null]}, \"minItems\": 1, "
        "\"maxItems\": 2}}, \"required\": [\"name\", \"tags\"], \"additionalProperties\": false}";
    static const char tree[] =
        "{\"$ref\": \"#/$defs/node\", \"$defs\": {\"node\": {\"type\": \"object\", \"properties\": "
        "{\"v\": {\"type\": [\"number\", \"null\"]}, \"next\": {\"anyOf\": [{\"$ref\": "
        "\"#/$defs/node\"}, {\"const\": false}]}}}}}";
    pco_grammar *g;
    (void)state;
    check_schema(person, "{\"name\": \"Ann\", \"age\": 7, \"tags\": [2, null]}", -1);
    check_schema(person, "{\"name\":\"Ann\",\"tags\":[\"a\\\"b\"]}", -1);
    check_schema(person, "{\"age\"", 2);
    check_schema(person, "{\"name\":\"Annabe\"", 14);
    check_schema(person, "{\"name\":\"A\",\"tags\":[]", 20);
    check_schema(person, "{\"name\":\"A\",\"tags\":[2,2,", 23);
    check_schema(person, "{\"name\":\"A\"}", 11);
    check_schema(tree, "{\"v\": -1.5e3, \"next\": {\"next\": false}}", -1);
    check_schema(tree, "{}", -1);
    check_schema(tree, "{\"v\": \"", 6);
    check_schema("true", "[1, {\"x\": null}]", -1);
    check_schema("{\"type\": \"object\", \"additionalProperties\": {\"type\": \"boolean\"}}", "{\"q\": true, \"r\": 1",
                 17);
    static const char *const refused[][2] = {
        {"{\"type\": \"integer\", \"minimum\": 3}", "'minimum'"},
        {"{\"type\": \"strnig\"}", "'strnig'"},
        {"{\"$ref\": \"#/$defs/x\"}", "leads nowhere"},
        {"{\"type\": \"object\", \"properties\": {}, \"required\": [\"a\"]}", "'a'"},
        {"{\"enum\": []}", "1 to 256"},
        {"false", "'false'"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_fails(pco_grammar_of_schema(refused[i][0], strlen(refused[i][0]), "schema", &g, &err),
                    PCO_ERROR_UNSUPPORTED, refused[i][1]);
}

static void check_refused(const char *text, const char *why)
{
    pco_grammar *grammar;
    check_fails(pco_grammar_parse(text, strlen(text), "g.gbnf", &grammar, &err), PCO_ERROR_FORMAT, why);
    assert_null(grammar);
}

static void test_refused(void **state)
{
    static char deep[2000];
    (void)state;
    check_refused("", "no rule 'root'");
    check_refused("a ::= \"x\"", "no rule 'root'");
    check_refused("root ::= \"x\"\n\nroot ::= \"y\"", "line 3: this rule was defined before");
    check_refused("root ::= \"x\" b\n", "line 1: the rule 'b' is not defined");
    check_refused("root ::= \"x", "does not end");
    check_refused("root ::= [a", "does not end");
    check_refused("root ::= [z-a]", "ends before it begins");
    check_refused("root ::= \"\\q\"", "an escape is none of");
    check_refused("root ::= \"\\u12\"", "hexadecimal");
    check_refused("root ::= \"\\U00110000\"", "U+10FFFF");
    check_refused("root ::= (\"a\"", "lacks its ')'");
    check_refused("root ::= \"a\" )", "no literal");
    check_refused("root ::= \"a\"{3,1}", "less at most");
    check_refused("root ::= \"a\"{1", "lacks its '}'");
    check_refused("root ::= \"a\"{99999999999}", "more than 1000");
    check_refused(
        "root ::= ((\"a\"{1000}){1000}){1000} (((\"bcd\"{1000} \"b\"{1000}){2} \"c\"{1000}){9}){999} \"d\"{999}"
        "\"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000}"
        "\"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000} \"e\"{1000}",
        "too large");
    check_refused("root = \"a\"", "a rule is 'name ::= ...'");
    check_refused("root ::= \"\xff\"", "no UTF-8");
    memset(deep, '(', sizeof deep - 1);
    memcpy(deep, "root ::= ", 9);
    check_refused(deep, "nested too deeply");
}

/* Grammars that blow up elsewhere: time and memory are bounded, and the text is followed or refused in one line. */
static void test_bounds(void **state)
{
    static const char *const grammars[] = {
        "root ::= a\na ::= a a | a a a | \"x\" | \"\"", "root ::= ((((\"x\"*)*)*)*)*",
        "root ::= (\"x\" | \"x\" \"x\" | [a-z] [a-z] [a-z])*", "root ::= \"x\"{0,1000} \"x\"{0,1000} \"x\"{0,1000}",
        "root ::= a\na ::= \"x\" a \"y\" | \"x\" a \"z\" | \"x\" a | \"\""};
    (void)state;
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        pco_grammar *grammar = parse(grammars[i]);
        pco_grammar_text *text;
        pco_error why = {""};
        const clock_t begin = clock();
        pco_status status = PCO_OK;
        int allowed = 1;
        check_ok(pco_grammar_begin(grammar, &text, &err));
        for (int k = 0; k < 300 && !status; k++) {
            status = pco_grammar_push(text, 'x', &allowed, &why);
            assert_true(status || allowed);
        }
        if (status && !strstr(why.message, "leaves too much open")) fail_msg("%s", why.message);
        /* Of the processor, whatever else the machine does. qemu takes 200 times as long over the first: 18 s, not
         * 0.09. */
        const double took = (double)(clock() - begin) / CLOCKS_PER_SEC, most = getenv("MESON_EXE_WRAPPER") ? 200 : 20;
        if (took > most) fail_msg("%s takes %.1f s", grammars[i], took);
        print_message("  %.3f s%s  %s\n", took, status ? ", refused" : "", grammars[i]);
        pco_grammar_end(text);
        pco_grammar_destroy(grammar);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_json),
                                       cmocka_unit_test(test_schema), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_bounds)};
    if (argc != 2) return 2;
    folder = argv[1];
    return cmocka_run_group_tests_name("grammar", tests, NULL, NULL);
}

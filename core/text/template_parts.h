/* Shared by the template files only: tokens, the tree, values, and a rendering under way. */
#ifndef PCO_TEXT_TEMPLATE_PARTS_H
#define PCO_TEXT_TEMPLATE_PARTS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/writer.h"
#include "text/template.h"

#include <string.h>

/* Bytes of text, without a NUL. */
typedef struct tpl_text {
    const char *data;
    size_t size;
} tpl_text;

#define TPL_TEXT(literal) ((tpl_text){literal, sizeof(literal) - 1})
static inline int tpl_is(tpl_text text, const char *word)
{
    return strlen(word) == text.size && memcmp(text.data, word, text.size) == 0;
}
static inline int tpl_same(tpl_text a, tpl_text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}
/* For "%.*s" of a message. */
#define TPL_SHOW(text) (int)((text).size < 80 ? (text).size : 80), (text).data

/* ---- tokens ---- */

typedef enum tpl_token_kind {
    TPL_TOKEN_DATA,
    TPL_TOKEN_BLOCK,        /* {% */
    TPL_TOKEN_BLOCK_END,    /* %} */
    TPL_TOKEN_VARIABLE,     /* {{ */
    TPL_TOKEN_VARIABLE_END, /* }} */
    TPL_TOKEN_NAME,
    TPL_TOKEN_STRING, /* `text` without quotes and escapes */
    TPL_TOKEN_INTEGER,
    TPL_TOKEN_FLOAT,
    TPL_TOKEN_OPERATOR,
    TPL_TOKEN_END,
} tpl_token_kind;

typedef struct tpl_token {
    const struct tpl_token *next; /* of END: itself */
    tpl_token_kind kind;
    uint32_t line;
    tpl_text text;
    union {
        int64_t integer;
        double number;
    };
} tpl_token;

/* ---- values ---- */

typedef enum tpl_kind {
    TPL_UNDEFINED, /* `text` is the name that is not there */
    TPL_NONE,
    TPL_BOOL,
    TPL_INT,
    TPL_FLOAT,
    TPL_STRING,
    TPL_LIST,
    TPL_TUPLE,
    TPL_LAZY, /* what Python makes as it is gone through: `list`. A generator: once; a view (safe): again and again */
    TPL_DICT,
    TPL_NAMESPACE,
    TPL_LOOP,
    TPL_MACRO,
    TPL_FUNCTION, /* `text` is its name */
    TPL_METHOD,   /* of a value */
} tpl_kind;

typedef struct tpl_value tpl_value;
typedef struct tpl_node tpl_node;
typedef struct tpl_scope tpl_scope;

typedef struct tpl_list {
    tpl_value *items;
    size_t count, capacity;
} tpl_list;

typedef struct tpl_pair tpl_pair;
/* Keys are strings, numbers, booleans or none; in the order in which they came. */
typedef struct tpl_dict {
    tpl_pair *pairs;
    size_t count, capacity;
} tpl_dict;

typedef struct tpl_loop {
    const tpl_list *items;
    size_t index, depth; /* depth: of recursive loops, which there are none of: 1 */
} tpl_loop;

typedef struct tpl_macro {
    const tpl_node *node;
    tpl_scope *scope; /* where it was defined */
} tpl_macro;

typedef struct tpl_method tpl_method;

struct tpl_value {
    tpl_kind kind;
    int safe; /* STRING: what the filter `safe` made; LAZY: a view */
    union {
        int64_t integer; /* BOOL, INT */
        double number;
        tpl_text text;
        tpl_list *list;
        tpl_dict *dict;
        tpl_loop *loop;
        tpl_macro *macro;
        tpl_method *method;
    };
};

struct tpl_pair {
    tpl_value key, value;
};

struct tpl_method {
    tpl_value self;
    tpl_text name;
};

static inline tpl_value tpl_none(void) { return (tpl_value){.kind = TPL_NONE}; }
static inline tpl_value tpl_bool(int b) { return (tpl_value){.kind = TPL_BOOL, .integer = b != 0}; }
static inline tpl_value tpl_int(int64_t i) { return (tpl_value){.kind = TPL_INT, .integer = i}; }
static inline tpl_value tpl_float(double number) { return (tpl_value){.kind = TPL_FLOAT, .number = number}; }
static inline tpl_value tpl_string(tpl_text text) { return (tpl_value){.kind = TPL_STRING, .text = text}; }
static inline tpl_value tpl_undefined(tpl_text name) { return (tpl_value){.kind = TPL_UNDEFINED, .text = name}; }
static inline int tpl_is_whole(const tpl_value *v) { return v->kind == TPL_INT || v->kind == TPL_BOOL; }
static inline int tpl_is_number(const tpl_value *v) { return tpl_is_whole(v) || v->kind == TPL_FLOAT; }
static inline int tpl_is_sequence(const tpl_value *v) { return v->kind == TPL_LIST || v->kind == TPL_TUPLE; }
static inline double tpl_number(const tpl_value *v) { return v->kind == TPL_FLOAT ? v->number : (double)v->integer; }

/* ---- the tree ---- */

typedef enum tpl_node_kind {
    /* expressions */
    TPL_CONSTANT,  /* value */
    TPL_NAME,      /* name */
    TPL_ITEMS,     /* value.kind: LIST or TUPLE; items */
    TPL_PAIRS,     /* items: key, value, key, value ... */
    TPL_ATTRIBUTE, /* a.name */
    TPL_ITEM,      /* a[b] */
    TPL_SLICE,     /* a[items: start, stop, step], each of which may be a CONSTANT none */
    TPL_CALL,      /* a(items); named ones have a name */
    TPL_FILTER,    /* a | name(items); a NULL: of a block */
    TPL_TEST,      /* a is name(items) */
    TPL_UNARY,     /* sign, a: "not", "-", "+" */
    TPL_AND,
    TPL_OR,
    TPL_BINARY,  /* a sign b */
    TPL_CONCAT,  /* items ~ ... */
    TPL_COMPARE, /* a sign b, then each item with its sign ... */
    TPL_CHOICE,  /* a if b else c, which may be NULL */
    /* statements */
    TPL_DATA,         /* name: the text */
    TPL_OUTPUT,       /* a */
    TPL_IF,           /* a, body, otherwise */
    TPL_FOR,          /* items: names; a: of what; b: only if, or NULL; body, otherwise */
    TPL_SET,          /* items: targets, NAME or ATTRIBUTE of a NAME; a */
    TPL_SET_BLOCK,    /* the same; body; a: filters, or NULL */
    TPL_DEFINE,       /* name(items: NAME with a default in a, or NULL) body */
    TPL_FILTER_BLOCK, /* a, body */
    TPL_WITH,         /* items: SET; body */
    TPL_BODY,         /* body */
    TPL_BREAK,
    TPL_CONTINUE,
} tpl_node_kind;

struct tpl_node {
    tpl_node_kind kind;
    uint32_t line;
    tpl_text name;
    const char *sign;
    tpl_node *a, *b, *c, *items, *body, *otherwise, *next;
    tpl_value value;
};

struct pco_template {
    pco_arena arena;
    char *label;
    size_t size;
    tpl_node *body;
};

enum {
    TPL_NESTING = 100, /* of expressions and blocks in a template */
    TPL_CHAIN = 400,   /* of operators of one kind, and of filters, calls and subscripts behind each other */
    TPL_DEPTH = 1000,  /* of nodes within nodes when it is rendered, calls of macros included */
};

/* The tokens of text[size], behind which an END stands: *first, in `tokens`, which the caller releases, also after an
 * error. Texts are in `text` or in `arena`. */
pco_status tpl_lex(const char *text, size_t size, const char *label, pco_arena *arena, pco_arena *tokens,
                   const tpl_token **first, pco_error *err) PCO_NODISCARD;

/* A parser under way. */
typedef struct tpl_parser {
    const tpl_token *at;
    pco_template *made;
    unsigned nesting, loops;
    pco_error *err;
} tpl_parser;

tpl_node *tpl_new(tpl_parser *parser, tpl_node_kind kind);
pco_status tpl_error(tpl_parser *parser, pco_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The token that the parser is at, which goes on to the next. */
const tpl_token *tpl_advance(tpl_parser *parser);
int tpl_at_name(const tpl_parser *parser, const char *name);
int tpl_at_operator(const tpl_parser *parser, const char *sign);
int tpl_skip_name(tpl_parser *parser, const char *name);
int tpl_skip_operator(tpl_parser *parser, const char *sign);
pco_status tpl_expect(tpl_parser *parser, const char *sign) PCO_NODISCARD;
pco_status tpl_expect_name(tpl_parser *parser, tpl_text *name) PCO_NODISCARD;
/* One level deeper; every tpl_enter that is OK has its tpl_leave. */
pco_status tpl_enter(tpl_parser *parser) PCO_NODISCARD;
void tpl_leave(tpl_parser *parser);

pco_status tpl_parse_expression(tpl_parser *parser, tpl_node **made) PCO_NODISCARD;
/* Without `x if y`: the list of a loop. */
pco_status tpl_parse_plain(tpl_parser *parser, int with_choice, tpl_node **made) PCO_NODISCARD;
/* a, b, c: a TUPLE where there is a comma. */
pco_status tpl_parse_tuple(tpl_parser *parser, int with_choice, tpl_node **made) PCO_NODISCARD;
/* | filter | filter behind `a`, which may be NULL. */
pco_status tpl_parse_filters(tpl_parser *parser, int begun, tpl_node **a) PCO_NODISCARD;
/* Statements up to the end, or up to a tag whose name is one of `ends` (up to a NULL), which is the next token. */
pco_status tpl_parse_body(tpl_parser *parser, const char *const *ends, tpl_node **body) PCO_NODISCARD;

/* ---- rendering ---- */

typedef struct tpl_variable tpl_variable;
struct tpl_variable {
    tpl_text name;
    tpl_value value;
    tpl_variable *next;
};

struct tpl_scope {
    tpl_scope *up;
    tpl_variable *first;
    int of_macro;
};

typedef enum tpl_flow { TPL_ON, TPL_BROKEN, TPL_CONTINUED } tpl_flow;

struct tpl_arguments;
typedef struct tpl_run {
    const pco_template *made;
    pco_arena arena;
    size_t used, budget;
    uint64_t steps, most_steps;
    unsigned depth;
    uint32_t line; /* of what is being done, for messages */
    tpl_flow flow;
    tpl_scope *scope;
    pco_writer *out;
    int64_t now;
    pco_error *err;
    /* Calls of macros are expressions, and what macros hold are statements. */
    pco_status (*call_macro)(struct tpl_run *run, const tpl_macro *macro, const struct tpl_arguments *arguments,
                             tpl_value *value);
} tpl_run;

/* The arguments of a call, filter or test. */
typedef struct tpl_arguments {
    tpl_value *values; /* [count], those without a name first */
    tpl_text *names;   /* of those behind */
    size_t count, plain;
} tpl_arguments;

pco_status tpl_fail(tpl_run *run, pco_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Counts work that is as long as `bytes` are. */
pco_status tpl_work(tpl_run *run, size_t bytes) PCO_NODISCARD;
pco_status tpl_allocate(tpl_run *run, size_t bytes, void *memory) PCO_NODISCARD; /* memory: a pointer to a pointer */
pco_status tpl_keep(tpl_run *run, tpl_text text, tpl_value *string) PCO_NODISCARD;
/* Takes what the writer holds as a string of the run, and releases it. */
pco_status tpl_take(tpl_run *run, pco_writer *out, tpl_value *string) PCO_NODISCARD;
pco_status tpl_list_create(tpl_run *run, tpl_kind kind, size_t capacity, tpl_value *list) PCO_NODISCARD;
pco_status tpl_list_add(tpl_run *run, tpl_value *list, tpl_value item) PCO_NODISCARD;
pco_status tpl_dict_create(tpl_run *run, tpl_kind kind, tpl_value *dict) PCO_NODISCARD;
/* Replaces the value of a key that is there. */
pco_status tpl_dict_set(tpl_run *run, tpl_value *dict, tpl_value key, tpl_value value) PCO_NODISCARD;
const tpl_value *tpl_dict_find(const tpl_dict *dict, const tpl_value *key);
pco_status tpl_from_json(tpl_run *run, const cJSON *json, unsigned depth, tpl_value *value) PCO_NODISCARD;

const char *tpl_kind_name(const tpl_value *value);
/* What `value`, a list, is to be instead; a list that has been gone through has no `items` any more. */
static inline tpl_value tpl_lazy(tpl_value value, int view)
{
    value.kind = TPL_LAZY;
    value.safe = view;
    return value;
}
int tpl_true(const tpl_value *value);
pco_status tpl_equal(tpl_run *run, const tpl_value *a, const tpl_value *b, int *equal) PCO_NODISCARD;
/* < 0, 0, > 0, of numbers, strings and lists. */
pco_status tpl_order(tpl_run *run, const tpl_value *a, const tpl_value *b, int *order) PCO_NODISCARD;
pco_status tpl_contains(tpl_run *run, const tpl_value *all, const tpl_value *one, int *is) PCO_NODISCARD;
/* As Python's str(). */
pco_status tpl_write(tpl_run *run, pco_writer *out, const tpl_value *value) PCO_NODISCARD;
pco_status tpl_str(tpl_run *run, const tpl_value *value, tpl_value *string) PCO_NODISCARD;
pco_status tpl_json(tpl_run *run, pco_writer *out, const tpl_value *value, int64_t indent, int sorted, int ascii,
                    unsigned depth) PCO_NODISCARD;
/* What a loop or a filter goes through: the items of a list, the keys of a dict, the characters of a string. */
pco_status tpl_items(tpl_run *run, const tpl_value *value, tpl_value *list) PCO_NODISCARD;
pco_status tpl_length(tpl_run *run, const tpl_value *value, int64_t *length) PCO_NODISCARD;

/* a.name and a["name"], a[0]; undefined where there is none. */
pco_status tpl_attribute(tpl_run *run, const tpl_value *a, tpl_text name, tpl_value *value) PCO_NODISCARD;
pco_status tpl_subscript(tpl_run *run, const tpl_value *a, const tpl_value *key, tpl_value *value) PCO_NODISCARD;
pco_status tpl_slice(tpl_run *run, const tpl_value *a, const tpl_value bounds[3], tpl_value *value) PCO_NODISCARD;
pco_status tpl_binary(tpl_run *run, const char *sign, const tpl_value *a, const tpl_value *b,
                      tpl_value *value) PCO_NODISCARD;

pco_status tpl_evaluate(tpl_run *run, const tpl_node *node, tpl_value *value) PCO_NODISCARD;
pco_status tpl_execute(tpl_run *run, const tpl_node *body) PCO_NODISCARD;
pco_status tpl_assign(tpl_run *run, tpl_text name, tpl_value value) PCO_NODISCARD;
pco_status tpl_call_function(tpl_run *run, tpl_text name, const tpl_arguments *arguments,
                             tpl_value *value) PCO_NODISCARD;
int tpl_is_function(tpl_text name);
pco_status tpl_call_method(tpl_run *run, const tpl_method *method, const tpl_arguments *arguments,
                           tpl_value *value) PCO_NODISCARD;
int tpl_has_method(const tpl_value *self, tpl_text name);
pco_status tpl_filter(tpl_run *run, tpl_text name, const tpl_value *input, const tpl_arguments *arguments,
                      tpl_value *value) PCO_NODISCARD;
pco_status tpl_test(tpl_run *run, tpl_text name, const tpl_value *input, const tpl_arguments *arguments,
                    int *is) PCO_NODISCARD;

/* Reads arguments into values[], by the names in `names`, "a b c"; those that are missing stay as they are, UNDEFINED
 * with no text. INVALID for more of them, and for another name; `what` is whose they are. */
pco_status tpl_read_arguments(tpl_run *run, const tpl_arguments *arguments, const char *what, const char *names,
                              tpl_value *values) PCO_NODISCARD;
static inline int tpl_given(const tpl_value *argument)
{
    return argument->kind != TPL_UNDEFINED || argument->text.data;
}
/* Of a value that has to be of that kind. */
pco_status tpl_need_text(tpl_run *run, const char *what, const tpl_value *value, tpl_text *text) PCO_NODISCARD;
pco_status tpl_need_int(tpl_run *run, const char *what, const tpl_value *value, int64_t *integer) PCO_NODISCARD;

/* ---- characters ---- */

/* The character at text.data[at], at least one byte. */
size_t tpl_character(tpl_text text, size_t at, uint32_t *code);
int tpl_is_blank(uint32_t code); /* as Python's str.isspace */
size_t tpl_count_characters(tpl_text text);
/* Without what is in `characters` (all blanks: data NULL) at the left (1), the right (2), or both (3). */
tpl_text tpl_strip(tpl_text text, tpl_text characters, int sides);
/* Where `part` is from `from` on; SIZE_MAX: nowhere. */
size_t tpl_find(tpl_text text, tpl_text part, size_t from);
typedef enum tpl_letters { TPL_LOWER, TPL_UPPER, TPL_TITLE, TPL_CAPITALIZE, TPL_TITLE_FILTER } tpl_letters;
pco_status tpl_letter_case(tpl_run *run, tpl_text text, tpl_letters how, tpl_value *value) PCO_NODISCARD;
pco_status tpl_replace(tpl_run *run, tpl_text text, tpl_text old, tpl_text with, int64_t most,
                       tpl_value *value) PCO_NODISCARD;
pco_status tpl_join(tpl_run *run, tpl_text between, const tpl_list *list, int any, tpl_value *value) PCO_NODISCARD;

#endif

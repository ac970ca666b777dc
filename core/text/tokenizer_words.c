/* What a word is to byte-level BPE, by the values of tokenizer.ggml.pre. The expressions are those that the models'
 * own tokenizers have; each cuts what the one before it has left, and what it does not match is a word, too. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

/* English contractions, letters, numbers, other signs, blanks; a blank in front belongs to the word (Radford et al.
 * 2019). */
#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define GPT2 \
    CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| " \
                 "?[^\\p{White_Space}\\p{L}\\p{N}]+|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+"
const char TEXT_GPT2_WORDS[] = GPT2;

/* Later ones: any sign in front of letters belongs to them, and ends of lines to the signs before them. */
#define ANY_CASE "(?i:" CONTRACTIONS ")"
#define LETTERS  "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SIGNS    " ?[^\\p{White_Space}\\p{L}\\p{N}]+[\\r\\n]*"
#define BLANKS   "\\p{White_Space}*[\\r\\n]+|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+"
#define BY_DIGIT ANY_CASE "|" LETTERS "|\\p{N}|" SIGNS "|" BLANKS
#define BY_THREE ANY_CASE "|" LETTERS "|\\p{N}{1,3}|" SIGNS "|" BLANKS
/* Words also end before a capital. */
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define SIGN         "[^\\r\\n\\p{L}\\p{N}]?"
#define CASED(after) SIGN UPPER "*" LOWER "+" after "|" SIGN UPPER "+" LOWER "*" after
#define SLASHED      " ?[^\\p{White_Space}\\p{L}\\p{N}]+[\\r\\n/]*|" BLANKS
#define GPT4O        CASED(ANY_CASE "?") "|\\p{N}{1,3}|" SLASHED

/* DeepSeek LLM's letters: those with a case, of scripts that had it when its list was made. All expressions here are
 * Oniguruma's, too, so that they can be written to a tokenizer.json. */
#define DEEPSEEK_LETTERS \
    "(?:(?![\\x{560}\\x{588}\\x{10C7}\\x{10CD}\\x{10D0}-\\x{10FA}\\x{10FD}-\\x{10FF}\\x{1C80}-\\x{1C8A}" \
    "\\x{2C2F}\\x{2C5F}\\x{2D00}-\\x{2D2D}\\x{A78F}-\\x{A7FA}\\x{AB30}-\\x{AB68}\\x{10570}-\\x{105BC}" \
    "\\x{10D50}-\\x{10D85}\\x{16E40}-\\x{16E7F}\\x{16EA0}-\\x{16ED3}\\x{1D400}-\\x{1D7CB}\\x{1DF00}-\\x{1DF2A}])[\\p{" \
    "Lu}\\p{Ll}\\p{Lt}])"
#define DEEPSEEK_ASIAN  "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define DEEPSEEK_SIGNS  "[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]"
#define CHINESE_OR_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
/* One ASCII sign and letters; letters with their marks; signs and symbols. */
#define DEEPSEEK3 \
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" BLANKS

/* What stands between the signs that end a clause in several scripts. */
#define BLOOM " ?[^(\\p{White_Space}|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{0964}\\x{06D4}\\x{060C})]+"

typedef struct text_words {
    const char *names; /* between blanks */
    const char *cuts[6];
    int ignore_merges, add_bos; /* add_bos: for a file that does not say */
} text_words;

static const text_words TEXT_WORDS[] = {
    {" gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 modern-bert jina-es jina-de jina-v1-en jina-v2-es "
     "jina-v2-de jina-v2-code roberta-bpe gigachat a.x-4.0 mellum ",
     {GPT2}},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ", {"\\p{N}", GPT2}},
    {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ", {BY_THREE}, 1, 1},
    {" glm4 glm5 ", {BY_THREE}, 1},
    {" dbrx smaug-bpe chatglm-bpe ", {BY_THREE}},
    {" qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 ", {BY_DIGIT}},
    {" qwen35 ",
     {ANY_CASE
      "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\p{White_Space}\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" BLANKS}},
    {" minicpm5 ", {"\\p{N}{1,3}", ANY_CASE "|" LETTERS "|\\p{N}+|" SIGNS "|" BLANKS}, 1},
    {" falcon ", {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {" default ", {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {" deepseek-llm ",
     {"[\\r\\n]", "\\p{White_Space}?" DEEPSEEK_LETTERS "+", "\\p{White_Space}?" DEEPSEEK_SIGNS "+",
      "\\p{White_Space}+$", DEEPSEEK_ASIAN, "\\p{N}+"}},
    {" deepseek-coder ",
     {"[\\r\\n]", "\\p{White_Space}?\\p{L}+", "\\p{White_Space}?\\p{P}+", DEEPSEEK_ASIAN, "\\p{N}"}},
    {" deepseek-v3 hunyuan-dense joyai-llm hy_v4 ", {"\\p{N}{1,3}", CHINESE_OR_KANA, DEEPSEEK3}},
    {" gpt-4o llama4 kanana2 talkie minimax-m2 ", {GPT4O}},
    {" tiny_aya cohere2moe ", {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O}},
    {" tekken ", {CASED("") "|\\p{N}|" SLASHED}, 1, 1},
    {" bloom gpt3-finnish poro-chat ", {BLOOM}},
    {" viking ", {BLOOM, "\\p{N}"}},
    {" bailingmoe bailingmoe2 llada-moe ",
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
      "?[^\\p{White_Space}\\p{L}\\p{N}]++[\\r\\n]*|\\p{White_Space}*[\\r\\n]"
      "|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+"}},
    {" seed-coder ", {ANY_CASE "|" LETTERS "|\\p{N}| ?[^\\p{White_Space}\\p{L}\\p{N}\\r\\n]+|" BLANKS}},
    {" exaone-moe ",
     {ANY_CASE
      "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\p{White_Space}\\p{L}\\p{N}]+[\\r\\n/]?"
      "|\\p{White_Space}*[\\r\\n]|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+"}},
};

pco_status text_add_words(pco_tokenizer *tokenizer, const char *name, const char *label, pco_error *err)
{
    size_t size = strlen(name);
    for (size_t row = 0; row < sizeof TEXT_WORDS / sizeof *TEXT_WORDS; row++) {
        const text_words *words = &TEXT_WORDS[row];
        const char *at = strchr(name, ' ') || !size ? NULL : strstr(words->names, name);
        while (at && (at[-1] != ' ' || at[size] != ' ')) at = strstr(at + 1, name);
        if (!at) continue;
        pco_status status = PCO_OK;
        for (int i = 0; i < 6 && words->cuts[i] && !status; i++)
            status = text_add_split(tokenizer, words->cuts[i], label, TEXT_ISOLATED, 0, err);
        tokenizer->ignore_merges = words->ignore_merges;
        if (words->add_bos) tokenizer->add_bos = 1;
        return status;
    }
    return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                    "%s: the pre-tokenizer '%.60s' (key 'tokenizer.ggml.pre') is not supported; 'gpt-2', 'llama-bpe', "
                    "'qwen2', 'smollm' and others are",
                    label, name);
}

/* The same expression, when that of a tokenizer.json has (?m) in front, which matters to $ alone, and brackets around
 * what \s and \S stand for? */
static int text_same_expression(const char *expression, const char *cut)
{
    static const char *const bracketed[] = {"[\\p{White_Space}]", "[\\P{White_Space}]"};
    if (!strchr(cut, '$') && strncmp(expression, "(?m)", 4) == 0) expression += 4;
    while (*expression && *cut) {
        size_t skip = 0;
        for (int i = 0; i < 2; i++)
            if (strncmp(expression, bracketed[i], strlen(bracketed[i])) == 0 && *cut != '[')
                skip = strlen(bracketed[i]);
        if (skip) {
            if (strncmp(expression + 1, cut, skip - 2) != 0) return 0;
            cut += skip - 2;
            expression += skip;
        } else if (*expression++ != *cut++) {
            return 0;
        }
    }
    return *expression == *cut;
}

/* Does the step do what the cut of a row does? Digits by themselves are a set of characters in a tokenizer.json. */
static int text_is_cut(const text_step *step, const char *cut)
{
    if (step->behaviour != TEXT_ISOLATED || step->invert || step->content) return 0;
    if (step->is_match) return step->is_match == text_is_number && strcmp(cut, "\\p{N}") == 0;
    return step->expression && text_same_expression(step->expression, cut);
}

int text_words_name(const pco_tokenizer *tokenizer, char name[64])
{
    for (size_t row = 0; row < sizeof TEXT_WORDS / sizeof *TEXT_WORDS; row++) {
        const text_words *words = &TEXT_WORDS[row];
        uint32_t count = 0;
        while (count < 6 && words->cuts[count]) count++;
        int same = count == tokenizer->step_count && words->ignore_merges == tokenizer->ignore_merges;
        for (uint32_t i = 0; i < count && same; i++) same = text_is_cut(&tokenizer->steps[i], words->cuts[i]);
        if (!same) continue;
        snprintf(name, 64, "%.*s", (int)strcspn(words->names + 1, " "), words->names + 1);
        return 1;
    }
    return 0;
}

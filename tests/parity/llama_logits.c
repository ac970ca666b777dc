/* llama_logits MODEL.gguf ID,ID,... : the logits that llama.cpp computes after each of these tokens, as float32 on
 * stdout, a row of the vocabulary each. On the processor, with keys and values in float32 and without fused attention,
 * so that only the order of sums is llama.cpp's own. Built against Debian's libllama-dev by
 * tests/parity/llama_archs.py. */
#include <llama.h>

#include <stdio.h>
#include <stdlib.h>

static void say(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char **argv)
{
    static llama_token ids[4096];
    int count = 0;
    if (argc != 3) return 2;
    for (char *at = argv[2]; *at && count < 4096; at += *at == ',') ids[count++] = (llama_token)strtol(at, &at, 10);
    llama_log_set(say, NULL);
    ggml_backend_load_all();
    struct llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(argv[1], model_params);
    if (!model) return 1;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = count > 256 ? (uint32_t)count : 256;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.n_threads = params.n_threads_batch = 1;
    params.swa_full = true;
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context) return 1;
    struct llama_batch batch = llama_batch_init(count, 0, 1);
    for (int i = 0; i < count; i++) {
        batch.token[i] = ids[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    batch.n_tokens = count;
    if (llama_decode(context, batch)) return 1;
    const size_t vocabulary = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (int i = 0; i < count; i++) fwrite(llama_get_logits_ith(context, i), sizeof(float), vocabulary, stdout);
    llama_batch_free(batch);
    llama_free(context);
    llama_model_free(model);
    return fflush(stdout) != 0;
}

"""Writes tests/golden/onnx: small models as PyTorch exports them, with attention, norms, activations and rotary positions
taken apart, inputs, and what transformers computes for these in float64. python/tests/test_onnx.py runs them.

    python3 tests/golden/make_onnx.py      # needs torch and transformers
"""
import os
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers as hf  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx")
SIZES = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
         "max_position_embeddings": 16}
GPT2 = {"vocab_size": 30, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 16, "use_cache": False, "bos_token_id": 0,
        "eos_token_id": 0}
T5 = {"vocab_size": 30, "d_model": 16, "num_layers": 2, "num_heads": 4, "d_ff": 24, "d_kv": 4,
      "feed_forward_proj": "gated-gelu"}


class Encoder(torch.nn.Module):
    """PyTorch's own encoder layers, post-norm with ReLU."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(16, 4, 24, batch_first=False)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.config = type("Config", (), {})()

    def forward(self, x, return_dict):
        return [self.layers(x)]


MODELS = {  # name: model, how it attends
    "bert": (lambda: hf.BertModel(hf.BertConfig(**SIZES)), "sdpa"),
    "distilbert": (lambda: hf.DistilBertModel(hf.DistilBertConfig(vocab_size=30, dim=16, n_layers=2, n_heads=4,
                                                                  hidden_dim=24, max_position_embeddings=16)), "eager"),
    "gpt2": (lambda: hf.GPT2Model(hf.GPT2Config(**GPT2)), "eager"),
    "llama": (lambda: hf.LlamaModel(hf.LlamaConfig(**SIZES, num_key_value_heads=2, use_cache=False)), "sdpa"),
    "t5": (lambda: hf.T5EncoderModel(hf.T5Config(**T5)), "eager"),
    "nn": (lambda: Encoder(), "eager"),  # attention of rank 3
    "vit": (lambda: hf.ViTModel(hf.ViTConfig(**{k: SIZES[k] for k in list(SIZES)[1:5]}, image_size=16, patch_size=4)), "sdpa"),
}


class Hidden(torch.nn.Module):
    """The last hidden state alone."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), return_dict=False)[0]


def main():
    warnings.simplefilter("ignore")
    os.makedirs(FOLDER, exist_ok=True)
    torch.backends.mha.set_fastpath_enabled(False)  # which has no export
    for name, (make, attends) in MODELS.items():
        torch.manual_seed(20261123)
        model = make().eval()
        for parameter in model.parameters():  # those of norms and biases are all alike at first
            with torch.no_grad():
                parameter += 0.1 * torch.randn_like(parameter)
        model.config._attn_implementation = attends
        if name == "nn":
            inputs, axes = {"x": torch.randn(6, 2, 16)}, {"x": {0: "tokens", 1: "batch"}}
        elif name == "vit":
            inputs = {"pixel_values": torch.randn(2, 3, 16, 16)}
            axes = {"pixel_values": {0: "batch"}}
        else:
            mask = torch.ones(2, 6, dtype=torch.long)
            mask[1, 4:] = 0
            inputs = {"input_ids": torch.randint(1, 30, (2, 6)), "attention_mask": mask}
            axes = {key: {0: "batch", 1: "tokens"} for key in inputs}
        wrapped = Hidden(model, list(inputs)).eval()
        path = os.path.join(FOLDER, f"{name}.onnx")
        torch.onnx.export(wrapped, tuple(inputs.values()), path, input_names=list(inputs), output_names=["hidden"],
                          dynamic_axes=axes, dynamo=False, opset_version=14)
        wrapped = wrapped.double()
        with torch.no_grad():
            hidden = wrapped(*[x.double() if x.is_floating_point() else x for x in inputs.values()])
        np.savez(os.path.join(FOLDER, f"{name}.npz"), hidden=hidden.numpy(), **{k: v.numpy() for k, v in inputs.items()})
        print(f"{name}: {os.path.getsize(path)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()

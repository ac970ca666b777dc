"""Building blocks of neural networks; names, semantics and first values are those of torch.nn.

    from portico import nn, optim

    model = nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.Linear(16, 2))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)

    @portico.function              # compiled once; without it, the same step runs operation by operation
    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

Parameters are on the device that first uses them, and stay there; model.to("vulkan") moves them. What differs from
PyTorch: a step uses the gradients up (zero_grad() after it does no harm), a query that sees no key gets zeros, and
Embedding's padding_idx gives zeros.
"""
from portico.nn import functional, init, utils
from portico.nn.layers import (Dropout, Embedding, Flatten, GELU, Identity, LayerNorm, Linear, ReLU, RMSNorm,
                               RotaryEmbedding, Sigmoid, SiLU, SinusoidalPositionalEncoding, Softmax, SwiGLU, Tanh)
from portico.nn.losses import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from portico.nn.module import Loaded, Module, ModuleList, Parameter, Sequential
from portico.nn.transformer import (FeedForward, MultiheadAttention, Transformer, TransformerDecoder,
                                    TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer)

__all__ = ["BCEWithLogitsLoss", "CrossEntropyLoss", "Dropout", "Embedding", "FeedForward", "Flatten", "GELU", "Identity",
           "L1Loss", "LayerNorm", "Linear", "Loaded", "MSELoss", "Module", "ModuleList", "MultiheadAttention", "NLLLoss",
           "Parameter", "ReLU", "RMSNorm", "RotaryEmbedding", "Sequential", "SiLU", "Sigmoid",
           "SinusoidalPositionalEncoding", "Softmax", "SwiGLU", "Tanh", "Transformer", "TransformerDecoder",
           "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "functional", "init", "utils"]

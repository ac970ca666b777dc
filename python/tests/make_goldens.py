#!/usr/bin/env python3
"""Writes tests/golden/nn.npz and training.npz with PyTorch in float64: make_goldens.py [folder]"""
import os
import sys
import zlib

import numpy as np
import torch

import nn_cases


def tensor(array):
    x = torch.from_numpy(np.ascontiguousarray(array)) if array.ndim else torch.tensor(array)
    return x.double() if x.is_floating_point() else x.long() if x.dtype == torch.int32 else x


def run_case(name, case):
    random = nn_cases.Numbers(zlib.crc32(name.encode()))
    found = {}
    module = case.make(torch.nn)
    parameters = {}
    if module is not None:
        module = module.double()
        weights = nn_cases.weights_of({n: tuple(x.shape) for n, x in module.state_dict().items()}, random)
        module.load_state_dict({n: torch.from_numpy(x) for n, x in weights.items()})
        parameters = dict(module.named_parameters())
    arrays = case.inputs(random)
    inputs = [tensor(x) for x in arrays]
    if inputs[0].is_floating_point():
        inputs[0].requires_grad_()
    # In training, as the faster ways that PyTorch takes otherwise are not differentiable; there is no dropout.
    y = case.call(module, torch.nn.functional, *inputs)
    found["output"] = y.detach().numpy()
    (y * torch.from_numpy(random.draw(tuple(y.shape))).double()).sum().backward()
    found.update({f"gradient/{n}": x.grad.numpy() for n, x in parameters.items() if x.grad is not None})
    if inputs[0].is_floating_point():
        found["gradient_of_input"] = inputs[0].grad.numpy()
    return {f"{name}/{key}": value for key, value in found.items()}


def train(name, dtype, weights):
    make, schedule, clip = nn_cases.TRAINERS[name]
    model = nn_cases.train_model(torch.nn).to(dtype)
    model.load_state_dict({n: torch.from_numpy(x) for n, x in weights.items()})
    optimizer = make(torch.optim, list(model.parameters()))
    schedule = schedule and schedule(torch.optim.lr_scheduler, optimizer)
    losses = []
    for step in range(nn_cases.STEPS):
        x, y = (torch.from_numpy(a).long() for a in nn_cases.train_data(step))
        mask = torch.triu(torch.ones(8, 8, dtype=torch.bool), 1)
        h = model[1](model[0](x), mask=mask)
        loss = torch.nn.functional.cross_entropy(model[2](h).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if schedule:
            schedule.step()
        losses.append(loss.item())
    return np.array(losses)


def training_weights(nn):
    shapes = {n: tuple(x.shape) for n, x in nn_cases.train_model(nn).state_dict().items()}
    return nn_cases.weights_of(shapes, nn_cases.Numbers(7))


def goldens():
    cases, losses = {}, {}
    for name, case in nn_cases.CASES.items():
        cases.update(run_case(name, case))
    for name in nn_cases.TRAINERS:
        losses[f"{name}/float64"] = train(name, torch.float64, training_weights(torch.nn))
        losses[f"{name}/float32"] = train(name, torch.float32, training_weights(torch.nn))
    return nn_cases.pack(cases), losses


def main(folder):
    os.makedirs(folder, exist_ok=True)
    cases, losses = goldens()
    np.savez_compressed(os.path.join(folder, "nn.npz"), **cases)
    np.savez_compressed(os.path.join(folder, "training.npz"), **losses)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))

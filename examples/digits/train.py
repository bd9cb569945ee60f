#!/usr/bin/env python3
"""Trains the digits example's network and writes weights.txt. Needs only NumPy; takes a few seconds.

The split is by position: image i is a test image when i % 5 == 4 (359 of 1,797), else a training image (1,438).
Network: x/16 (64) -> 128, relu -> 10. Adam on softmax cross-entropy with weight decay.
"""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
HIDDEN = 128


def main():
    table = np.loadtxt(HERE / "digits.csv", delimiter=",", dtype=np.float32)
    images, labels = table[:, :64] / 16, table[:, 64].astype(int)
    test = np.arange(len(images)) % 5 == 4
    x_train, y_train = images[~test], labels[~test]

    rng = np.random.default_rng(20)
    # Stored as a Linear layer stores them: [outputs, inputs].
    params = {
        "hidden.weight": rng.normal(0, np.sqrt(2 / 64), (HIDDEN, 64)),
        "hidden.bias": np.zeros(HIDDEN),
        "output.weight": rng.normal(0, np.sqrt(1 / HIDDEN), (10, HIDDEN)),
        "output.bias": np.zeros(10),
    }
    first = {name: np.zeros_like(p) for name, p in params.items()}
    second = {name: np.zeros_like(p) for name, p in params.items()}

    epochs, size, step = 60, 64, 0
    for epoch in range(epochs):
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        order = rng.permutation(len(x_train))
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            x, y = x_train[rows], y_train[rows]
            hidden = np.maximum(x @ params["hidden.weight"].T + params["hidden.bias"], 0)
            logits = hidden @ params["output.weight"].T + params["output.bias"]
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(y)), y] -= 1
            p /= len(y)
            d_hidden = (p @ params["output.weight"]) * (hidden > 0)
            grads = {
                "hidden.weight": d_hidden.T @ x,
                "hidden.bias": d_hidden.sum(axis=0),
                "output.weight": p.T @ hidden,
                "output.bias": p.sum(axis=0),
            }
            step += 1
            for name, g in grads.items():
                if name.endswith("weight"):
                    g = g + 3e-4 * params[name]
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.999 * second[name] + 0.001 * g * g
                corrected = first[name] / (1 - 0.9**step)
                params[name] -= rate * corrected / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)

    def accuracy(chosen):
        hidden = np.maximum(images[chosen] @ params["hidden.weight"].T + params["hidden.bias"], 0)
        logits = hidden @ params["output.weight"].T + params["output.bias"]
        return (logits.argmax(axis=1) == labels[chosen]).mean()

    print(f"train {accuracy(~test):.4f}  test {accuracy(test):.4f}")
    with open(HERE / "weights.txt", "w") as out:
        for name, p in params.items():
            rows, columns = p.reshape(-1, p.shape[-1]).shape
            out.write(f"{name} {rows} {columns}\n")
            np.savetxt(out, p.reshape(rows, columns), fmt="%.6g")


if __name__ == "__main__":
    main()

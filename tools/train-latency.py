#!/usr/bin/env python3
"""Trains the predictor of latencies, and writes its trees for simulator/predictor/trees.ts.

    python3 -m venv venv && venv/bin/pip install lightgbm==4.7.0 numpy
    venv/bin/python tools/train-latency.py DATA/rapp/rapp_latency_v100.csv.gz simulator/predictor/trees.json

DATA is the folder with the papers' data (simulator/README.md). The table has models, batches, percent of SMs and of time,
and milliseconds of a batch on a V100 (KontonGu/RaPP, Apache-2.0).

What is learned is the logarithm by which a latency differs from a base, with absolute errors (L1). With anchors the base
is the larger of the time with so many SMs and all the time, and that with all SMs and so much time; both lie between
cells that were measured: 11 for each model and batch. Without them, only the time on the whole GPU is known.
Models are divided into folds, so that nothing of a model that is predicted was learned.
"""

import csv
import gzip
import json
import sys

import lightgbm
import numpy

SMS = [5, 10, 30, 60, 80, 100]
TIMES = [10, 20, 40, 60, 80]
SEED = 1
FOLDS = 5
ROUNDS = 100
SETTINGS = {
    "objective": "regression_l1",
    "learning_rate": 0.15,
    "num_leaves": 24,
    "min_data_in_leaf": 40,
    "feature_fraction": 0.8,
    "max_bin": 63,
    "seed": SEED,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbose": -1,
}


def read(path):
    """Milliseconds by (model, batch), then by (SMs, time)."""
    cells = {}
    with gzip.open(path, "rt") as lines:
        for row in csv.DictReader(lines):
            key = (row["model"], int(row["batch"]))
            at = (int(row["sm_pct"]), int(row["quota_pct"]))
            cells.setdefault(key, {})[at] = float(row["latency_ms"])
    return cells


def line(points, at):
    """Between known points, in logarithms of both."""
    xs = numpy.log([x for x, _ in points])
    ys = numpy.log([y for _, y in points])
    return float(numpy.interp(numpy.log(at), xs, ys))


def anchors(of):
    """Points by SMs with all the time, and by time with all SMs."""
    by_sm = [(sm, of[sm, 100]) for sm in SMS if (sm, 100) in of]
    by_time = [(time, of[100, time]) for time in [*TIMES, 100] if (100, time) in of]
    return by_sm, by_time


def features(batch, from_sm, from_time, shape, sm, time, whole):
    """The order is that of simulator/predictor/latency.ts."""
    base = max(from_sm, from_time)
    first = [batch, sm, time, sm * time / 100, whole, from_sm - whole, from_time - whole, from_sm - from_time]
    return base, first + shape


def bare(batch, sm, time, whole):
    return whole, [batch, sm, time, sm * time / 100, whole]


def rows(cells, with_anchors):
    groups, base, inputs, target = [], [], [], []
    for (model, batch), of in sorted(cells.items()):
        if (100, 100) not in of:
            continue
        whole = float(numpy.log(of[100, 100]))
        by_sm, by_time = anchors(of)
        shape = [line(by_sm, one) - whole for one in SMS[:-1]] + [line(by_time, one) - whole for one in TIMES]
        lines_sm = {sm: line(by_sm, sm) for sm in {sm for sm, _ in of}}
        lines_time = {time: line(by_time, time) for time in {time for _, time in of}}
        known = {(sm, 100) for sm, _ in by_sm} | {(100, time) for time, _ in by_time}
        for (sm, time), latency in sorted(of.items()):
            if (sm, time) in (known if with_anchors else {(100, 100)}):
                continue
            if with_anchors:
                expected, some = features(batch, lines_sm[sm], lines_time[time], shape, sm, time, whole)
            else:
                expected, some = bare(batch, sm, time, whole)
            groups.append(model)
            base.append(expected)
            inputs.append(some)
            target.append(numpy.log(latency))
    return numpy.array(groups), numpy.array(base), numpy.array(inputs), numpy.array(target)


def folds(groups):
    models = sorted(set(groups))
    numpy.random.default_rng(SEED).shuffle(models)
    return [set(models[fold::FOLDS]) for fold in range(FOLDS)]


def train(inputs, residual):
    return lightgbm.train(SETTINGS, lightgbm.Dataset(inputs, residual), ROUNDS)


def percent(predicted, target):
    return float(100 * numpy.mean(numpy.abs(numpy.exp(predicted - target) - 1)))


def evaluate(cells, with_anchors):
    groups, base, inputs, target = rows(cells, with_anchors)
    predicted = numpy.zeros(len(target))
    for fold in folds(groups):
        held = numpy.array([model in fold for model in groups])
        booster = train(inputs[~held], (target - base)[~held])
        print(f"a fold of {held.sum()} cells", file=sys.stderr)
        predicted[held] = base[held] + booster.predict(inputs[held])
    return {"cells": len(target), "base": percent(base, target), "error": percent(predicted, target)}


def flat(node, tree):
    """Preorder: a leaf is [value], a node [feature, threshold, index of its right child]."""
    at = len(tree)
    if "leaf_value" in node:
        tree.append([float(f"{node['leaf_value']:.6g}")])
        return
    # Missing values do not occur: each input is a number.
    assert node["decision_type"] == "<="
    tree.append(None)
    flat(node["left_child"], tree)
    right = len(tree)
    flat(node["right_child"], tree)
    tree[at] = [node["split_feature"], node["threshold"], right]


def main(data, out):
    cells = read(data)
    result = {"withAnchors": evaluate(cells, True), "without": evaluate(cells, False)}
    groups, base, inputs, target = rows(cells, True)
    # What is kept has not seen the first fold, so that TypeScript can be held against it.
    first = folds(groups)[0]
    held = numpy.array([model in first for model in groups])
    booster = train(inputs[~held], (target - base)[~held])
    predicted = base[held] + booster.predict(inputs[held])
    trees = []
    for one in booster.dump_model()["tree_info"]:
        tree = []
        flat(one["tree_structure"], tree)
        trees.append(tree)
    result |= {
        "seed": SEED,
        "folds": FOLDS,
        "held": sorted(first),
        "heldError": percent(predicted, target[held]),
        "sms": SMS,
        "times": TIMES,
        "trees": trees,
    }
    with open(out, "w", encoding="ascii") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")
    print({key: value for key, value in result.items() if key != "trees"})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: train-latency.py TABLE.csv.gz TREES.json")
    main(sys.argv[1], sys.argv[2])

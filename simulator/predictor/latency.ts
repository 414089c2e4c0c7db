// Predicts how long a batch takes with part of a GPU's SMs and time, from a few cells that were measured: trees that
// tools/train-latency.py has learned, beside a line between the cells. The order of inputs is that script's.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../bin/paths.mjs';

/** A leaf is [value], a node [input, threshold, index of its right child]; its left child is the next one. */
export type Tree = readonly (readonly [number] | readonly [number, number, number])[];

export interface Trees {
  /** Percent: where all the time is measured by SMs, and with all SMs by time. */
  sms: readonly number[];
  times: readonly number[];
  trees: readonly Tree[];
  /** Models that were not learned from, and the mean error on their cells in percent. */
  held: readonly string[];
  heldError: number;
  seed: number;
  folds: number;
  /** Mean errors in percent over all folds, of the trees and of the base that they correct. */
  withAnchors: { cells: number; base: number; error: number };
  without: { cells: number; base: number; error: number };
}

export const treesFile = path.join(root, 'simulator', 'predictor', 'trees.json');

/** Throws where the file is missing or is none of these. */
export function readTrees(file = treesFile): Trees {
  const trees: Trees = JSON.parse(readFileSync(file, 'utf8'));
  if (!Array.isArray(trees.trees) || !trees.trees.every(isTree)) {
    throw new Error(`${file}: expected trees as tools/train-latency.py writes them`);
  }
  return trees;
}

/** Whether every way through it ends in a leaf. */
function isTree(tree: unknown): tree is Tree {
  if (!Array.isArray(tree) || tree.length === 0) return false;
  return tree.every((node, at) => {
    if (!Array.isArray(node) || !node.every(Number.isFinite)) return false;
    if (node.length === 1) return true;
    const [input, , right] = node;
    return node.length === 3 && input >= 0 && right > at + 1 && right < tree.length;
  });
}

function leafOf(tree: Tree, inputs: readonly number[]): number {
  let at = 0;
  for (;;) {
    const node = tree[at];
    if (!node) throw new RangeError('a tree that ends nowhere');
    if (node.length === 1) return node[0];
    const [input, threshold, right] = node;
    at = (inputs[input] ?? 0) <= threshold ? at + 1 : right;
  }
}

type Point = readonly [at: number, latency: number];

/** What was measured of a model with one batch. Percent and milliseconds, smallest first. */
export interface Anchors {
  batch: number;
  /** With all the time, by SMs; the last one is 100 %. */
  bySm: readonly Point[];
  /** With all SMs, by time; the last one is 100 %. */
  byTime: readonly Point[];
}

/** Between the points a line in logarithms of both; beyond them what the nearest has. Returns the logarithm. */
function line(points: readonly Point[], at: number): number {
  const above = points.findIndex(([one]) => one >= at);
  const [low, high] = [points[above - 1], points[above]];
  if (!high) return Math.log(points.at(-1)?.[1] ?? Number.NaN);
  if (!low || high[0] === at) return Math.log(high[1]);
  const part = (Math.log(at) - Math.log(low[0])) / (Math.log(high[0]) - Math.log(low[0]));
  return (1 - part) * Math.log(low[1]) + part * Math.log(high[1]);
}

export class LatencyPredictor {
  readonly #trees: Trees;

  constructor(trees: Trees) {
    this.#trees = trees;
  }

  /** Milliseconds of a batch: the larger of the two lines, without the trees. */
  base({ bySm, byTime }: Anchors, sm: number, time: number): number {
    return Math.exp(Math.max(line(bySm, sm), line(byTime, time)));
  }

  /** Milliseconds of a batch with so many percent of SMs and time. Throws where nothing was measured. */
  predict(anchors: Anchors, sm: number, time: number): number {
    const { batch, bySm, byTime } = anchors;
    if (bySm.length === 0 || byTime.length === 0) throw new RangeError('nothing was measured');
    const whole = Math.log(byTime.at(-1)?.[1] ?? Number.NaN);
    const fromSm = line(bySm, sm);
    const fromTime = line(byTime, time);
    const { sms, times, trees } = this.#trees;
    const inputs = [
      ...[batch, sm, time, (sm * time) / 100, whole],
      ...[fromSm - whole, fromTime - whole, fromSm - fromTime],
      ...sms.slice(0, -1).map((one) => line(bySm, one) - whole),
      ...times.map((one) => line(byTime, one) - whole),
    ];
    const correction = trees.reduce((sum, tree) => sum + leafOf(tree, inputs), 0);
    return Math.exp(Math.max(fromSm, fromTime) + correction);
  }
}

// The same clustering on the CPU, one point after the other.
#pragma once

#include <vector>

#include "clustering.h"

inline Clustering cluster_on_cpu(const std::vector<uint32_t> &points, std::vector<Centre> centres,
                                 int most_iterations) {
  Clustering result;
  const int k = static_cast<int>(centres.size());
  result.labels.assign(points.size(), kNoLabel);
  result.sizes.resize(k);
  while (result.iterations < most_iterations && !result.converged) {
    std::vector<Sums> sums(k, Sums{0, 0, 0, 0});
    size_t changed = 0;
    for (size_t i = 0; i < points.size(); i++) {
      int label = nearest(points[i], centres.data(), k);
      changed += label != result.labels[i];
      result.labels[i] = static_cast<uint8_t>(label);
      Sums &own = sums[label];
      own.count++;
      own.r += red(points[i]);
      own.g += green(points[i]);
      own.b += blue(points[i]);
    }
    for (int i = 0; i < k; i++) {
      centres[i] = moved(centres[i], sums[i]);
      result.sizes[i] = static_cast<uint32_t>(sums[i].count);
    }
    result.iterations++;
    result.converged = changed == 0;
  }
  result.centres = centres;
  return result;
}

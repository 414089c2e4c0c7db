// k-means++: the first centre is any point, each further one a point drawn with a probability that
// grows with the square of its distance from the centres so far. The seed is fixed, so the same
// points always give the same centres.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../support/random.h"
#include "clustering.h"

inline std::vector<Centre> first_centres(const std::vector<uint32_t> &points, int k) {
  auto centre_at = [](uint32_t colour) {
    return Centre{red(colour) * kScale, green(colour) * kScale, blue(colour) * kScale};
  };
  Random random(7);
  std::vector<Centre> centres = {centre_at(points[random.below(points.size())])};
  std::vector<int> weights(points.size(), INT32_MAX);  // squared distance from the nearest centre
  while (static_cast<int>(centres.size()) < k) {
    uint64_t total = 0;
    for (size_t i = 0; i < points.size(); i++) {
      weights[i] = std::min(weights[i], distance(points[i], centres.back()));
      total += weights[i];
    }
    // With fewer different colours than clusters nothing is left to draw: those stay empty.
    size_t chosen = 0;
    if (total > 0) {
      uint64_t draw = random.below(total);
      while (draw >= static_cast<uint64_t>(weights[chosen])) draw -= weights[chosen++];
    }
    centres.push_back(centre_at(points[chosen]));
  }
  return centres;
}

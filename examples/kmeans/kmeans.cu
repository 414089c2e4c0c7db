// k-means on the colours of a photograph: Lloyd's iterations on the device until no point changes
// its cluster, the result compared with a CPU implementation, the picture painted in its k colours.

#include <string>
#include <vector>

#include "../support/arguments.h"
#include "../support/checksum.h"
#include "../support/random.h"
#include "../support/stopwatch.h"
#include "clustering.h"
#include "device.h"
#include "picture.h"
#include "reference.h"
#include "seeding.h"

static int stop(const std::string &problem) {
  std::fprintf(stderr, "kmeans: %s\n", problem.c_str());
  return 1;
}

// Points for trials without a file: clouds around a few colours.
static std::vector<uint32_t> generated(int count) {
  constexpr int kClouds = 12, kSpread = 40;
  Random random(8);
  std::vector<uint32_t> middles(kClouds), points(count);
  auto channel = [&] { return kSpread + static_cast<int>(random.below(256 - 2 * kSpread)); };
  for (uint32_t &middle : middles) {
    int r = channel(), g = channel(), b = channel();
    middle = colour_of(r, g, b);
  }
  // The sum of two draws: more points near the middle than far from it.
  auto off = [&] {
    return static_cast<int>(random.below(kSpread) + random.below(kSpread)) - kSpread;
  };
  for (uint32_t &point : points) {
    uint32_t middle = middles[random.below(kClouds)];
    int r = red(middle) + off(), g = green(middle) + off(), b = blue(middle) + off();
    point = colour_of(r, g, b);
  }
  return points;
}

// What differs first, or an empty string.
static std::string difference(const Clustering &device, const Clustering &cpu) {
  if (device.iterations != cpu.iterations || device.converged != cpu.converged) {
    return "the device took " + std::to_string(device.iterations) + " iterations, the CPU " +
           std::to_string(cpu.iterations);
  }
  for (size_t i = 0; i < cpu.centres.size(); i++) {
    const Centre &ours = device.centres[i], &theirs = cpu.centres[i];
    if (ours.r != theirs.r || ours.g != theirs.g || ours.b != theirs.b ||
        device.sizes[i] != cpu.sizes[i]) {
      return "cluster " + std::to_string(i) + " is not the CPU's";
    }
  }
  for (size_t i = 0; i < cpu.labels.size(); i++) {
    if (device.labels[i] != cpu.labels[i]) {
      return "point " + std::to_string(i) + " is in cluster " + std::to_string(device.labels[i]) +
             ", on the CPU in " + std::to_string(cpu.labels[i]);
    }
  }
  return "";
}

static uint32_t colour_of(const Centre &centre) {
  auto round = [](int value) { return (value + kScale / 2) / kScale; };
  return colour_of(round(centre.r), round(centre.g), round(centre.b));
}

static void report(const Clustering &result, const char *verdict) {
  std::printf("kmeans: %zu points, %zu clusters, %d iterations, %s\n", result.labels.size(),
              result.centres.size(), result.iterations,
              result.converged ? "converged" : "stopped at the limit");
  for (size_t i = 0; i < result.centres.size(); i++) {
    const Centre &centre = result.centres[i];
    std::printf("  cluster %3zu: %8u points, red %7.3f green %7.3f blue %7.3f\n", i,
                result.sizes[i], static_cast<double>(centre.r) / kScale,
                static_cast<double>(centre.g) / kScale, static_cast<double>(centre.b) / kScale);
  }
  std::printf("kmeans: checksum %016llx, %s\n",
              static_cast<unsigned long long>(checksum(result.labels.data(), result.labels.size())),
              verdict);
}

int main(int argc, char **argv) {
  Arguments arguments(argc, argv, "Clusters the colours of a picture with k-means on the device.");
  const int k = arguments.integer("--k", 8, 1, kMostClusters, "clusters");
  const int iterations = arguments.integer("--iterations", 200, 1, 100000, "rounds at most");
  std::string out = arguments.text("--out", "", "FILE", "write the picture in its k colours (PPM)");
  std::string list =
      arguments.text("--points", "", "FILE", "cluster a text file, 'R G B' per line");
  const int count = arguments.integer("--generate", 0, 0, kMostPoints, "cluster made-up points");
  arguments.flag("--check", "compare with the CPU (this is the default)");
  const bool check = !arguments.flag("--no-check", "do not compare with the CPU");
  Stopwatch watch(arguments.flag("--time", "print timings on stderr"));
  std::string picture = arguments.positional("PICTURE", "a binary PPM (P6) picture");
  if (!picture.empty() + !list.empty() + (count > 0) != 1) {
    arguments.complain("name one input: a PPM picture, --points FILE or --generate N");
  } else if (!out.empty() && picture.empty()) {
    arguments.complain("--out needs a picture as input");
  }
  arguments.finish();

  Points points;
  std::string problem;
  if (count > 0) {
    points.colours = generated(count);
  } else {
    problem = list.empty() ? read_ppm(picture, &points) : read_list(list, &points);
  }
  if (!problem.empty()) return stop(problem);
  std::vector<Centre> centres = first_centres(points.colours, k);
  watch.lap("prepare");
  Clustering result = cluster_on_device(points.colours, centres, iterations);
  watch.lap("device");
  if (check) {
    Clustering expected = cluster_on_cpu(points.colours, centres, iterations);
    watch.lap("CPU");
    problem = difference(result, expected);
    if (!problem.empty()) return stop("wrong: " + problem);
  }
  if (!out.empty()) {
    for (size_t i = 0; i < points.colours.size(); i++) {
      points.colours[i] = colour_of(result.centres[result.labels[i]]);
    }
    problem = write_ppm(out, points);
    if (!problem.empty()) return stop(problem);
  }
  report(result, check ? "correct" : "not checked");
  return 0;
}

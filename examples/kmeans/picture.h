// Pictures and point lists on disk. A point is a colour: three numbers from 0 to 255, kept in one
// 32-bit word (red lowest), so that the device reads a point with one load.
#pragma once

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

struct Points {
  std::vector<uint32_t> colours;
  int width = 0, height = 0;  // 0 when the points are not a picture
};

inline int red(uint32_t colour) { return colour & 255; }
inline int green(uint32_t colour) { return colour >> 8 & 255; }
inline int blue(uint32_t colour) { return colour >> 16 & 255; }
inline uint32_t colour_of(int r, int g, int b) {
  return static_cast<uint32_t>(r) | static_cast<uint32_t>(g) << 8 | static_cast<uint32_t>(b) << 16;
}

// So many that a block's 32-bit sums of 255 cannot overflow, and any index fits into an int.
constexpr int kMostPoints = 1 << 24;

inline std::string cannot(const char *verb, const std::string &path) {
  return "cannot " + std::string(verb) + " " + path + ": " + std::strerror(errno);
}

// The next number of a PPM header: white space and comments may stand before it.
inline int header_number(std::istream &file) {
  for (int c; (c = file.peek()) != EOF;) {
    if (c == '#') {
      std::string comment;
      std::getline(file, comment);
    } else if (std::isspace(c)) {
      file.get();
    } else {
      break;
    }
  }
  int number = 0;
  return file >> number ? number : -1;
}

// These return an empty string, or what was wrong with which file.

inline std::string read_ppm(const std::string &path, Points *points) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return cannot("open", path);
  char magic[2] = {};
  if (!file.read(magic, 2) || magic[0] != 'P' || magic[1] != '6') {
    return path + " is not a binary PPM picture: it does not start with P6";
  }
  int width = header_number(file), height = header_number(file), most = header_number(file);
  if (width < 1 || height < 1 || most != 255 || !std::isspace(file.get())) {
    return path + " has a PPM header that makes no sense here: width, height and 255 were expected";
  }
  long long count = static_cast<long long>(width) * height;
  if (count > kMostPoints) {
    return path + " has " + std::to_string(count) + " pixels; " + std::to_string(kMostPoints) +
           " are the most";
  }
  std::string bytes(static_cast<size_t>(count) * 3, '\0');
  if (!file.read(&bytes[0], bytes.size())) {
    return path + " ends early: " + std::to_string(width) + " x " + std::to_string(height) +
           " pixels need " + std::to_string(bytes.size()) + " bytes, there are " +
           std::to_string(file.gcount());
  }
  points->width = width;
  points->height = height;
  points->colours.resize(static_cast<size_t>(count));
  const unsigned char *byte = reinterpret_cast<const unsigned char *>(bytes.data());
  for (uint32_t &colour : points->colours) {
    colour = colour_of(byte[0], byte[1], byte[2]);
    byte += 3;
  }
  return "";
}

// One point per line: 12 200 7
inline std::string read_list(const std::string &path, Points *points) {
  std::ifstream file(path);
  if (!file) return cannot("open", path);
  std::string line;
  for (int number = 1; std::getline(file, line); number++) {
    std::istringstream words(line);
    int r, g, b;
    std::string rest;
    if (!(words >> r >> g >> b) || words >> rest || r < 0 || r > 255 || g < 0 || g > 255 || b < 0 ||
        b > 255) {
      return path + ", line " + std::to_string(number) +
             ": a point is three whole numbers from 0 to 255, for instance: 12 200 7";
    }
    points->colours.push_back(colour_of(r, g, b));
    if (points->colours.size() > kMostPoints) {
      return path + " has more points than the " + std::to_string(kMostPoints) + " allowed";
    }
  }
  if (points->colours.empty()) return path + " has no points";
  return "";
}

inline std::string write_ppm(const std::string &path, const Points &points) {
  std::ofstream file(path, std::ios::binary);
  if (!file) return cannot("write", path);
  file << "P6\n" << points.width << " " << points.height << "\n255\n";
  std::string bytes;
  bytes.reserve(points.colours.size() * 3);
  for (uint32_t colour : points.colours) {
    bytes += static_cast<char>(red(colour));
    bytes += static_cast<char>(green(colour));
    bytes += static_cast<char>(blue(colour));
  }
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? "" : cannot("write", path);
}

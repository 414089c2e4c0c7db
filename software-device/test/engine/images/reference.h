// A scalar texture unit in double precision: the tables of the CUDA programming guide, written
// down plainly. It shares no code with the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "texture.h"

namespace reference {

// What a fetch gives: numbers, or integers as numbers.
struct Value {
  double component[4] = {0, 0, 0, 0};
};

// Where in the image, per dimension; layers and levels apart.
struct Where {
  double at[3] = {0, 0, 0};
  int layer = 0;
  int level = 0;
  int offset[3] = {0, 0, 0};
};

bool gives_integers(const softdev::ImageView &view);
Value fetch(const softdev::ImageView &view, int dimensions, const Where &where);
// Component `c` of the four elements around a place.
Value gather(const softdev::ImageView &view, const Where &where, int c);
// A direction, as the face of a cube and the place on it in elements from 0 to 1.
void cube_face(double x, double y, double z, int *face, double *s, double *t);
double half(uint16_t bits);

}  // namespace reference

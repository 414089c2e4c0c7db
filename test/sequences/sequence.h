// Runs one sequence of driver calls.
#pragma once
#include <cstdio>

#include "world.h"

namespace sequences {

/**
 * Makes up to `steps` calls as the choices of `world` say, on so many devices, which reach
 * each other's memory or are not asked to, on the library that `symbol`
 * looks up in, and writes a line for each: what it was given, its result, what it told. Nothing in
 * it depends on the time or on what addresses and handles a library gives, so every library must
 * write the same.
 */
void run(World &world, unsigned steps, unsigned devices, bool peers,
         void *(*symbol)(const char *name), FILE *transcript);

}  // namespace sequences

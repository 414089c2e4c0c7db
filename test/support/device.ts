// The device that tests across parts and benchmarks work with: what `--device` names (scripts/setup/device.mjs), else the
// usual one, which is the software device or the null device.
import path from 'node:path';
import { softwareDevice } from './paths.js';

export interface DeviceUnderTest {
  /** For `outboard serve --device`. */
  serve: string;
  /** For LD_PRELOAD; the loader finds NVIDIA's by its name. */
  library: string;
  /** Where programs look for it; null: where the loader looks anyway. */
  folder: string | null;
  software: boolean;
}

/** What `--device` named. */
export const named = process.env['DEVICE_UNDER_TEST'] || null;

/** `usual`: the library that is used where nobody named one. */
export function deviceUnderTest(usual = softwareDevice): DeviceUnderTest {
  if (named === 'nvidia')
    return { serve: named, library: 'libcuda.so.1', folder: null, software: false };
  const library = named === null ? usual : named === 'software' ? softwareDevice : named;
  const software = library === softwareDevice;
  const serve = software ? 'software' : library;
  return { serve, library, folder: path.dirname(library), software };
}

/** For a test about what only the software device can be told to do: a reason to skip it elsewhere, or false. */
export const onlySoftware = deviceUnderTest().software
  ? false
  : `about the software device, and --device is ${named}`;

/** Arguments of a server of the device. */
export const onDevice = ['--device', deviceUnderTest().serve];

/** The environment of a program that has the device natively. */
export function searching({ folder }: DeviceUnderTest): Record<string, string> {
  return folder === null ? {} : { LD_LIBRARY_PATH: folder };
}

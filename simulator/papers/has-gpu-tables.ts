// Milliseconds of a batch of 4 on a V100, by percent of SMs and of time: the tables in HAS-GPU's code (Apache-2.0,
// internal/controller/tmp_database.go). That of ConvNeXt for 30 % is commented out there, and is what its runs used.

export type Table = Readonly<Record<number, Readonly<Record<number, number>>>>;

export const tables: Readonly<Record<string, Table>> = {
  resnet: {
    30: {
      ...{ 10: 252.2491, 20: 77.33, 30: 53.7186, 40: 35.184, 50: 31.8869 },
      ...{ 70: 21.1681, 90: 20.8474, 100: 20.9031 },
    },
  },
  convnext: {
    30: {
      ...{ 10: 419.1168, 20: 142.433, 30: 91.383, 40: 89.3453, 50: 89.442 },
      ...{ 70: 89.3799, 80: 89.2816, 90: 89.3313, 100: 89.3513 },
    },
  },
  mobilenet: {
    30: {
      ...{ 10: 319.7108, 20: 92.2712, 30: 65.4417, 40: 45.2021, 50: 36.2635 },
      ...{ 70: 26.1822, 80: 15.0624, 90: 13.7754, 100: 10.7394 },
    },
  },
  bert: {
    30: {
      ...{ 10: 240.9081, 20: 165.4163, 30: 106.917, 40: 95.4823, 50: 92.8406 },
      ...{ 60: 87.184, 70: 76.1591, 80: 77.1591, 90: 76.1591, 100: 75.1591 },
    },
    50: {
      ...{ 10: 230.4163, 20: 159.4163, 30: 109.917, 40: 99.4823, 50: 87.8406 },
      ...{ 70: 75.1591, 90: 73.1591, 100: 71.1591 },
    },
  },
};

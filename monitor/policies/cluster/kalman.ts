// HAS-GPU's forecast of the request rate: a Kalman filter of one number, lifted so that it is rather too high.

export interface Kalman {
  estimate: number;
  variance: number;
}

/** The paper's and its code's: process noise 1, measurement noise 10. */
const noise = { process: 1, measured: 10 };

export const unmeasured: Kalman = { estimate: 0, variance: 1 };

/**
 * The filter after a measurement, and what it forecasts: the estimate and `lift` standard deviations, at least what was
 * measured and `buffer`. As printed the variance is multiplied by the measurement's noise; meant is its own variance.
 * `feedback`: as in the authors' code, the forecast is the next estimate, so that it stays too high.
 */
export function kalmanStep(
  { estimate, variance }: Kalman,
  measured: number,
  { lift, buffer, feedback }: { lift: number; buffer: number; feedback: boolean },
): { filter: Kalman; forecast: number } {
  const value = Number.isFinite(measured) && measured > 0 ? measured : 0;
  const before = variance + noise.process;
  const gain = before / (before + noise.measured);
  const after = (1 - gain) * before;
  const next = estimate + gain * (value - estimate);
  const forecast = Math.max(next + lift * Math.sqrt(after), value + buffer);
  return { filter: { estimate: feedback ? forecast : next, variance: after }, forecast };
}

// What software-device-check said of some libraries, summed up.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** The part of `software-device-check --json` that is used here. */
interface Report {
  files: {
    file: string;
    problem?: string;
    modules: {
      ptxBytes: number;
      indexMicroseconds: number;
      refusal?: string;
      kernels: {
        name: string;
        translated: boolean;
        microseconds: number;
        bytes: number;
        refusal?: string;
      }[];
    }[];
  }[];
}

export interface Verdict {
  modules: number;
  /** Modules with machine code alone. */
  withoutPtx: number;
  kernels: number;
  translated: number;
  /** Refused for an instruction that the device leaves out on purpose: how many, by instruction. */
  leftOut: Map<string, number>;
  /** Everything else that was refused: this is a fault of ours. */
  faults: string[];
  ptxBytes: number;
  indexSeconds: number;
  translateSeconds: number;
  slowestMilliseconds: number;
  keptBytes: number;
}

/**
 * Instructions for one GPU's own machinery: copies by tensor maps, matrix products of a warp group
 * or through tensor memory, moving registers between warps.
 */
const leftOut =
  /`\s*(?:@!?\S+\s+)?((?:cp\.(?:reduce\.)?async\.bulk\.(?:prefetch\.)?tensor|tensormap|fence\.proxy\.tensormap|wgmma|tcgen05|setmaxnreg)\b)/;

export async function check(tool: string, libraries: string[]): Promise<Verdict> {
  const options = { maxBuffer: 1 << 30 };
  const args = ['--json', ...libraries];
  // Exit status 1 says that something was refused, which the report says better.
  const { stdout } = await promisify(execFile)(tool, args, options).catch((error) => {
    if (error.code === 1) return error as { stdout: string };
    throw error;
  });
  return judge(JSON.parse(stdout) as Report);
}

export function judge(report: Report): Verdict {
  const verdict: Verdict = {
    ...{ modules: 0, withoutPtx: 0, kernels: 0, translated: 0 },
    ...{ leftOut: new Map<string, number>(), faults: [] as string[] },
    ...{ ptxBytes: 0, indexSeconds: 0, translateSeconds: 0 },
    ...{ slowestMilliseconds: 0, keptBytes: 0 },
  };
  for (const { file, problem, modules } of report.files) {
    if (problem !== undefined) verdict.faults.push(`${file}: ${problem}`);
    for (const module of modules) {
      verdict.modules++;
      verdict.ptxBytes += module.ptxBytes;
      verdict.indexSeconds += module.indexMicroseconds / 1e6;
      if (module.refusal?.startsWith('no PTX')) verdict.withoutPtx++;
      else if (module.refusal !== undefined) verdict.faults.push(`${file}: ${module.refusal}`);
      for (const kernel of module.kernels) {
        verdict.kernels++;
        verdict.translateSeconds += kernel.microseconds / 1e6;
        verdict.slowestMilliseconds = Math.max(
          verdict.slowestMilliseconds,
          kernel.microseconds / 1e3,
        );
        verdict.keptBytes += kernel.bytes;
        if (kernel.translated) {
          verdict.translated++;
          continue;
        }
        const instruction = leftOut.exec(kernel.refusal ?? '')?.[1];
        if (instruction === undefined) verdict.faults.push(`${kernel.name}: ${kernel.refusal}`);
        else verdict.leftOut.set(instruction, (verdict.leftOut.get(instruction) ?? 0) + 1);
      }
    }
  }
  return verdict;
}

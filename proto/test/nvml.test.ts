// Descriptions of NVML's calls that are wrong are refused, with file and line and words that help.
import t from 'tap';
import { ApiError } from '../generator/api.js';
import { emitNvmlEntries, nvmlSymbols } from '../generator/emit-nvml.js';
import {
  checkNvmlApi,
  type NvmlApi,
  type NvmlFacts,
  readNvmlFamily,
} from '../generator/nvml-api.js';

const facts: NvmlFacts = {
  version: 13,
  declarations: [{ enum: 'nvmlTiny_enum', values: [['NVML_TINY', 1]] }],
  constants: [['NVML_TINY_SIZE', 16]],
  functions: {
    nvmlTinyInit: { returns: 'nvmlReturn_t', parameters: [] },
    nvmlTinyInit_v2: { returns: 'nvmlReturn_t', parameters: [] },
    nvmlTinyName: { returns: 'nvmlReturn_t', parameters: [['char *', 'name']] },
    nvmlDeviceGetTiny: {
      returns: 'nvmlReturn_t',
      parameters: [
        ['nvmlDevice_t', 'one'],
        ['unsigned int *', 'tiny'],
      ],
    },
    nvmlDeviceSetTiny: {
      returns: 'nvmlReturn_t',
      parameters: [
        ['nvmlDevice_t', 'device'],
        ['unsigned int', 'tiny'],
      ],
    },
    nvmlTinyGone: { returns: 'nvmlReturn_t', parameters: null },
  },
};

function read(...calls: string[]): NvmlApi {
  const text = ['family: tiny', 'calls:', ...calls.map((call) => `  ${call}`)].join('\n');
  const api = readNvmlFamily('bad.yaml', text, facts);
  checkNvmlApi(api);
  return api;
}

const good = 'nvmlTinyInit_v2: {answer: hand, source: library, needs: nothing}';

const bad: [calls: string[], says: string][] = [
  [['nvmlTinyInit: {'], 'bad.yaml:3: '],
  [['nvmlTinyInti: {answer: 0}'], 'bad.yaml:3: nvmlTinyInti: is no function of NVML'],
  [[good, 'nvmlTinyName:'], 'bad.yaml:4: nvmlTinyName: must be a mapping'],
  [['nvmlTinyGone: {answer: 0}'], 'bad.yaml:3: nvmlTinyGone: the header gave no prototype'],
  [['nvmlTinyInit: {class: local}'], 'bad.yaml:3: nvmlTinyInit: unknown key class'],
  [['nvmlTinyInit: {}'], 'bad.yaml:3: nvmlTinyInit: needs either `answer` or `as`'],
  [['nvmlTinyInit: {answer: hand, as: X}'], 'nvmlTinyInit: needs either `answer` or `as`'],
  [['nvmlTinyInit: {answer: hand}'], 'nvmlTinyInit: source must be one of library, session'],
  [['nvmlTinyInit: {answer: 0}'], 'nvmlTinyInit: its last parameter holds no answer'],
  [['nvmlDeviceSetTiny: {answer: 0}'], 'its last parameter holds no answer'],
  [['nvmlDeviceGetTiny: {answer: NVML_HUGE}'], 'nvmlDeviceGetTiny: NVML has no NVML_HUGE'],
  [['nvmlDeviceGetTiny: {answer: -1}'], 'the answer must be hand, a number, a constant'],
  [['nvmlTinyName: {answer: power, source: GPU}'], 'a field is that of a device'],
  [['nvmlTinyName: {answer: 0, needs: device}'], 'its first parameter is no device'],
  [['nvmlTinyName: {answer: 0, needs: context}'], 'needs must be nothing, init or device'],
  [['nvmlTinyInit: {as: nvmlTinyInit_v2}'], 'nvmlTinyInit is as nvmlTinyInit_v2, which answers'],
  [[good, 'nvmlDeviceGetTiny: {as: nvmlTinyInit_v2}'], 'has other parameters than'],
];

for (const [calls, says] of bad) {
  t.test(`${calls.at(-1)} is refused`, async (t) => {
    try {
      read(...calls);
      t.fail('it was accepted');
    } catch (error) {
      t.ok(error instanceof ApiError);
      t.match((error as Error).message, says);
    }
  });
}

t.test('a call described twice is refused, with both places', async (t) => {
  const api = { calls: [...read(good).calls, ...read(good).calls] };
  t.throws(() => checkNvmlApi(api), /nvmlTinyInit_v2 is described already \(bad.yaml:3\)/);
});

t.test('what is served, what is as another, and what is not', async (t) => {
  const api = read(
    good,
    'nvmlTinyInit: {as: nvmlTinyInit_v2, needs: nothing}',
    'nvmlTinyName: {answer: hand, source: monitor}',
    'nvmlDeviceGetTiny: {answer: tiny, source: GPU}',
  );
  const symbols = nvmlSymbols(facts);
  t.same(symbols, Object.keys(facts.functions).sort());
  const text = emitNvmlEntries(facts, api);
  t.match(text, 'return answer_nvmlTinyInit_v2();');
  t.match(text, 'return nvmlTinyInit_v2();');
  t.match(text, 'shown_begin_device(one, &shown)');
  t.match(text, 'shown->state.has_tiny');
  t.match(text, `return shown_unserved(${symbols.indexOf('nvmlTinyGone')});`);
  t.notMatch(text, /unserved_\d+\(void\) __asm__\("nvmlTinyName"\)/);
});

t.test('a function that no header declares', async (t) => {
  const text = [
    'family: tiny',
    'undocumented:',
    "  nvmlInternalTiny: {out: 'const void * *', id: 'const void *'}",
    'calls:',
    '  nvmlInternalTiny: {answer: hand, source: library, needs: nothing}',
  ].join('\n');
  const own = { ...facts, functions: { ...facts.functions } };
  const api = readNvmlFamily('tiny.yaml', text, own);
  t.ok(nvmlSymbols(own).includes('nvmlInternalTiny'));
  const entries = emitNvmlEntries(own, api);
  t.match(entries, /nvmlInternalTiny\(const void \*\s*\*\s*out, const void \*\s*id\) \{/);
  t.match(entries, 'return answer_nvmlInternalTiny(out, id);');
});

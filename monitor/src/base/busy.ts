// What the figure `busy` of a GPU counts, in words for who reads it.

/** `device` as a server's view has it: software, nvidia or library. */
export function busyMeaning(device: string): string {
  return device === 'software'
    ? "the part of its threads' processor time that work of sessions took in the last second: one block of a kernel takes one thread"
    : 'the part of the last second in which work of sessions was on the GPU, however little of it the work fills';
}

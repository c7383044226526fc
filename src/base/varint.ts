// Writes protobuf varints: seven bits a byte, the lowest first.

/** Bytes of a whole number from 0 to 2^53. */
export function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes++
  return bytes
}

/** Writes it at `start`; returns the offset after it. */
export function writeVarint(target: Uint8Array, start: number, value: number): number {
  let at = start
  let rest = value
  while (rest >= 0x80) {
    target[at++] = (rest % 0x80) | 0x80
    rest = Math.floor(rest / 0x80)
  }
  target[at++] = rest
  return at
}

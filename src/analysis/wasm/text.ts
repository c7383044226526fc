// Writes JSON text into memory, left to right. Thread: analysis worker.
// The caller has made sure that there is room: encode.ts knows how long its texts can be.

/** Writes the shortest decimal form of `value` (as JavaScript prints it) at `at`; its length. */
// @ts-ignore: decorator
@external('env', 'writeNumber')
declare function writeNumber(value: f64, at: u32): u32

/** Where the next character goes. */
export let cursor: u32 = 0

export function startText(at: u32): void {
  cursor = at
}

/** Copies a constant text; `text` is a string literal, so its characters are two bytes wide. */
export function put(text: string): void {
  const from = changetype<usize>(text)
  const length = text.length
  for (let index = 0; index < length; index++)
    store<u8>(cursor + index, load<u8>(from + (<usize>index << 1)))
  cursor += length
}

export function putByte(code: u32): void {
  store<u8>(cursor, <u8>code)
  cursor++
}

/** `"0x…"`, two digits per byte. */
export function putHex(at: u32, length: u32): void {
  store<u8>(cursor, 0x22)
  store<u16>(cursor, 0x7830, 1)
  let to = cursor + 3
  for (let index: u32 = 0; index < length; index++) {
    const byte = <u32>load<u8>(at + index)
    store<u16>(to, <u16>(digit(byte >> 4) | (digit(byte & 15) << 8)))
    to += 2
  }
  store<u8>(to, 0x22)
  cursor = to + 1
}

// @ts-ignore: decorator
@inline
function digit(value: u32): u32 {
  // '0' is 0x30, 'a' is 0x57 + 10.
  return value + (value < 10 ? 0x30 : 0x57)
}

export function putU64(value: u64): void {
  let digits: u32 = 1
  for (let rest = value / 10; rest != 0; rest /= 10) digits++
  let at = cursor + digits
  let rest = value
  do {
    at--
    store<u8>(at, <u8>(0x30 + (rest % 10)))
    rest /= 10
  } while (rest != 0)
  cursor += digits
}

export function putU32(value: u32): void {
  putU64(<u64>value)
}

export function putF64(value: f64): void {
  cursor += writeNumber(value, cursor)
}

// Writes JSON text into memory, left to right. Thread: analysis worker.
// No bounds checks: encode.ts provides a buffer for the longest text it can write.

/** Writes the shortest decimal form of `value` (as JavaScript prints it) at `at`; its length. */
// @ts-ignore: decorator
@external('env', 'writeNumber')
declare function writeNumber(value: f64, at: u32): u32

/** Address of the next character. */
export let cursor: u32 = 0

export function startText(at: u32): void {
  cursor = at
}

/** Copies a constant text; `text` is a string literal, so its characters are two bytes wide. */
export function put(text: string): void {
  const from = changetype<usize>(text)
  const length = text.length
  // Four characters at a time; what is written past the end is overwritten by what follows.
  for (let index = 0; index < length; index += 4) {
    let four = load<u64>(from + (<usize>index << 1)) & 0x00ff00ff00ff00ff
    four = (four | (four >> 8)) & 0x0000ffff0000ffff
    store<u32>(cursor + index, <u32>(four | (four >> 16)))
  }
  cursor += length
}

export function putByte(code: u32): void {
  store<u8>(cursor, <u8>code)
  cursor++
}

/** `"0x…"`, two digits per byte; `length` is a multiple of 4. */
export function putHex(at: u32, length: u32): void {
  store<u8>(cursor, 0x22)
  store<u16>(cursor, 0x7830, 1)
  let to = cursor + 3
  for (let index: u32 = 0; index < length; index += 4) {
    store<u64>(to, eightDigits(load<u32>(at + index)))
    to += 8
  }
  store<u8>(to, 0x22)
  cursor = to + 1
}

/** The hex digits of four bytes, the first byte's first, in the order of memory. */
// @ts-ignore: decorator
@inline
function eightDigits(bytes: u32): u64 {
  // Spread the bytes over lanes of 16 bits, then the nibbles over lanes of 8.
  let lanes = <u64>bytes
  lanes = (lanes | (lanes << 16)) & 0x0000ffff0000ffff
  lanes = (lanes | (lanes << 8)) & 0x00ff00ff00ff00ff
  lanes = ((lanes >> 4) & 0x000f000f000f000f) | ((lanes & 0x000f000f000f000f) << 8)
  // '0' is 0x30; from 10 on 'a' - 10 is 39 further. Adding 6 carries exactly there.
  const letters = ((lanes + 0x0606060606060606) >> 4) & 0x0101010101010101
  return lanes + 0x3030303030303030 + letters * 39
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

// Changes an input: bits, numbers, words, and pieces of itself or of another input.
import type { Chance } from './target.ts'

const changesMax = 5
/** Numbers at which lengths, counts and signs turn. */
const edges = [0, 1, 7, 8, 16, 31, 32, 63, 64, 100, 127, 128, 255, 256, 1023, 1024, 4096, 32767]
const wideEdges = [...edges, 32768, 65535, 65536, 2 ** 24, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1]
const numberTexts = ['0', '-0', '1', '-1', '01', '1e9', '0x10', '2147483648', '4294967296']
const longNumberTexts = [
  '9007199254740993',
  '18446744073709551615',
  '18446744073709551616',
  '1e400',
]
const pieceBytesMax = 64
/** One in so many inputs is swollen to its greatest length: nesting and loops show there. */
const swollenOneIn = 150

export interface Material {
  readonly others: readonly { readonly bytes: Uint8Array }[]
  readonly words: readonly Uint8Array[]
  readonly bytesMax: number
}

export function mutate(input: Uint8Array, chance: Chance, material: Material): Buffer {
  let bytes: Buffer = Buffer.from(input)
  if (chance.below(swollenOneIn) === 0) bytes = swell(bytes, chance, material.bytesMax)
  for (let changes = 1 + chance.below(changesMax); changes > 0; changes--)
    bytes = chance.one(kinds)(bytes, chance, material)
  return bytes.length > material.bytesMax ? bytes.subarray(0, material.bytesMax) : bytes
}

type Change = (bytes: Buffer, chance: Chance, material: Material) => Buffer

const flipBit: Change = (bytes, chance) => {
  if (bytes.length > 0) bytes[chance.below(bytes.length)]! ^= 1 << chance.below(8)
  return bytes
}

const setByte: Change = (bytes, chance) => {
  if (bytes.length === 0) return Buffer.of(chance.below(256))
  bytes[chance.below(bytes.length)] = chance.below(2) === 0 ? chance.one(edges) : chance.below(256)
  return bytes
}

const addToByte: Change = (bytes, chance) => {
  if (bytes.length > 0) bytes[chance.below(bytes.length)]! += chance.below(33) - 16
  return bytes
}

const setWide: Change = (bytes, chance) => {
  const width = chance.one([2, 4, 8])
  if (bytes.length < width) return bytes
  const at = chance.below(bytes.length - width + 1)
  const value = BigInt(chance.one(wideEdges)) - BigInt(chance.below(3))
  const field = Buffer.alloc(8)
  field.writeBigInt64LE(chance.below(8) === 0 ? -value : value)
  const part = field.subarray(0, width)
  bytes.set(chance.below(2) === 0 ? part : part.reverse(), at)
  return bytes
}

const remove: Change = (bytes, chance) => {
  const [from, to] = pieceOf(bytes, chance)
  return Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)])
}

const cut: Change = (bytes, chance) => bytes.subarray(0, chance.below(bytes.length + 1))

const repeat: Change = (bytes, chance) => {
  const [from, to] = pieceOf(bytes, chance)
  return insertAt(bytes, chance.below(bytes.length + 1), bytes.subarray(from, to))
}

const insertNoise: Change = (bytes, chance) => {
  const noise = Buffer.from(Array.from({ length: 1 + chance.below(8) }, () => chance.below(256)))
  return insertAt(bytes, chance.below(bytes.length + 1), noise)
}

const useWord: Change = (bytes, chance, { words }) => {
  if (words.length === 0) return bytes
  const word = chance.one(words)
  const at = chance.below(bytes.length + 1)
  const over = chance.below(2) === 0 ? 0 : word.length
  return Buffer.concat([bytes.subarray(0, at), word, bytes.subarray(at + over)])
}

const useOther: Change = (bytes, chance, { others }) => {
  const other = Buffer.from(chance.one(others).bytes)
  const [from, to] = pieceOf(other, chance, other.length)
  const at = chance.below(bytes.length + 1)
  const kept = chance.below(2) === 0 ? at : Math.min(bytes.length, at + to - from)
  return Buffer.concat([bytes.subarray(0, at), other.subarray(from, to), bytes.subarray(kept)])
}

/** A number of a text becomes another one. */
const setNumberText: Change = (bytes, chance) => {
  const start = bytes.length === 0 ? -1 : chance.below(bytes.length)
  const digit = bytes.findIndex((byte, at) => at >= start && isDigit(byte))
  if (digit < 0) return bytes
  let end = digit
  while (end < bytes.length && isDigit(bytes[end]!)) end++
  const number = chance.below(2) === 0 ? chance.one(numberTexts) : chance.one(longNumberTexts)
  return Buffer.concat([bytes.subarray(0, digit), Buffer.from(number), bytes.subarray(end)])
}

const kinds: readonly Change[] = [
  ...[flipBit, setByte, setByte, addToByte, setWide, setWide, remove, remove, cut],
  ...[repeat, repeat, insertNoise, useWord, useWord, useOther, useOther, setNumberText],
]

function swell(bytes: Buffer, chance: Chance, bytesMax: number): Buffer {
  const [from, to] = pieceOf(bytes, chance)
  const room = Math.floor((bytesMax - bytes.length) / Math.max(1, to - from))
  if (room <= 1 || to === from) return bytes
  const piece = bytes.subarray(from, to)
  return insertAt(bytes, to, Buffer.alloc(piece.length * (1 + chance.below(room)), piece))
}

function pieceOf(bytes: Buffer, chance: Chance, most = pieceBytesMax): [number, number] {
  if (bytes.length === 0) return [0, 0]
  const from = chance.below(bytes.length)
  return [from, Math.min(bytes.length, from + 1 + chance.below(Math.max(1, most)))]
}

function insertAt(bytes: Buffer, at: number, piece: Uint8Array): Buffer {
  return Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at)])
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}

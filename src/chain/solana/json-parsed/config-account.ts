// Parses accounts of the config program for `jsonParsed`.
//
//   count u8 (7 bits each, more bytes above 127) | { key[32], signer u8 }… | data
//   stake config:   rate f64 | penalty u8
//   validator info: JSON, prefixed by its length as u64
import { Cursor } from '../cursor.ts'
import { isSameKey } from '../keys.ts'
import { stakeConfig, validatorInfo } from '../programs.ts'
import { layout } from './layout.ts'
import type { Parsed, ParsedAccount } from './parsed.ts'

const readStakeConfig = layout('warmupCooldownRate:f64 slashPenalty:u8')
const readKey = layout('pubkey:key signer:bool')

export function parsedConfig({ pubkey, data }: ParsedAccount): Parsed | null {
  const cursor = new Cursor(data)
  const count = compactCount(cursor)
  const first = data.subarray(data.length - cursor.left)
  const keys: unknown[] = []
  while (keys.length < count && !cursor.isShort) keys.push(readKey(cursor))
  if (isSameKey(pubkey, stakeConfig)) {
    const info = readStakeConfig(cursor)
    return cursor.isShort ? null : { info, type: 'stakeConfig' }
  }
  if (count === 0 || !isSameKey(first.subarray(0, 32), validatorInfo)) return null
  const text = cursor.text(cursor.u64())
  const configData = cursor.isShort ? undefined : jsonValue(text)
  return configData === undefined ? null : { info: { configData, keys }, type: 'validatorInfo' }
}

function compactCount(cursor: Cursor): number {
  let count = 0
  for (let shift = 0; shift < 21; shift += 7) {
    const byte = cursor.u8()
    count |= (byte & 0x7f) << shift
    if (byte < 0x80) break
  }
  return count
}

/** Undefined when the text is not JSON. */
function jsonValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

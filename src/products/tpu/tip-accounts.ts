// The accounts that tips go to: the operator's, or eight generated on the embedded chain.
// The whole list is replaced when the operator changes it.
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { assert } from '../../base/assert.ts'
import { Fault } from '../../base/errors.ts'
import { decodeKey, encodeBase58 } from '../../chain/solana/base58.ts'
import { Keypair } from '../../chain/solana/keypair.ts'
import { tipAccountsMax } from './config.ts'

/** The embedded chain uses eight generated keys. */
const generatedAccounts = 8

export class TipAccounts {
  #texts: readonly string[] = []
  #json = '[]'
  /** All keys, concatenated, and the first four bytes of each, which nearly always decide. */
  #keys = new Uint8Array(0)
  #starts = new Int32Array(0)

  constructor(texts: readonly string[]) {
    this.replace(texts)
  }

  get texts(): readonly string[] {
    return this.#texts
  }

  /** The texts as a JSON array. */
  get json(): string {
    return this.#json
  }

  replace(texts: readonly string[]): void {
    assert(texts.length >= 1 && texts.length <= tipAccountsMax, 'there are 1 to 32 tip accounts')
    const keys = new Uint8Array(texts.length * 32)
    texts.forEach((text, index) => {
      const key = decodeKey(text)
      assert(key !== null, 'a tip account is a key')
      keys.set(key, index * 32)
    })
    this.#texts = [...texts]
    this.#json = JSON.stringify(texts)
    this.#keys = keys
    this.#starts = Int32Array.from(texts, (_, index) => start(keys, index * 32))
  }

  /** Index of the tip account whose key is at `at`; -1 when it is not a tip account. */
  find(bytes: Uint8Array, at: number): number {
    const wanted = start(bytes, at)
    for (let index = 0; index < this.#starts.length; index++)
      if (this.#starts[index] === wanted && this.#isAt(index, bytes, at)) return index
    return -1
  }

  #isAt(index: number, bytes: Uint8Array, at: number): boolean {
    for (let byte = 4; byte < 32; byte++)
      if (this.#keys[index * 32 + byte] !== bytes[at + byte]) return false
    return true
  }
}

/**
 * The embedded chain's tip accounts, generated once and stored in the file, so that they stay the
 * same. Their private keys are discarded: tips there have no value.
 */
export function keptTipAccounts(path: string): readonly string[] {
  if (existsSync(path)) return readKept(path)
  const texts = Array.from({ length: generatedAccounts }, () =>
    encodeBase58(new Keypair(randomBytes(32)).publicKey),
  )
  const fresh = `${path}.${process.pid}`
  writeFileSync(fresh, `${JSON.stringify({ tipAccounts: texts }, null, 2)}\n`, { mode: 0o600 })
  renameSync(fresh, path)
  return texts
}

function readKept(path: string): readonly string[] {
  try {
    const { tipAccounts } = JSON.parse(readFileSync(path, 'utf8')) as { tipAccounts?: unknown }
    if (isUsable(tipAccounts)) return tipAccounts
  } catch {
    // Reported below, like any other unusable content.
  }
  throw new Fault(
    'tip-accounts',
    `${path} does not contain tip accounts: repair it or move it away`,
  )
}

function isUsable(list: unknown): list is string[] {
  if (!Array.isArray(list) || list.length < 1 || list.length > tipAccountsMax) return false
  return list.every((text) => typeof text === 'string' && decodeKey(text) !== null)
}

function start(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
}

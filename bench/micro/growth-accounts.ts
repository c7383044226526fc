// What a read and a write of the stream cost as the cache of accounts grows.
// Thread: main of the bench process; each size is a process of its own.

import { slotStatus } from '../../src/chain/solana/updates.ts'
import { AccountCache } from '../../src/streams/answers/account-cache.ts'
import { StreamChain } from '../../test/testkit/stream-chain.ts'
import { growthBench, type OpenWorks, type Work } from '../lib/growth.ts'

const owner = Buffer.alloc(32, 7)
const data = Buffer.alloc(165, 3)
const stride = 7_919
const firstSlot = 12
const writesPerSlot = 256
/** As many as the cache makes at once. */
const readsPerTurn = 32
/** What the cache counts for an account, and for one that was asked for once. */
const accountBytes = 320 + 512 + data.length
const askedBytes = 320

export const bench = growthBench({
  name: 'growth-accounts',
  question: 'What does a larger cache of accounts cost?',
  axis: 'accounts in the cache',
  sizes: [1_000, 10_000, 100_000, 1_000_000],
  sizeMax: 100_000,
  lines: [
    'read one account',
    'read all in turn',
    'write of the stream',
    'new account, one evicted',
  ],
  file: import.meta.url,
})

export const open: OpenWorks = async (size) => {
  const chain = new StreamChain()
  let slot = firstSlot
  const cacheOf = (bytesMax: number) =>
    new AccountCache(chain.hub, {
      bytesMax,
      read: async (pubkey) => ({ slot, account: { ...content, pubkey } }),
    })
  // Room for a second version of those that the stream writes.
  const cache = cacheOf(2 * size * accountBytes)
  const asked = cacheOf(size * askedBytes)
  chain.grow(10, slot)
  for (let index = 0; index < size; index++) {
    cache.read(keyAt(index), slot)
    cache.read(keyAt(index), slot)
    asked.read(keyAt(index), slot)
    if (index % readsPerTurn === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  let at = 0
  const next = () => {
    at = (at + stride) % size
    return at
  }
  let missing = 0
  const readWork = (indexOf: () => number): Work => ({
    stepsPerTurn: 64,
    step() {
      if (cache.read(keyAt(indexOf()), slot) === undefined) missing++
      return 1
    },
    problem: () => (missing === 0 ? undefined : `${missing} accounts were not in the cache`),
  })
  let writes = 0
  let guests = size
  return {
    'read one account': readWork(() => size >> 1),
    'read all in turn': readWork(next),
    'write of the stream': {
      stepsPerTurn: 64,
      step() {
        if (++writes % writesPerSlot === 0) {
          chain.reach(slot, slotStatus.finalized)
          slot++
          chain.grow(slot, slot)
        }
        // Into a confirmed slot: it is applied at once.
        chain.write(slot, { pubkey: keyAt(next()), lamports: writes, owner, data })
        return 1
      },
    },
    'new account, one evicted': {
      stepsPerTurn: 64,
      step() {
        asked.read(keyAt(++guests), slot)
        return 1
      },
      problem: () => (asked.size === size ? undefined : `${asked.size} accounts are kept`),
    },
  }
}

const content = { lamports: 5n, owner, executable: false, rentEpoch: 0n, data }

function keyAt(index: number): Buffer {
  const key = Buffer.alloc(32)
  key.writeUInt32BE(Math.imul(index + 1, 0x9e3779b1) >>> 0)
  key.writeUInt32BE(index, 4)
  return key
}

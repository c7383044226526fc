// Updates per second of Space-Saving with 4,096 counters: keys of 20 and 52 bytes, Zipf 1.1 over
// a million keys. Thread: main of the bench process.
// The Map version keeps hex strings in a Map and its buckets as Sets; the limit is the same
// structure in C (bench/native/ss.c) on the same bytes.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openProgram, type Program } from '../../src/streams/analysis/memory.ts'
import { loadAnalysisModule } from '../../src/streams/flows/execution.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { buildNative, compilerMissing, runNative } from '../lib/native.ts'
import { repeat } from '../lib/repeat.ts'

const counters = 4096
const samples = 2 ** 20
const distinct = 2 ** 20
const exponent = 1.1
/** Every way feeds all samples this often before its counters are compared. */
const passes = 4
const keyLengths = [20, 52] as const
const pageBytes = 65_536
const trackerAt = 2 * pageBytes
const topAt = 32 * pageBytes
const keysAt = 40 * pageBytes

class Keys {
  readonly #length: number
  #bytes: Uint8Array | null = null
  #folder = ''

  constructor(length: number) {
    this.#length = length
  }

  get bytes(): Uint8Array {
    this.#bytes ??= zipfKeys(this.#length)
    return this.#bytes
  }

  /** The same bytes for the C program. */
  get path(): string {
    if (this.#folder === '') {
      this.#folder = mkdtempSync(join(tmpdir(), 'sluice-bench-keys-'))
      writeFileSync(join(this.#folder, 'keys'), this.bytes)
    }
    return join(this.#folder, 'keys')
  }

  close(): void {
    if (this.#folder !== '') rmSync(this.#folder, { recursive: true, force: true })
    this.#folder = ''
    this.#bytes = null
  }
}

/** Counts of the largest counters by key length, as the first way found them. */
const known = new Map<number, string>()

export const bench: Bench = {
  name: 'space-saving',
  question: 'How many accesses can be counted per second with 4,096 counters?',
  cores: 1,
  baseline: plainWay(20, new Keys(20)),
  candidates: [
    ourWay(20, new Keys(20)),
    nativeWay(20, new Keys(20)),
    plainWay(52, new Keys(52)),
    ourWay(52, new Keys(52)),
    nativeWay(52, new Keys(52)),
  ],
  goals: keyLengths.flatMap((length) => [
    { contender: ours(length), to: native(length), figure: 'opsPerSecond', atLeast: 0.75 },
    { contender: ours(length), to: plain(length), figure: 'opsPerSecond', atLeast: 20 },
  ]),
  smoke: [plain(52), ours(52), native(52)],
  verify({ evidence }, contender) {
    const counts = evidence?.counts
    if (counts === undefined) return undefined
    const length = contender.includes('52') ? 52 : 20
    const text = JSON.stringify(counts)
    const first = known.get(length) ?? text
    known.set(length, first)
    return first === text ? undefined : `counted ${text}, another way ${first}`
  },
}

function plain(length: number): string {
  return `Map and Sets, ${length}-byte keys`
}

function ours(length: number): string {
  return `Space-Saving, ${length}-byte keys`
}

function native(length: number): string {
  return `C, ${length}-byte keys`
}

function ourWay(length: number, keys: Keys): Contender {
  let program: Program
  let memory: WebAssembly.Memory
  return {
    name: ours(length),
    async prepare() {
      const pages = 41 + Math.ceil((samples * length) / pageBytes)
      memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
      program = openProgram({ memory, module: await loadAnalysisModule(), syncTable: pageBytes })
      new Uint8Array(memory.buffer).set(keys.bytes, keysAt)
    },
    async run({ seconds }) {
      program.formatTracker(trackerAt, counters, length)
      program.feedKeys(trackerAt, keysAt, samples, length)
      const measured = repeat(seconds, samples, () => {
        program.feedKeys(trackerAt, keysAt, samples, length)
      })
      program.formatTracker(trackerAt, counters, length)
      for (let pass = 0; pass < passes; pass++) program.feedKeys(trackerAt, keysAt, samples, length)
      const found = program.writeTop(trackerAt, 10, topAt)
      const view = new DataView(memory.buffer)
      const entry = 16 + ((length + 7) & ~7)
      const counts = Array.from({ length: found }, (_, index) =>
        Number(view.getBigUint64(topAt + index * entry, true)),
      )
      return { ...measured, evidence: { counts } }
    },
    async close() {
      keys.close()
    },
  }
}

function nativeWay(length: number, keys: Keys): Contender {
  let program = ''
  return {
    name: native(length),
    missing: () => compilerMissing(),
    async prepare() {
      program = await buildNative('ss')
    },
    async run() {
      const answer = await runNative(program, [keys.path, length, counters, passes - 1])
      return { opsPerSecond: answer.perSecond!, evidence: { counts: answer.counts } }
    },
    async close() {
      keys.close()
    },
  }
}

function plainWay(length: number, keys: Keys): Contender {
  return {
    name: plain(length),
    async run({ seconds }) {
      const tracker = new MapTracker(counters)
      const bytes = Buffer.from(keys.bytes.buffer)
      let at = 0
      const batch = 4096
      return repeat(seconds, batch, () => {
        for (let index = 0; index < batch; index++) {
          tracker.count(bytes.toString('hex', at, at + length))
          at = (at + length) % bytes.length
        }
      })
    },
    async close() {
      keys.close()
    },
  }
}

/** Space-Saving as one would write it with the language's own containers. */
class MapTracker {
  readonly #limit: number
  readonly #counters = new Map<string, { count: number; error: number }>()
  readonly #buckets = new Map<number, Set<string>>()
  #least = 1

  constructor(limit: number) {
    this.#limit = limit
  }

  count(key: string): void {
    const counter = this.#counters.get(key)
    if (counter !== undefined) {
      this.#leave(counter.count, key)
      counter.count += 1
      this.#enter(counter.count, key)
      return
    }
    if (this.#counters.size < this.#limit) {
      this.#counters.set(key, { count: 1, error: 0 })
      this.#least = 1
      this.#enter(1, key)
      return
    }
    while (!this.#buckets.has(this.#least)) this.#least += 1
    const count = this.#least
    const [victim = ''] = this.#buckets.get(count) ?? []
    this.#leave(count, victim)
    this.#counters.delete(victim)
    this.#counters.set(key, { count: count + 1, error: count })
    this.#enter(count + 1, key)
  }

  #enter(count: number, key: string): void {
    const bucket = this.#buckets.get(count)
    if (bucket === undefined) this.#buckets.set(count, new Set([key]))
    else bucket.add(key)
  }

  #leave(count: number, key: string): void {
    const bucket = this.#buckets.get(count)
    bucket?.delete(key)
    if (bucket?.size === 0) this.#buckets.delete(count)
  }
}

/** Keys back to back from a seeded generator: every run measures the same ones. */
function zipfKeys(length: number): Uint8Array {
  const cumulative = new Float64Array(distinct)
  let sum = 0
  for (let index = 0; index < distinct; index++) {
    sum += 1 / (index + 1) ** exponent
    cumulative[index] = sum
  }
  let state = 123_456_789
  const words = new Int32Array((samples * length) / 4)
  const wordsEach = length / 4
  for (let sample = 0; sample < samples; sample++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    const target = ((state >>> 0) / 2 ** 32) * sum
    let low = 0
    let high = distinct - 1
    while (low < high) {
      const middle = (low + high) >> 1
      if (cumulative[middle]! < target) low = middle + 1
      else high = middle
    }
    for (let word = 0; word < wordsEach; word++) words[sample * wordsEach + word] = mix(low, word)
  }
  return new Uint8Array(words.buffer)
}

function mix(index: number, word: number): number {
  let hash = Math.imul(index + 1, 0x9e3779b1) ^ Math.imul(word + 1, 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39)
  return hash ^ (hash >>> 15)
}

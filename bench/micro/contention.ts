// Blocks per second of the contention analysis, JSON included, at two sizes of blocks.
// Thread: main of the bench process. The limit is the same in C on the same records
// (bench/native/cont.c); the plain way is Maps and Sets of strings.
import type { Bench, Contender } from '../lib/bench.ts'
import { buildNative, compilerMissing, runNative } from '../lib/native.ts'
import { type PlainResult, plainContention } from '../lib/plain-contention.ts'
import { repeat } from '../lib/repeat.ts'
import { Shared } from '../lib/shared.ts'
import { type BlockShape, SyntheticBlock } from '../lib/synthetic-block.ts'

const mebibyte = 1024 * 1024
const sizes: readonly (BlockShape & { readonly name: string })[] = [
  { name: '40,000 accesses', txns: 5000, accessesEach: 8, ringBytes: 16 * mebibyte },
  { name: '400,000 accesses', txns: 50_000, accessesEach: 8, ringBytes: 128 * mebibyte },
]

interface Contention extends Omit<PlainResult, 'topSlots' | 'topContracts' | 'topEdges'> {
  readonly top_contended_slots: readonly { readonly txn_count: number }[]
  readonly top_contended_contracts: readonly { readonly contended_slots: number }[]
  readonly contract_edges: readonly { readonly shared_txn_count: number }[]
}

const ways = sizes.map((shape) => waysOf(shape.name, new Shared(() => SyntheticBlock.make(shape))))
const [small, large] = ways
/** What the first way found, per size. */
const known = new Map<string, string>()

export const bench: Bench = {
  name: 'contention',
  question: 'How many blocks per second can be analysed for contention?',
  cores: 1,
  baseline: small!.plain,
  candidates: [small!.ours, small!.native, large!.plain, large!.ours, large!.native],
  goals: ways.flatMap(({ plain, ours, native }) => [
    { contender: ours.name, to: native.name, figure: 'opsPerSecond' as const, atLeast: 0.75 },
    { contender: ours.name, to: plain.name, figure: 'opsPerSecond' as const, atLeast: 12 },
  ]),
  smoke: [small!.plain.name, small!.ours.name, small!.native.name],
  verify({ evidence }, contender) {
    const size = contender.slice(contender.indexOf(', ') + 2)
    const found = JSON.stringify(evidence)
    const first = known.get(size) ?? found
    known.set(size, first)
    return first === found ? undefined : `found ${found}, another way ${first}`
  },
}

function waysOf(size: string, source: Shared<SyntheticBlock>) {
  let program = ''
  const close = () => source.stop()
  const plain: Contender = {
    name: `Maps and Sets, ${size}`,
    async run(context) {
      const { bytes } = await source.get(context)
      let result: PlainResult | undefined
      const measured = repeat(context.seconds, 1, () => {
        result = plainContention(bytes)
      })
      return { ...measured, evidence: { ...result } }
    },
    close,
  }
  const ours: Contender = {
    name: `analysis, ${size}`,
    async run(context) {
      const block = await source.get(context)
      const text = block.analyse()
      const measured = repeat(context.seconds, 1, () => block.analyse())
      return { ...measured, evidence: { ...summary(JSON.parse(text) as Contention) } }
    },
    close,
  }
  const native: Contender = {
    name: `C, ${size}`,
    missing: compilerMissing,
    async prepare() {
      program = await buildNative('cont')
    },
    async run(context) {
      const { path, bytes } = await source.get(context)
      // About 4 million accesses a second at least, so that the rounds fit the time.
      const rounds = Math.max(3, Math.round((context.seconds * 4e6) / (bytes.length / 240)))
      const answer = await runNative(program, [path, rounds])
      // Reason for the cast: this program prints one object beside its numbers.
      const contention = answer.contention as unknown as Contention
      return { opsPerSecond: 1000 / answer.ms!, evidence: { ...summary(contention) } }
    },
    close,
  }
  return { plain, ours, native }
}

function summary(found: Contention): PlainResult {
  return {
    total_unique_slots: found.total_unique_slots,
    contended_slot_count: found.contended_slot_count,
    total_txn_count: found.total_txn_count,
    critical_path_txn_count: found.critical_path_txn_count,
    topSlots: found.top_contended_slots.map((slot) => slot.txn_count),
    topContracts: found.top_contended_contracts.map((contract) => contract.contended_slots),
    topEdges: found.contract_edges.map((edge) => edge.shared_txn_count),
  }
}

// ContentionData to bytes: the module's own text against JSON.stringify and a Buffer.
// Thread: main of the bench process. The module starts from ranked keys as they lie in memory; the
// plain way is spared the hex as well: its object, strings and all, is ready.
import type { Bench, Contender } from '../lib/bench.ts'
import { repeat } from '../lib/repeat.ts'
import { blockNumber, SyntheticBlock, wallNs } from '../lib/synthetic-block.ts'

const shape = { txns: 200, accessesEach: 7, ringBytes: 4 * 1024 * 1024 }
const batch = 100

let block: SyntheticBlock | null = null

async function prepare(): Promise<void> {
  block ??= await SyntheticBlock.make(shape)
  block.analyse()
}

async function close(): Promise<void> {
  block?.close()
  block = null
}

const plain: Contender = {
  name: 'JSON.stringify and Buffer',
  prepare,
  async run({ seconds }) {
    const value: unknown = JSON.parse(block!.text(block!.program.textBytes.value))
    let bytes = Buffer.alloc(0)
    const measured = repeat(seconds, batch, () => {
      for (let call = 0; call < batch; call++) bytes = Buffer.from(JSON.stringify(value))
    })
    return { ...measured, evidence: { text: bytes.toString('latin1') } }
  },
  close,
}

const ours: Contender = {
  name: 'from keys to JSON in the module',
  prepare,
  async run({ seconds }) {
    const { program, memory } = block!
    const shared = new Uint8Array(memory.memory.buffer)
    let bytes = new Uint8Array(0)
    const measured = repeat(seconds, batch, () => {
      for (let call = 0; call < batch; call++) {
        const length = program.encodeAgain(blockNumber, wallNs)
        bytes = new Uint8Array(length)
        bytes.set(shared.subarray(program.textAt.value, program.textAt.value + length))
      }
    })
    return { ...measured, evidence: { text: Buffer.from(bytes).toString('latin1') } }
  },
  close,
}

let known: string | null = null

export const bench: Bench = {
  name: 'contention-encode',
  question: 'How many ContentionData frames can be written as JSON per second?',
  cores: 1,
  baseline: plain,
  candidates: [ours],
  goals: [{ contender: ours.name, to: plain.name, figure: 'opsPerSecond', atLeast: 2.5 }],
  verify({ evidence }) {
    const text = String(evidence?.text)
    known ??= text
    if (text.length < 7000) return `a frame of ${text.length} bytes is not a full one`
    return text === known ? undefined : 'the two texts differ'
  },
}

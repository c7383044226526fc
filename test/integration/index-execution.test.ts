// From the execution pipeline into the index: what the rows say is what the frames say.
import { afterEach, describe, expect, test } from 'vitest'
import { addressOf, EventScript, idOf } from '../testkit/event-script.ts'
import { playTape } from '../testkit/execution-pipeline.ts'
import { asRead, byNumber } from '../testkit/index-reader.ts'
import { IngestStage } from '../testkit/ingest-stage.ts'
import { realData } from '../testkit/real-data.ts'
import { Recording } from '../testkit/recording.ts'
import { Tape } from '../testkit/tape.ts'

type Fields = Readonly<Record<string, unknown>>

describe('the execution pipeline in the index', () => {
  const stage = new IngestStage()
  afterEach(() => stage.dispose())
  const recording = realData('execution/emn-30b-15m.snapshot.zst')

  /** Plays a tape into the log of the stage and waits until all of it is durable. */
  async function play(tape: Tape): Promise<Fields[]> {
    await stage.start(null)
    const { pipeline, ended } = await playTape(tape, { events: stage.log })
    try {
      await ended
      await stage.settled()
    } finally {
      await pipeline.stop()
    }
    // What the WebSocket sends, word for word.
    return [...stage.log.after(0)].map(({ json }) => JSON.parse(json.toString()) as Fields)
  }

  function scripted(): Tape {
    const tape = new Tape()
    const script = new EventScript(tape)
    for (let number = 1; number <= 40; number++) {
      script.start(number, { txns: 3 })
      for (let txn = 0; txn < 3; txn++) {
        script.header(txn)
        script.account(addressOf(number % 7), txn)
        script.storage({ txn, address: addressOf(1), slot: idOf(number % 5), writes: txn === 0 })
        script.storage({ txn, address: addressOf(2), slot: idOf(txn), writes: true })
      }
      script.end()
      script.qc(number)
      script.finalized(number)
      script.verified(number)
    }
    return tape
  }

  function recorded(): Tape {
    const tape = new Tape()
    new Recording(recording.path).play(tape)
    return tape
  }

  const tapes = [
    { name: 'of a script', tape: scripted, isMissing: false },
    { name: recording.title('of the recording'), tape: recorded, isMissing: recording.isMissing },
  ]
  for (const { name, tape, isMissing } of tapes)
    test.skipIf(isMissing)(`equals the frames of the WebSocket ${name}`, async () => {
      const frames = await play(tape())
      const payloads = <T extends Fields>(kind: string) =>
        frames.flatMap((frame) =>
          kind in frame ? [{ seq: frame.seq as number, payload: frame[kind] as T }] : [],
        )
      const contention = payloads('ContentionData')
      expect(contention.length).toBeGreaterThan(25)
      const floats = ['parallel_efficiency_pct', 'contention_ratio', 'contention_score']
      const lists = {
        contended_slots: 'top_contended_slots',
        contended_contracts: 'top_contended_contracts',
        contract_edges: 'contract_edges',
      } as const
      const scalars = contention.map(({ seq, payload }) => {
        const { at_ms, ...cells } = payload
        const entries = Object.entries(cells).filter(([, cell]) => !Array.isArray(cell))
        return asRead({ seq, ...Object.fromEntries(entries) }, floats)
      })
      const read = (await stage.rows('contention')).sort(byNumber('seq'))
      const times = new Map(read.map(({ seq, at }) => [Number(seq), String(at)]))
      expect(read.map(({ at, ...row }) => row)).toEqual(scalars)
      const wallMs = (ns: string) => Number(BigInt(ns) / 1_000_000n)
      for (const { seq, payload } of contention) expect(wallMs(times.get(seq)!)).toBe(payload.at_ms)
      for (const [table, list] of Object.entries(lists)) {
        const elements = contention.flatMap(({ seq, payload }) =>
          (payload[list] as Fields[]).map((element, index) =>
            asRead(
              {
                ...{ seq, block_number: payload.block_number, rank: index + 1, ...element },
                at: times.get(seq)!,
              },
              floats,
            ),
          ),
        )
        const rows = await stage.rows(table as keyof typeof lists)
        rows.sort((a, b) => byNumber('seq')(a, b) || byNumber('rank')(a, b))
        expect(rows, table).toEqual(elements)
      }
      // TPS names no block: it is the one whose proposal follows.
      const tps = payloads('TPS').map(({ seq, payload }) => {
        const proposal = frames.find((frame) => frame.seq === seq + 1)!.Lifecycle as Fields
        const { block_number, at_ms } = proposal
        return { ...asRead({ seq, block_number, tps: payload }), atMs: at_ms }
      })
      const rates = (await stage.rows('tps')).sort(byNumber('seq'))
      expect(rates.map(({ at, ...row }) => ({ ...row, atMs: wallMs(String(at)) }))).toEqual(tps)
      // TopAccesses names none either: it is that of the ContentionData that follows.
      const accesses = payloads<Record<string, { key: string | string[] }[]>>(
        'TopAccesses',
      ).flatMap(({ seq, payload }) => {
        const after = frames.find((frame) => frame.seq === seq + 1)!.ContentionData as Fields
        return Object.entries(payload).flatMap(([kind, top]) =>
          top.map(({ key, ...counts }, index) => {
            const [address, slot] = typeof key === 'string' ? [key, ''] : key
            const { block_number } = after
            const of = { seq, block_number, kind, rank: index + 1, address, slot, ...counts }
            return asRead({ ...of, at: times.get(seq + 1)! })
          }),
        )
      })
      const rows = await stage.rows('top_accesses')
      expect(rows).toHaveLength(accesses.length)
      expect(new Set(rows.map((row) => JSON.stringify(row)))).toEqual(
        new Set(accesses.map((row) => JSON.stringify(row))),
      )
      const moves = payloads('Lifecycle').map(({ seq, payload }) => [
        String(seq),
        String(payload.block_number),
        payload.block_hash,
        payload.from_stage ?? '',
        payload.to_stage,
        payload.block_age_ms,
      ])
      const lifecycle = (await stage.rows('block_lifecycle')).sort(byNumber('seq'))
      expect(lifecycle.map(({ at, ...row }) => Object.values(row))).toEqual(moves)
      // Ages are the difference of these times, exactly.
      const blocks = await stage.rows('execution_blocks')
      expect(blocks).toHaveLength(contention.length)
      for (const { at, age_ms, block_hash } of lifecycle) {
        const block = blocks.find((one) => one.block_hash === block_hash)!
        const ageNs = BigInt(at as string) - BigInt(block.started_at as string)
        expect(Number(ageNs < 0n ? 0n : ageNs) / 1e6).toBe(age_ms)
      }
      for (const { payload } of contention) {
        const block = blocks.find((one) => one.block_hash === payload.block_hash)!
        expect(block.number).toBe(String(payload.block_number))
        expect(block.tx_count).toBe(String(payload.total_txn_count))
      }
    })
})

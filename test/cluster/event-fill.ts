// Fills the shared event log of a database, as an hour of a chain does.
import { eventsLease } from '../../src/base/shared-log.ts'
import { encodeFrame } from '../../src/streams/log/shared-events.ts'
import { logOf } from './event-gateway.ts'

/** As many as a gateway reads at its start. */
export const fillFrames = 50_000
const framesPerBlock = 7
const blocksPerPage = 70

/** Before the gateways start: while it has the lease, none of them numbers. */
export async function fillEvents(url: string): Promise<void> {
  const { connection, leases, shared } = await logOf(url, 'filler')
  const [lease] = await leases.hold([eventsLease], 60_000, 1)
  const { next } = await shared.head()
  for (let at = 0; at < fillFrames; at += blocksPerPage * framesPerBlock) {
    const first = at / framesPerBlock + 1
    const blocks = Array.from({ length: blocksPerPage }, (_, index) => framesOf(first + index))
    if (!(await shared.append(lease!, next + at, blocks.flat())))
      throw new Error('the event log could not be filled')
  }
  await leases.giveBack(eventsLease)
  await connection.stop()
}

function framesOf(block: number): Buffer[] {
  const hash = `0x${block.toString(16).padStart(64, '0')}`
  const account = (index: number) => `0x${String(index).padStart(40, 'a')}`
  const accessed = Array.from({ length: 10 }, (_, index) => ({
    count: 20 - index,
    error: 0,
    index,
  }))
  const frame = (kind: 'TPS' | 'TopAccesses' | 'Lifecycle', content: unknown, name: string) =>
    encodeFrame({
      kind,
      payload: Buffer.from(JSON.stringify(content)),
      facts: { blockNumber: block, atNs: BigInt(block), key: `${hash}/${name}` },
    })
  const top = {
    account: accessed.map(({ index, ...counts }) => ({ key: account(index), ...counts })),
    storage: accessed.map(({ index, ...counts }) => ({ key: [account(index), hash], ...counts })),
  }
  const stage = (to: string) =>
    frame('Lifecycle', { block_hash: hash, block_number: block, to_stage: to, block_age_ms: 1 }, to)
  return [
    frame('TPS', block, 'tps'),
    frame('TPS', block, 'tps-again'),
    frame('TopAccesses', top, 'top'),
    ...['Proposed', 'Voted', 'Finalized', 'Verified'].map(stage),
  ]
}

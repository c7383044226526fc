// The readers of the geyser-ingest bench: ours, from a node to the hub, and a bare node:http2
// client that counts bytes. Thread: a process of its own for each.
import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { Commitment } from '../../../src/base/commitment.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { usedSeconds } from '../../lib/processor-time.ts'
import { openSetChains } from './bench-chains.ts'

export interface ReaderCounts {
  /** Updates of accounts, transactions and entries; 0 where they are not told apart. */
  readonly updates: number
  readonly bytes: number
  /** CPU seconds of all threads, and of the main thread alone. */
  readonly cpu: number
  readonly mainCpu: number
}

const windowBytes = 32 * 1024 * 1024
let updates = 0
let bytes = () => 0

serveBench({
  ours(nodePort: number) {
    const chains = openSetChains(nodePort)
    chains.of('default')!.hub.listen(
      (commitment, { kind }) => {
        if (commitment === Commitment.processed && kind !== 'slot') updates++
      },
      () => false,
    )
    bytes = () => chains.readings()[0]!.counts.bytes
  },
  http2(nodePort: number) {
    const session = connect(`http://127.0.0.1:${nodePort}`, {
      settings: { initialWindowSize: windowBytes, maxFrameSize: 1024 * 1024 },
    })
    session.on('connect', () => session.setLocalWindowSize(windowBytes))
    const stream = session.request({ ':method': 'POST', ':path': '/geyser.Geyser/Subscribe' })
    let received = 0
    stream.on('data', (chunk: Buffer) => {
      received += chunk.length
    })
    bytes = () => received
  },
  counts(): ReaderCounts {
    return { updates, bytes: bytes(), cpu: usedSeconds(), mainCpu: mainCpuSeconds() }
  },
})

/** Linux: the main thread has the number of the process. NaN elsewhere. */
function mainCpuSeconds(): number {
  const path = `/proc/self/task/${process.pid}/schedstat`
  if (!existsSync(path)) return Number.NaN
  return Number(readFileSync(path, 'utf8').split(' ')[0]) / 1e9
}

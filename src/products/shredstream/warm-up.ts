// Runs the batch loop on made-up shreds until the JIT compiler has optimized it.
// Thread: shred worker, before it opens its own sockets.
//
// Without it the first shreds of a start meet interpreted code, its compilation and the
// garbage of both. The loop under warm-up has sockets, tables and counters of its own on loopback;
// what it learns, the compiled code, belongs to the functions and so to the next loop, too. It must
// take the same branches as the worker will: code that meets a new one is compiled again.
import { parseAddress, parseCidr } from '../../base/cidr.ts'
import { Fault } from '../../base/errors.ts'
import { boundPort, type Libc, openSocket } from '../../base/transport/udp-batch.ts'
import { BatchSender, ShredVectors } from '../../base/transport/udp-send.ts'
import {
  codeShredBytes,
  dataShredBytes,
  offsets,
  setShreds,
  slotShredsMax,
  variants,
} from '../../chain/solana/shred.ts'
import { ShredAdmission, Sources } from './admit.ts'
import { BatchLoop } from './batch-loop.ts'
import { SharedStats } from './shared-stats.ts'
import { type ShredComponents, type WorkerSettings, wallClock } from './shred-components.ts'
import { TargetTracker } from './target-tracker.ts'
import { TargetTable } from './targets.ts'
import { SlotWindow, windowBytes } from './window.ts'

/**
 * Loops that are run one after another, and turns of each. From the second loop on, the compiler
 * knows that there are several, and its code also fits the worker's own.
 */
const loops = 2
const turns = 2000
/** Every so many turns a burst, which is sent as a GSO segment batch. */
const burstEvery = 16
const burst = 6
const host = '127.0.0.1'
const bufferBytes = 256 * 1024
const slot = 1000
/** On a machine that is busy with other work the worker starts with what is compiled by then. */
const warmUpMsMax = 2_000

/** Returns how many shreds went through; none where loopback cannot be used. */
export function warmUp(libc: Libc, settings: WorkerSettings, msMax = warmUpMsMax): number {
  const endMs = performance.now() + msMax
  const opened: number[] = []
  try {
    for (let socket = 0; socket < 2; socket += 1)
      opened.push(
        openSocket(libc, {
          host,
          port: 0,
          bufferBytes,
          timeoutMs: 1,
          keepsErrors: false,
          isV6Only: false,
        }),
      )
    const ends = { source: opened[0]!, sink: opened[1]! }
    let passed = 0
    for (let loop = 0; loop < loops; loop += 1) passed += run(libc, settings, { ...ends, endMs })
    return passed
  } catch (error) {
    if (error instanceof Fault) return 0
    throw error
  } finally {
    for (const fd of opened) libc.close(fd)
  }
}

function run(
  libc: Libc,
  settings: WorkerSettings,
  ends: { readonly source: number; readonly sink: number; readonly endMs: number },
): number {
  const { version } = settings
  const { source, sink, endMs } = ends
  const components = scratchOf(boundPort(libc, sink), version)
  const own = { host, port: 0, sourceHosts: [host], sourcePort: 0, bufferBytes }
  // Maintenance at every turn, so that it is compiled, too.
  const loop = new BatchLoop(libc, components, { ...settings, ...own }, 0)
  const sender = new BatchSender(libc, source, new ShredVectors(libc, [0, 0]), {
    events: { failed() {}, refused() {} },
    segments: false,
  })
  const port = components.stats.sockets.get(0, 'ingestPort')
  const target = { row: 0, address: parseAddress(host)!, port }
  let turn = 0
  let index = 0
  loop.run(() => {
    const count = turn % burstEvery === 0 ? burst : 1
    for (let shred = 0; shred < count; shred += 1) {
      sender.sendOne(target, madeUpShred(index, version))
      index += 1
    }
    turn += 1
    return turn > turns || performance.now() > endMs
  })
  return components.stats.totals.get(0, 'accepted')
}

/** Components like the worker's own, with one target: the port of the sink. */
function scratchOf(sinkPort: number, version: number): ShredComponents {
  const stats = new SharedStats()
  const table = new TargetTable()
  table.write([
    {
      row: 0,
      kind: 'serve',
      generation: 1,
      address: parseAddress(host)!,
      port: sinkPort,
      challenges: 0,
      nonce: [0, 0, 0, 0],
    },
  ])
  const window = new SlotWindow(new SharedArrayBuffer(windowBytes), stats)
  return {
    stats,
    tracker: new TargetTracker(table, stats, () => {}),
    admission: new ShredAdmission(stats, window, { version, signatures: null, recovery: null }),
    sources: new Sources([parseCidr(host)!]),
    nowMs: wallClock(),
    warn() {},
  }
}

/** A shred that is well formed, but for its signature and proof. */
function madeUpShred(number: number, version: number): Uint8Array {
  const isCode = number % 4 === 3
  const shred = new Uint8Array(isCode ? codeShredBytes : dataShredBytes)
  const view = new DataView(shred.buffer)
  const index = number % slotShredsMax
  shred[offsets.variant] = isCode ? variants.code : variants.data
  view.setUint32(offsets.slot, slot, true)
  view.setUint32(offsets.index, index, true)
  view.setUint16(offsets.version, version, true)
  view.setUint32(offsets.set, index - (index % setShreds), true)
  if (isCode) {
    view.setUint16(offsets.dataCount, setShreds, true)
    view.setUint16(offsets.codeCount, setShreds, true)
    view.setUint16(offsets.position, index % setShreds, true)
  } else {
    view.setUint16(offsets.parent, 1, true)
    view.setUint16(offsets.size, offsets.dataPayload, true)
  }
  return shred
}

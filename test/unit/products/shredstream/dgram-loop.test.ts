// The loop on plain sockets: failed maintenance is logged and retried, and no socket is left over.
import { expect, test } from 'vitest'
import { parseAddress } from '../../../../src/base/cidr.ts'
import { UdpSocket } from '../../../../src/base/transport/udp.ts'
import { DgramLoop } from '../../../../src/products/shredstream/dgram-loop.ts'
import { SharedStats } from '../../../../src/products/shredstream/shared-stats.ts'
import type {
  ShredComponents,
  WorkerSettings,
} from '../../../../src/products/shredstream/shred-components.ts'
import { TargetTracker } from '../../../../src/products/shredstream/target-tracker.ts'
import { TargetTable } from '../../../../src/products/shredstream/targets.ts'
import { until } from '../../../testkit/until.ts'

// Reason for the cast: no other field is read.
const settings = {
  host: '127.0.0.1',
  port: 0,
  sourceHosts: ['127.0.0.1'],
  sourcePort: 0,
  bufferBytes: 65_536,
  caps: { packetsPerSecond: 1000, bytesPerSecond: 1e6 },
} as unknown as WorkerSettings

test('maintenance that fails once is retried, and the new targets are applied', async () => {
  const stats = new SharedStats()
  const table = new TargetTable()
  const warnings: string[] = []
  let failures = 0
  const tracker = new (class extends TargetTracker {
    override markApplied() {
      failures += 1
      if (failures === 1) throw new Error('no descriptors left')
      super.markApplied()
    }
  })(table, stats, () => {})
  // Reason for the casts: without packets no other field of the two is read.
  const components = {
    stats,
    tracker,
    nowMs: () => performance.now(),
    warn: (text: string) => void warnings.push(text),
  } as unknown as ShredComponents
  const loop = new DgramLoop(components, settings)
  let isStopped = false
  // The table is empty so far: the failure comes in maintenance and not in `open`.
  tracker.refresh()
  await loop.open()
  const running = loop.run(() => isStopped)
  table.write([
    {
      row: 0,
      kind: 'serve',
      generation: 1,
      address: parseAddress('127.0.0.1')!,
      port: 9,
      challenges: 0,
      nonce: [0, 0, 0, 0],
    },
  ])
  try {
    await until(() => stats.sockets.get(0, 'tableVersion') === table.version, 'targets applied')
  } finally {
    isStopped = true
    await running
  }
  expect(failures).toBe(2)
  expect(warnings).toEqual(['shred worker maintenance failed: no descriptors left'])
})

test('an address without a route keeps no socket', async () => {
  const socket = await UdpSocket.open({ host: '127.0.0.1', port: 0 })
  await expect(socket.connect('255.255.255.255', 9)).rejects.toThrow('EACCES')
  expect(() => socket.port).toThrow('Not running')
})

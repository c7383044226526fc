// Runs ShredStream in process over a registry in a fresh folder, with the sockets of customers.
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { Directory } from '../../src/customers/auth/directory.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import { strictRules } from '../../src/customers/subscriptions/subscription.ts'
import {
  type ShredstreamSection,
  shredstreamSection,
} from '../../src/products/shredstream/config.ts'
import type { DestinationLeases } from '../../src/products/shredstream/destinations.ts'
import { type Shredstream, startShredstream } from '../../src/products/shredstream/server.ts'
import { testVersion } from './shreds.ts'
import { until } from './until.ts'

const deaths = { throw: 1, exit: 2, collect: 3 } as const

export interface ShredTotals {
  readonly [name: string]: number
}

export class ShredStage {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-shreds-'))
  readonly meters = new Meters()
  readonly store: Store
  readonly directory: Directory
  readonly #fate = new Int32Array(new SharedArrayBuffer(4))
  readonly #sockets: Socket[] = []
  product!: Shredstream
  #made = 0

  private constructor() {
    this.store = openStore(join(this.folder, 'registry'), {
      clock: systemClock,
      known: { plans: ['standard'], destinationRules: { ...strictRules, allowPrivate: true } },
    })
    this.directory = new Directory(this.store, { clock: systemClock, log: silentLog })
    this.directory.start()
  }

  static async open(
    section: Partial<ShredstreamSection> = {},
    leases: DestinationLeases | null = null,
  ): Promise<ShredStage> {
    const stage = new ShredStage()
    const fields = Object.entries(shredstreamSection.fields)
    const initial = Object.fromEntries(fields.map(([key, { initial }]) => [key, initial]))
    const starting = startShredstream(
      {
        // Reason for the cast: the defaults of a section are its values.
        ...(initial as unknown as ShredstreamSection),
        port: 0,
        sourcePort: 0,
        feed: 'udp',
        version: testVersion,
        ...section,
      },
      {
        directory: stage.directory,
        store: stage.store,
        clock: systemClock,
        log: silentLog,
        meters: stage.meters,
        embeddedLeader: null,
        leases,
        onDown(fault) {
          throw fault
        },
        workerEntry: {
          entry: new URL('workers/shreds.mjs', import.meta.url),
          data: { fate: stage.#fate.buffer },
        },
      },
    )
    try {
      stage.product = await starting
    } catch (error) {
      await stage.dispose()
      throw error
    }
    return stage
  }

  get port(): number {
    return this.product.address!.port
  }

  totals(): ShredTotals {
    return this.product.report().totals as ShredTotals
  }

  destinations(): Record<string, unknown>[] {
    return this.product.report().destinations as Record<string, unknown>[]
  }

  /** Resolves once the worker has applied the registry's destinations. */
  settled(): Promise<void> {
    return until(() => this.product.report().isSettled === true, 'targets applied')
  }

  /** Crashes the worker between two batches, or makes it collect garbage there. */
  strike(how: keyof typeof deaths): void {
    Atomics.store(this.#fate, 0, deaths[how])
  }

  /** A subscription with this destination, confirmed by the operator unless `isPending`. */
  subscribe(port: number, options: { readonly isPending?: boolean; readonly host?: string } = {}) {
    const label = `customer-${++this.#made}`
    const host = options.host ?? '127.0.0.1'
    const added = this.store.add(
      { label, products: ['shredstream'], plan: 'standard', destination: `${host}:${port}` },
      { who: 'test' },
    )
    if (!added.ok) throw new Error(added.refusal.message)
    if (options.isPending !== true) this.store.confirmDestination(label, { who: 'test' })
    this.directory.refresh()
    return { label, id: added.value.subscription.id }
  }

  /** A socket on a free port (or that one) with all that it received. */
  async receiver(options: { readonly port?: number; readonly isV6?: boolean } = {}) {
    const isV6 = options.isV6 ?? false
    const socket = createSocket({ type: isV6 ? 'udp6' : 'udp4', recvBufferSize: 4 << 20 })
    this.#sockets.push(socket)
    const packets: Buffer[] = []
    const senders = new Set<number>()
    socket.on('message', (message, { port }) => {
      packets.push(message)
      senders.add(port)
    })
    socket.bind(options.port ?? 0, isV6 ? '::1' : '127.0.0.1')
    await once(socket, 'listening')
    return { socket, packets, senders, port: socket.address().port }
  }

  /** A source of shreds at its own address. */
  async source(from = '127.0.0.1'): Promise<Socket> {
    const socket = createSocket('udp4')
    this.#sockets.push(socket)
    socket.bind(0, from)
    await once(socket, 'listening')
    return socket
  }

  /**
   * Sends packets to the ingest port and waits for the worker after each `paceEvery`, so that
   * nothing is lost to a full buffer and no test depends on the machine's speed.
   */
  async send(packets: readonly Uint8Array[], from: string | Socket = '127.0.0.1', paceEvery = 200) {
    const socket = typeof from === 'string' ? await this.source(from) : from
    for (let at = 0; at < packets.length; at += paceEvery) {
      const slice = packets.slice(at, at + paceEvery)
      const goal = this.totals().received! + slice.length
      for (const packet of slice) socket.send(packet, this.port, '127.0.0.1')
      await until(() => this.totals().received! >= goal, 'the worker received what was sent')
    }
  }

  /** A receiver that the test has closed itself. */
  forget(socket: Socket): void {
    this.#sockets.splice(this.#sockets.indexOf(socket), 1)
  }

  async dispose(): Promise<void> {
    for (const socket of this.#sockets) socket.close()
    await this.product?.stop()
    this.directory.stop()
    await this.store.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Multisets of packets as sorted texts, to compare them whatever their order. */
export function asTexts(packets: readonly Uint8Array[]): string[] {
  return packets.map((packet) => Buffer.from(packet).toString('latin1')).sort()
}

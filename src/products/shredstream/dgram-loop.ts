// Runs the shred pipeline on plain Node sockets, where batched calls are missing or switched off.
// Thread: shred worker, on its event loop. Each target has its own connected socket, all on the one
// source port, so that a port-unreachable error arrives at the socket of its target. The sender of
// the error is unknown here: Node does not expose control data.
import { formatAddress, parseAddress } from '../../base/cidr.ts'
import { messageOf } from '../../base/errors.ts'
import { UdpSocket } from '../../base/transport/udp.ts'
import { codeShredBytes, dataShredBytes } from '../../chain/solana/shred.ts'
import { verdicts } from './admit.ts'
import { ioNames } from './shared-stats.ts'
import type { ShredComponents, WorkerSettings } from './shred-components.ts'
import { Caps } from './target-tracker.ts'
import { challengeOf, rowsMax, type Target } from './targets.ts'

const maintenanceMs = 10
const warnMs = 1000

interface OpenTarget {
  readonly target: Target
  readonly socket: UdpSocket
}

export class DgramLoop {
  readonly #components: ShredComponents
  readonly #settings: WorkerSettings
  readonly #caps: Caps
  readonly #open = new Map<string, OpenTarget>()
  #ingest: UdpSocket | null = null
  /** Keep the source port bound while there are no targets. */
  #holders: UdpSocket[] = []
  #serving: readonly OpenTarget[] = []
  #isBusy = false
  #isStepping = false
  /** True while the table was read but is not applied yet. */
  #isTablePending = false
  #warnedMs = Number.NEGATIVE_INFINITY

  constructor(components: ShredComponents, settings: WorkerSettings) {
    this.#components = components
    this.#settings = settings
    this.#caps = new Caps(settings.caps, rowsMax)
  }

  async open(): Promise<void> {
    const { host, port, bufferBytes, sourceHosts, sourcePort } = this.#settings
    const { sockets } = this.#components.stats
    const kept = sockets.row(0)
    const ingestPort = kept.ingestPort === 0 ? port : kept.ingestPort
    this.#ingest = await UdpSocket.open({ host, port: ingestPort, bufferBytes })
    sockets.set(0, 'ingestPort', this.#ingest.port)
    let outPort = kept.outPort === 0 ? sourcePort : kept.outPort
    for (const [index, sourceHost] of sourceHosts.entries()) {
      const options = { host: sourceHost, port: outPort, shares: true, isV6Only: true }
      // The second host is IPv6, which a machine may not support.
      const opening = UdpSocket.open(options)
      const holder = index === 0 ? await opening : await opening.catch(() => null)
      if (holder === null) continue
      outPort = holder.port
      this.#holders.push(holder)
    }
    sockets.set(0, 'outPort', outPort)
    sockets.set(0, 'io', ioNames.indexOf('dgram'))
    if (this.#components.tracker.refresh()) await this.#follow()
    this.#ingest.onMessage((payload, from) => this.#take(payload, from))
  }

  /** Runs until `isStopped` returns true, then closes the sockets and resolves. */
  run(isStopped: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const timer = setInterval(() => {
        if (!isStopped()) return void this.#maintain().catch((error) => this.#warn(error))
        clearInterval(timer)
        this.#serving = []
        for (const { socket } of this.#open.values()) socket.close()
        for (const holder of this.#holders) holder.close()
        this.#ingest?.close()
        resolve()
      }, maintenanceMs)
    })
  }

  #take(payload: Uint8Array, from: string): void {
    const { admission, sources, stats } = this.#components
    const nowMs = this.#components.nowMs()
    const source = sources.findText(from)
    const verdict = admission.admit(payload, 0, payload.length, source, nowMs)
    stats.totals.add(0, 'batches', 1)
    const bytes = verdict === verdicts.code ? codeShredBytes : dataShredBytes
    if (verdict !== verdicts.drop) {
      this.#probe(payload.subarray(0, bytes), nowMs)
      this.#send(payload.subarray(0, bytes), nowMs)
    }
    this.#stepLater()
  }

  /** Does long work one unit per turn, so that packets are handled between two units. */
  #stepLater(): void {
    const { admission } = this.#components
    if (this.#isStepping || !admission.isBusy) return
    this.#isStepping = true
    setImmediate(() => {
      this.#isStepping = false
      const nowMs = this.#components.nowMs()
      for (const shred of admission.step(nowMs)) this.#send(shred, nowMs)
      this.#stepLater()
    })
  }

  #send(shred: Uint8Array, nowMs: number): void {
    const { tracker } = this.#components
    if (!tracker.maySend) return
    const rows = this.#serving.map(({ target }) => target.row)
    this.#caps.charge(rows, 1, shred.length, nowMs)
    for (const { target, socket } of this.#serving) {
      const { row } = target
      if (this.#caps.isMuted(row)) {
        tracker.countCapped([row], 1)
        continue
      }
      this.#sendTo(row, socket, shred, nowMs)
    }
  }

  /** Sends a shred to the paused targets that are due a probe. */
  #probe(shred: Uint8Array, nowMs: number): void {
    const { tracker } = this.#components
    if (tracker.probing.length === 0) return
    for (const target of tracker.dueProbes(nowMs)) {
      const open = this.#open.get(keyOf(target))
      if (open !== undefined) this.#sendTo(target.row, open.socket, shred, nowMs)
    }
  }

  #sendTo(row: number, socket: UdpSocket, shred: Uint8Array, nowMs: number): void {
    const { tracker } = this.#components
    tracker.countSent([row], 1, shred.length, nowMs)
    socket.send(shred, (code) => {
      if (code === 'ECONNREFUSED') tracker.refused(row)
      else if (code !== null) tracker.failed(row, 0, 1)
    })
  }

  async #maintain(): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    try {
      const { tracker } = this.#components
      if (tracker.refresh()) this.#isTablePending = true
      if (this.#isTablePending) await this.#follow()
      for (const target of tracker.dueChallenges())
        this.#open.get(keyOf(target))?.socket.send(challengeOf(target), () => {})
      tracker.report(this.#components.nowMs())
    } finally {
      this.#isBusy = false
    }
  }

  /** Applies the table: opens sockets of new targets, closes those of removed ones. */
  async #follow(): Promise<void> {
    const { tracker } = this.#components
    const targets = [...tracker.serving, ...tracker.challenged, ...tracker.probing]
    const current = new Map(targets.map((target) => [keyOf(target), target]))
    for (const [key, { socket }] of this.#open) {
      if (current.has(key)) continue
      this.#open.delete(key)
      socket.close()
    }
    for (const [key, target] of current) {
      const open = this.#open.get(key)
      if (open !== undefined) this.#open.set(key, { ...open, target })
      else await this.#openTarget(key, target)
    }
    this.#serving = [...this.#open.values()].filter(({ target }) => target.kind === 'serve')
    tracker.markApplied()
    this.#isTablePending = false
  }

  /** Logs failed maintenance, at most once a second; the next round retries it. */
  #warn(error: unknown): void {
    const nowMs = this.#components.nowMs()
    if (nowMs - this.#warnedMs < warnMs) return
    this.#warnedMs = nowMs
    this.#components.warn(`shred worker maintenance failed: ${messageOf(error)}`)
  }

  async #openTarget(key: string, target: Target): Promise<void> {
    const { tracker, stats } = this.#components
    const { family } = target.address
    const host = this.#settings.sourceHosts.find((own) => parseAddress(own)?.family === family)
    if (host === undefined) return
    const port = stats.sockets.get(0, 'outPort')
    try {
      const socket = await UdpSocket.open({ host, port, shares: true, isV6Only: true })
      await socket.connect(formatAddress(target.address), target.port)
      socket.onError((code) => (code === 'ECONNREFUSED' ? tracker.refused(target.row) : undefined))
      socket.onMessage((payload) => tracker.receiveEcho(target.address, target.port, payload))
      this.#caps.reset(target.row)
      this.#open.set(key, { target, socket })
    } catch (error) {
      // No route from this machine: counted with the target, retried when the table changes next.
      tracker.failed(target.row, 0, 0)
      this.#components.warn(`destination is not reachable from this machine: ${messageOf(error)}`)
    }
  }
}

/** An address keeps its socket when it is proven: its kind changes, its row does not. */
function keyOf({ row, generation, address, port }: Target): string {
  return `${row}/${generation}/${formatAddress(address)}/${port}`
}

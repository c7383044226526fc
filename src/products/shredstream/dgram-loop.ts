// The shred pipeline on plain Node sockets: where batched calls are missing, or not wanted.
// Thread: shred worker, on its event loop. One socket per target, connected and all on the one
// source port, so that a port-unreachable error arrives at the socket of its target. Who sent the
// error is not known here: Node does not give control data.
import { formatAddress, parseAddress } from '../../base/cidr.ts'
import { messageOf } from '../../base/errors.ts'
import { codeShredBytes, dataShredBytes } from '../../solana/shred.ts'
import { UdpSocket } from '../../transport/udp.ts'
import { verdicts } from './admit.ts'
import { ioNames } from './board.ts'
import { Caps } from './caps.ts'
import type { ShredParts, WorkerSettings } from './handle.ts'
import { rowsMax, type Target } from './targets.ts'

const choreMs = 10
const noteMs = 1000

interface OpenTarget {
  readonly target: Target
  readonly socket: UdpSocket
}

export class DgramLoop {
  readonly #parts: ShredParts
  readonly #settings: WorkerSettings
  readonly #caps: Caps
  readonly #open = new Map<string, OpenTarget>()
  #ingest: UdpSocket | null = null
  /** Holds the source port while there are no targets. */
  #holders: UdpSocket[] = []
  #serving: readonly OpenTarget[] = []
  #isBusy = false
  #isStepping = false
  /** The table was read and is not in force yet. */
  #isBehind = false
  #notedMs = Number.NEGATIVE_INFINITY

  constructor(parts: ShredParts, settings: WorkerSettings) {
    this.#parts = parts
    this.#settings = settings
    this.#caps = new Caps(settings.caps, rowsMax)
  }

  async open(): Promise<void> {
    const { host, port, bufferBytes, sourceHosts, sourcePort } = this.#settings
    const { sockets } = this.#parts.board
    const kept = sockets.row(0)
    const ingestPort = kept.ingestPort === 0 ? port : kept.ingestPort
    this.#ingest = await UdpSocket.open({ host, port: ingestPort, bufferBytes })
    sockets.set(0, 'ingestPort', this.#ingest.port)
    let outPort = kept.outPort === 0 ? sourcePort : kept.outPort
    for (const [place, sourceHost] of sourceHosts.entries()) {
      const options = { host: sourceHost, port: outPort, shares: true, isV6Only: true }
      // The second one is IPv6, which a machine may not have.
      const opening = UdpSocket.open(options)
      const holder = place === 0 ? await opening : await opening.catch(() => null)
      if (holder === null) continue
      outPort = holder.port
      this.#holders.push(holder)
    }
    sockets.set(0, 'outPort', outPort)
    sockets.set(0, 'io', ioNames.indexOf('dgram'))
    if (this.#parts.book.refresh()) await this.#follow()
    this.#ingest.onMessage((payload, from) => this.#take(payload, from))
  }

  /** Resolves when `isStopped` says so. */
  run(isStopped: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const timer = setInterval(() => {
        if (!isStopped()) return void this.#chores().catch((error) => this.#note(error))
        clearInterval(timer)
        this.#serving = []
        for (const { socket } of this.#open.values()) socket.close()
        for (const holder of this.#holders) holder.close()
        this.#ingest?.close()
        resolve()
      }, choreMs)
    })
  }

  #take(payload: Uint8Array, from: string): void {
    const { admission, sources, board } = this.#parts
    const nowMs = this.#parts.nowMs()
    const source = sources.findText(from)
    const verdict = admission.admit(payload, 0, payload.length, source, nowMs)
    board.totals.add(0, 'batches', 1)
    const bytes = verdict === verdicts.code ? codeShredBytes : dataShredBytes
    if (verdict !== verdicts.drop) {
      this.#probe(payload.subarray(0, bytes), nowMs)
      this.#send(payload.subarray(0, bytes), nowMs)
    }
    this.#stepLater()
  }

  /** Does the long work one unit at a time, and packets that arrived between two of them. */
  #stepLater(): void {
    const { admission } = this.#parts
    if (this.#isStepping || !admission.isBusy) return
    this.#isStepping = true
    setImmediate(() => {
      this.#isStepping = false
      const nowMs = this.#parts.nowMs()
      for (const shred of admission.step(nowMs)) this.#send(shred, nowMs)
      this.#stepLater()
    })
  }

  #send(shred: Uint8Array, nowMs: number): void {
    const { book } = this.#parts
    const rows = this.#serving.map(({ target }) => target.row)
    this.#caps.charge(rows, 1, shred.length, nowMs)
    for (const { target, socket } of this.#serving) {
      const { row } = target
      if (this.#caps.isMuted(row)) {
        book.countCapped([row], 1)
        continue
      }
      this.#sendTo(row, socket, shred, nowMs)
    }
  }

  /** Sends a shred to the paused targets that are due one. */
  #probe(shred: Uint8Array, nowMs: number): void {
    const { book } = this.#parts
    if (book.probing.length === 0) return
    for (const target of book.dueProbes(nowMs)) {
      const open = this.#open.get(keyOf(target))
      if (open !== undefined) this.#sendTo(target.row, open.socket, shred, nowMs)
    }
  }

  #sendTo(row: number, socket: UdpSocket, shred: Uint8Array, nowMs: number): void {
    const { book } = this.#parts
    book.countSent([row], 1, shred.length, nowMs)
    socket.send(shred, (code) => {
      if (code === 'ECONNREFUSED') book.refused(row)
      else if (code !== null) book.failed(row, 0, 1)
    })
  }

  async #chores(): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    try {
      const { book } = this.#parts
      if (book.refresh()) this.#isBehind = true
      if (this.#isBehind) await this.#follow()
      for (const target of book.dueChallenges())
        this.#open.get(keyOf(target))?.socket.send(this.#parts.challengeOf(target), () => {})
      book.report(this.#parts.nowMs())
    } finally {
      this.#isBusy = false
    }
  }

  /** Opens what is new, closes what is gone. */
  async #follow(): Promise<void> {
    const { book } = this.#parts
    const targets = [...book.serving, ...book.challenged, ...book.probing]
    const wanted = new Map(targets.map((target) => [keyOf(target), target]))
    for (const [key, { socket }] of this.#open) {
      if (wanted.has(key)) continue
      this.#open.delete(key)
      socket.close()
    }
    for (const [key, target] of wanted) {
      const open = this.#open.get(key)
      if (open !== undefined) this.#open.set(key, { ...open, target })
      else await this.#openTarget(key, target)
    }
    this.#serving = [...this.#open.values()].filter(({ target }) => target.kind === 'serve')
    book.settle()
    this.#isBehind = false
  }

  /** Failed chores are done again with the next ones; a lasting fault is noted once a second. */
  #note(error: unknown): void {
    const nowMs = this.#parts.nowMs()
    if (nowMs - this.#notedMs < noteMs) return
    this.#notedMs = nowMs
    this.#parts.note(`shred chores failed: ${messageOf(error)}`)
  }

  async #openTarget(key: string, target: Target): Promise<void> {
    const { book, board } = this.#parts
    const { family } = target.address
    const host = this.#settings.sourceHosts.find((own) => parseAddress(own)?.family === family)
    if (host === undefined) return
    const port = board.sockets.get(0, 'outPort')
    try {
      const socket = await UdpSocket.open({ host, port, shares: true, isV6Only: true })
      await socket.connect(formatAddress(target.address), target.port)
      socket.onError((code) => (code === 'ECONNREFUSED' ? book.refused(target.row) : undefined))
      socket.onMessage((payload) => book.heard(target.address, target.port, payload))
      this.#caps.reset(target.row)
      this.#open.set(key, { target, socket })
    } catch (error) {
      // No way there from this machine: shown with the target, tried again with its next change.
      book.failed(target.row, 0, 0)
      this.#parts.note(`cannot send to a destination: ${messageOf(error)}`)
    }
  }
}

/** The same address keeps its socket when it is proven: only its kind changes, and its row not. */
function keyOf({ row, generation, address, port }: Target): string {
  return `${row}/${generation}/${formatAddress(address)}/${port}`
}

// The shred road on plain Node sockets: where batched calls are not to be had, or not wanted.
// Thread: shred worker, on its event loop. One socket per target, connected and all on the one
// source port, so that a port-unreachable answer is heard by the target that it is about.
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
        if (!isStopped()) return void this.#chores()
        clearInterval(timer)
        for (const { socket } of this.#open.values()) socket.close()
        for (const holder of this.#holders) holder.close()
        this.#ingest?.close()
        resolve()
      }, choreMs)
    })
  }

  #take(payload: Uint8Array, from: string): void {
    const { admission, sources, recovery, board } = this.#parts
    const nowMs = this.#parts.nowMs()
    const source = sources.findText(from)
    const verdict = admission.admit(payload, 0, payload.length, source, nowMs)
    board.totals.add(0, 'batches', 1)
    const bytes = verdict === verdicts.code ? codeShredBytes : dataShredBytes
    if (verdict !== verdicts.drop) this.#send(payload.subarray(0, bytes), nowMs)
    if (recovery === null) return
    for (const shred of recovery.take())
      if (admission.admitRebuilt(shred, nowMs)) this.#send(shred, nowMs)
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
      book.countSent([row], 1, shred.length, nowMs)
      socket.send(shred, (code) => {
        if (code === 'ECONNREFUSED') book.refused(row)
        else if (code !== null) book.failed(row, 0, 1)
      })
    }
  }

  async #chores(): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    const { book } = this.#parts
    if (book.refresh()) await this.#follow()
    for (const target of book.dueChallenges())
      this.#open.get(keyOf(target))?.socket.send(this.#parts.challengeOf(target), () => {})
    book.tellRefusals(this.#parts.nowMs())
    this.#isBusy = false
  }

  /** Opens what is new, closes what is gone. */
  async #follow(): Promise<void> {
    const { book } = this.#parts
    const wanted = new Map([...book.serving, ...book.challenged].map((t) => [keyOf(t), t]))
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

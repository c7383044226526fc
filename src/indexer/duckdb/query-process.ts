// Starts, calls and kills one query process, which sends its results to the gateway.
// A process runs one query at a time. When the system cannot start a process (no
// file descriptors, no memory), that start rejects with a Fault and nothing else is affected.
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { Fault, messageOf } from '../../base/errors.ts'
import { workerEntry } from '../../base/package-root.ts'
import { childPipe, FrameLink } from '../../base/threads/frames.ts'
import { registerProcess } from '../../base/threads/running.ts'
import type { QueryError } from '../clickhouse/exceptions.ts'
import { queryBytes } from '../config.ts'
import type { Query } from '../engine.ts'
import type { ResultAddress } from '../queries/protocol.ts'
import type { StoreSnapshot } from './store-files.ts'

/** Memory on top of DuckDB's limit: the process itself, and what DuckDB does not count. */
export const overheadBytes = queryBytes.overhead
const heapMegabytes = 192
/** A start or a refresh that takes longer has hung. */
const callMsMax = 20_000
/** Every process of this Node reserves as much. */
const codeBytes = codeRangeBytes()

export interface ProcessOptions {
  readonly folder: string
  /** Unique per process: part of the name of its scratch folder. */
  readonly number: number
  readonly memoryBytes: number
  readonly threads: number
  readonly results: ResultAddress
}

export class QueryProcess {
  readonly memoryBytes: number
  /** Resident memory above which the process is killed. */
  readonly rssBytesMax: number
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>
  readonly #child: ChildProcess
  readonly #link: FrameLink
  readonly #memory: ProcessMemory
  readonly #waiting = new Map<number, (report: unknown) => void>()
  #calls = 0
  #ready: () => void = () => {}
  isGone = false
  /** It was killed, and may not be gone yet. */
  isEnding = false
  /** The signal that ended the process, if one did. */
  signal: NodeJS.Signals | null = null
  /** DuckDB's version in this process. */
  version = ''
  runs = 0

  private constructor(options: ProcessOptions, child: ChildProcess) {
    this.memoryBytes = options.memoryBytes
    this.rssBytesMax = options.memoryBytes + overheadBytes
    this.#child = child
    const pipe = child.stdio[childPipe] as Duplex
    pipe.on('error', () => this.kill())
    this.#link = new FrameLink(pipe, (value) => this.#receive(value))
    this.#memory = new ProcessMemory(this.pid)
    this.ended = new Promise((resolve) => {
      child.once('exit', (_, signal) => {
        this.signal = signal
        this.isGone = true
        this.#memory.close()
        for (const settle of [...this.#waiting.values()]) settle(null)
        this.#waiting.clear()
        void rm(join(options.folder, scratchOf(options)), { recursive: true, force: true })
          .catch(() => {})
          .then(() => resolve())
      })
    })
  }

  /** Resolves when the process is ready for a query; rejects with a Fault. */
  static async start(options: ProcessOptions): Promise<QueryProcess> {
    const made = new QueryProcess(options, await launch(options.memoryBytes + overheadBytes))
    const timer = setTimeout(() => made.kill(), callMsMax)
    const ready = new Promise<void>((resolve) => {
      made.#ready = resolve
    })
    await Promise.race([ready, made.ended])
    const { number: _, ...given } = options
    const { rssBytesMax } = made
    const config: QueryProcessConfig = { ...given, scratch: scratchOf(options), rssBytesMax }
    const opened = made.isGone ? null : await made.#call('open', config)
    clearTimeout(timer)
    if (opened === null || typeof opened === 'string') {
      made.kill()
      throw notStarted(opened ?? 'it ended')
    }
    made.version = (opened as QueryGreeting).version
    return made
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** Resident memory now; 0 where the system does not report it. */
  rssBytes(): number {
    return this.#memory.rssBytes()
  }

  /** The report; null when the process died during the query. */
  async run(job: QueryJob): Promise<QueryReport | null> {
    this.runs += 1
    const report = await this.#call('run', job)
    // Reason for the cast: both ends are ours. A string is an error of the child's own code.
    return typeof report === 'string' ? null : (report as QueryReport | null)
  }

  /** Makes the process close the files that are no longer in the snapshot; kills a hung one. */
  async refresh(snapshot: StoreSnapshot): Promise<void> {
    const timer = setTimeout(() => this.kill(), callMsMax)
    await this.#call('refresh', snapshot)
    clearTimeout(timer)
  }

  /** Sends DuckDB the interrupt that aborts the query; it may not react. */
  interrupt(): void {
    if (!this.isGone) void this.#call('cancel', null)
  }

  kill(): void {
    this.isEnding = true
    this.#child.kill('SIGKILL')
  }

  /** Null when the process ends before the answer; a string when the call failed. */
  #call(call: string, input: unknown): Promise<unknown> {
    if (this.isGone) return Promise.resolve(null)
    this.#calls += 1
    const id = this.#calls
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      this.#link.send({ id, call, input })
    })
  }

  /** The peer runs untrusted SQL: whatever it sends, nothing here may throw. */
  #receive(value: unknown): void {
    const frame = value as { id?: number; output?: unknown; error?: string; event?: string } | null
    if (frame?.event === 'ready') this.#ready()
    const id = frame?.id ?? 0
    const settle = this.#waiting.get(id)
    this.#waiting.delete(id)
    settle?.(frame?.error ?? frame?.output ?? true)
  }
}

function scratchOf({ number }: ProcessOptions): string {
  return join('scratch', `${process.pid}-${number}`)
}

/**
 * Spawns the process without an environment and without inherited files. Where there is a shell,
 * `ulimit` bounds its memory: DuckDB then fails a query instead of filling the machine.
 * Resolves when the process exists with its pipe; rejects with a Fault when it does not.
 */
function launch(rssBytesMax: number): Promise<ChildProcess> {
  const entry = fileURLToPath(workerEntry('index-query'))
  const node = [process.execPath, `--max-old-space-size=${heapMegabytes}`, entry]
  const kilobytes = String(Math.floor((rssBytesMax + codeBytes) / 1024))
  const script = 'ulimit -d "$0" 2>/dev/null; ulimit -c 0 2>/dev/null; exec "$@"'
  const bounded = ['-c', script, kilobytes]
  return new Promise<ChildProcess>((resolve, reject) => {
    // Some system errors are thrown here, others are events; without file descriptors (EMFILE)
    // the child has no pipe at all and must not be used before `spawn` was emitted.
    const child = spawn('/bin/sh', [...bounded, ...node], {
      env: {},
      cwd: '/',
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    })
    registerProcess(child)
    // Never removed: a signal that the system refuses is an `error` event as well.
    child.on('error', reject)
    child.once('spawn', () => resolve(child))
  }).catch((error: unknown) => {
    throw notStarted(messageOf(error), error)
  })
}

function notStarted(reason: string, cause?: unknown): Fault {
  const message = `query process start failed: ${reason}`
  return new Fault('query-process', message, { cause, retryable: true })
}

/**
 * Address space for compiled code. Node 24 maps all of it writable (512 MiB on x64), so it counts
 * towards RLIMIT_DATA from the start; earlier versions make single pages writable.
 */
function codeRangeBytes(): number {
  try {
    const maps = readFileSync('/proc/self/maps', 'latin1')
    const sizes = [...maps.matchAll(/^(\w+)-(\w+) rwxp/gm)].map(
      ([, from, to]) => Number.parseInt(to!, 16) - Number.parseInt(from!, 16),
    )
    return Math.max(0, ...sizes)
  } catch {
    return 0
  }
}

/** Page size of Linux on supported machines; statm counts pages. */
const pageBytes = 4096

/** Resident memory of a process, from /proc; the file stays open. */
class ProcessMemory {
  readonly #buffer = Buffer.alloc(128)
  #file: number | null

  constructor(pid: number) {
    try {
      this.#file = openSync(`/proc/${pid}/statm`, 'r')
    } catch {
      this.#file = null
    }
  }

  /** 0 when the process is gone or the system does not report it. */
  rssBytes(): number {
    if (this.#file === null) return 0
    try {
      const length = readSync(this.#file, this.#buffer, 0, this.#buffer.length, 0)
      return Number(this.#buffer.toString('latin1', 0, length).split(' ')[1] ?? 0) * pageBytes
    } catch {
      return 0
    }
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file)
    this.#file = null
  }
}

// Messages between the query program and a query process.

export interface QueryProcessConfig {
  readonly folder: string
  /** The process's own folder below the index's folder. */
  readonly scratch: string
  readonly memoryBytes: number
  readonly rssBytesMax: number
  readonly threads: number
  readonly results: ResultAddress
}

/** Sent by a process when it is ready. */
export interface QueryGreeting {
  readonly version: string
}

export interface QueryJob extends Omit<Query, 'id'> {
  readonly snapshot: StoreSnapshot
  /** Under which its bytes are sent. */
  readonly ticket: string
}

export interface QueryReport {
  readonly rows: number
  /** Rows read from tables. */
  readonly readRows: number
  /** Bytes that were sent. */
  readonly bytes: number
  readonly error: QueryError | null
  /** A file of the snapshot could not be opened any more; nothing ran. */
  readonly isStale: boolean
}

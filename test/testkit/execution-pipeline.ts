// Starts the execution pipeline on a tape and collects its frames, for integration tests.
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { ExecutionSection } from '../../src/streams/flows/execution.ts'
import {
  type ExecutionDeps,
  type ExecutionPipeline,
  startExecution,
} from '../../src/streams/flows/execution.ts'
import type { FrameKind } from '../../src/streams/log/encoded.ts'
import type { Tape } from './tape.ts'
import { hangMs } from './until.ts'

export interface Frame {
  readonly kind: FrameKind
  readonly json: string
}

export interface PlayedPipeline {
  readonly pipeline: ExecutionPipeline
  readonly frames: Frame[]
  readonly meters: Meters
  /** Resolves when the source is at its end and all its frames were appended. */
  readonly ended: Promise<void>
}

export interface PlayedTape extends PlayedPipeline {
  /** Lets the source continue after one more pause of the tape. */
  release(): void
}

export async function playTape(
  tape: Tape,
  options: Partial<ExecutionDeps> = {},
): Promise<PlayedTape> {
  const gate = new Int32Array(new SharedArrayBuffer(4))
  const section = { source: 'snapshot' as const, tape: tape.bytes(), gate: gate.buffer }
  const sourceEntry = new URL('./tape-source.mjs', import.meta.url)
  const played = await playSource(section, { sourceEntry, ...options })
  const release = () => {
    Atomics.add(gate, 0, 1)
    Atomics.notify(gate, 0)
  }
  return { ...played, release }
}

/** The same on a source of the configuration. */
export async function playSource(
  section: ExecutionSection,
  options: Partial<ExecutionDeps> = {},
): Promise<PlayedPipeline> {
  const frames: Frame[] = []
  const meters = new Meters()
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const pipeline = await startExecution(section, {
    events: {
      append(kind, payload) {
        frames.push({ kind, json: Buffer.from(payload).toString('utf8') })
        return frames.length
      },
    },
    clock: systemClock,
    log: silentLog,
    meters,
    onDown(fault) {
      throw fault
    },
    onEnd: end,
    ...options,
  })
  return { pipeline, frames, meters, ended }
}

/** Resolves when `holds` does, or rejects after the deadline. */
export async function until(holds: () => boolean, deadlineMs = hangMs): Promise<void> {
  const end = Date.now() + deadlineMs
  while (!holds()) {
    if (Date.now() > end) throw new Error('condition not met before the deadline')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

// Meters of the process: memory, CPU, event-loop lag, garbage collection, open handles.
// Every name passes promtool's lint, unlike prom-client's default set.
import { readdirSync } from 'node:fs'
import { PerformanceObserver } from 'node:perf_hooks'
import { LatencyTally, type Meters } from './meters.ts'

/** The event loop is probed twenty times a second; anything that blocks it longer is seen. */
const lagProbeMs = 50

const lagBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
const pauseBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25]

const gcKinds = ['minor', 'major', 'incremental', 'weak'] as const
type GcKind = (typeof gcKinds)[number]
/** Values of `detail.kind` of a garbage collection entry, as Node documents them. */
const gcKindOf: Readonly<Record<number, GcKind>> = {
  1: 'minor',
  2: 'minor',
  4: 'major',
  8: 'incremental',
  16: 'weak',
}

/** Declares the series and begins to watch. `stop` ends the timer and the observer. */
export function startProcessMeters(meters: Meters, about: { version: string }): { stop(): void } {
  const build = { version: about.version, node: process.version }
  meters.gaugesRead(
    'sluice_build_info',
    'Always 1; the labels are the versions of server and Node',
    { version: [build.version], node: [build.node] },
    () => [[build, 1]],
  )
  declareReads(meters)
  const stopLag = watchLag(meters)
  const stopPauses = watchPauses(meters)
  return {
    stop() {
      stopLag()
      stopPauses()
    },
  }
}

function declareReads(meters: Meters): void {
  const startedAtSecs = Date.now() / 1000 - process.uptime()
  meters.gaugeRead(
    'sluice_process_start_time_seconds',
    'Start time of the process, Unix time',
    () => startedAtSecs,
  )
  meters.counterRead(
    'sluice_process_cpu_seconds_total',
    'CPU time of the process, all threads',
    { mode: ['user', 'system'] },
    () => {
      const { user, system } = process.cpuUsage()
      return [
        [{ mode: 'user' as const }, user / 1e6],
        [{ mode: 'system' as const }, system / 1e6],
      ]
    },
  )
  meters.gaugeRead('sluice_process_resident_memory_bytes', 'Resident memory', () =>
    process.memoryUsage.rss(),
  )
  meters.gaugeRead(
    'sluice_process_heap_used_bytes',
    'JavaScript heap in use, main thread',
    () => process.memoryUsage().heapUsed,
  )
  meters.gaugeRead(
    'sluice_process_heap_size_bytes',
    'JavaScript heap allocated from the system, main thread',
    () => process.memoryUsage().heapTotal,
  )
  meters.gaugeRead(
    'sluice_process_external_memory_bytes',
    'Buffers and other memory outside the JavaScript heap',
    () => process.memoryUsage().external,
  )
  meters.gaugeRead(
    'sluice_process_open_handles',
    'Sockets, timers and other resources that keep the event loop alive',
    () => process.getActiveResourcesInfo().length,
  )
  meters.gaugeRead('sluice_process_open_fds', 'Open file descriptors; 0 if unknown', openFds)
}

function watchLag(meters: Meters): () => void {
  const lag = meters.histogram(
    'sluice_event_loop_lag_seconds',
    'How late a timer of the main thread fired',
    lagBuckets,
  )
  let expected = performance.now() + lagProbeMs
  const timer = setInterval(() => {
    const now = performance.now()
    lag.observe(Math.max(0, now - expected) / 1000)
    expected = now + lagProbeMs
  }, lagProbeMs)
  timer.unref()
  return () => clearInterval(timer)
}

function watchPauses(meters: Meters): () => void {
  const pauses = new Map(gcKinds.map((kind) => [kind, new LatencyTally(pauseBuckets)]))
  meters.histogramsRead(
    'sluice_gc_pause_seconds',
    'Garbage collection pauses of the main thread',
    pauseBuckets,
    { kind: gcKinds },
    () => [...pauses].map(([kind, tally]) => [{ kind }, tally.read()] as const),
  )
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      // Reason for the cast: Node's types lack `detail`, which every gc entry has.
      const kind = gcKindOf[(entry as { detail?: { kind?: number } }).detail?.kind ?? 0]
      if (kind !== undefined) pauses.get(kind)!.observeMs(entry.duration)
    }
  })
  observer.observe({ entryTypes: ['gc'] })
  return () => observer.disconnect()
}

function openFds(): number {
  try {
    return readdirSync('/proc/self/fd').length
  } catch {
    return 0
  }
}

// Measures how long after the end of a fault every endpoint of every gateway works again, what the
// host took of the cores meanwhile, and how much memory each process has.
import { readFileSync } from 'node:fs'
import { endpointCalls } from '../testkit/every-endpoint.ts'
import { type Gateway, pause, type Stage } from './stage.ts'

/** While a call takes longer, another one is made. */
const attemptMs = 1_000
const pollMs = 50
/** After so long without an answer the endpoint is taken for lost. */
const giveUpMs = 60_000
/** A gateway this far behind the node is not back; at processed. */
const lagSlots = 5
/** No shred for this long: they do not flow. */
const shredSilenceMs = 1_200
/** How pages of files are named, after their process. */
export const ofFiles = ' (files)'

export interface Recovery {
  /** Until all of it worked; by the name of what was last. */
  readonly ms: number
  readonly last: string
  readonly lastError: string
  /** The same of shreds, whose leases have their own time. */
  readonly shredsMs: number
}

export async function recoveryOf(stage: Stage, sinceMs: number): Promise<Recovery> {
  const probes = stage.gateways.flatMap((gateway) =>
    Object.entries(probesOf(stage, gateway)).map(
      async ([name, probe]) =>
        [`${name} at gateway ${gateway.number}`, await untilOk(probe, sinceMs)] as const,
    ),
  )
  const shreds = untilOk(async () => {
    const silentMs = performance.now() - stage.shreds.lastMs
    return silentMs < shredSilenceMs ? 'ok' : `no shred for ${Math.round(silentMs)} ms`
  }, sinceMs)
  const all = (await Promise.all(probes)).sort(([, a], [, b]) => b.ms - a.ms)
  const [last, { ms, error }] = all[0]!
  return { ms, last, lastError: error, shredsMs: (await shreds).ms }
}

/** Of all processors: those in which the host ran other machines, and all. */
export function processorTicks(): { readonly stolen: number; readonly all: number } {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
  // user nice system idle iowait irq softirq steal; what follows is part of these.
  const ticks = line.split(/\s+/).slice(1, 9).map(Number)
  return { stolen: ticks[7] ?? 0, all: ticks.reduce((sum, one) => sum + one, 0) }
}

/** Share of the processors' time that the host gave to other machines since then, 0 to 1. */
export function stealSince(before: ReturnType<typeof processorTicks>): number {
  const { stolen, all } = processorTicks()
  return (stolen - before.stolen) / Math.max(1, all - before.all)
}

/** How long a fixed piece of work takes, at best: other machines of the host slow cores down. */
export function workMs(): number {
  let quickest = Number.POSITIVE_INFINITY
  for (let times = 0; times < 8; times++) {
    const beganMs = performance.now()
    let sum = 0
    for (let n = 0; n < 1_000_000; n++) sum = (Math.imul(sum, 31) + n) | 0
    // The sum is used, or there would be nothing to do.
    if (sum !== 0) quickest = Math.min(quickest, performance.now() - beganMs)
  }
  return quickest
}

type Probe = () => Promise<string>

/** By name; each gives `ok` or what is wrong. */
function probesOf(stage: Stage, gateway: Gateway): Record<string, Probe> {
  const calls = endpointCalls(gateway.server, stage.credentials)
  return {
    ...calls,
    head: () => headOf(stage, gateway),
    certificate: async () => (await gateway.certificates?.shownBy(gateway.server)) ?? 'ok',
    change: async () => {
      const body = { subscription: stage.subscription, text: 'probe' }
      return (await gateway.operator('/v1/note/add', body)) === null ? gateway.lastRefusal : 'ok'
    },
  }
}

async function headOf(stage: Stage, { server }: Gateway): Promise<string> {
  const response = await fetch(server.url('rpc'), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-token': stage.credentials.token },
    body: '{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[{"commitment":"processed"}]}',
  })
  const { result } = (await response.json()) as { result?: number }
  const behind = (await stage.slotNow()) - (result ?? 0)
  return behind <= lagSlots ? 'ok' : `${behind} slots behind`
}

/** The first call that works decides, whether others are still on their way or not. */
async function untilOk(probe: Probe, sinceMs: number): Promise<{ ms: number; error: string }> {
  let error = ''
  let succeed = () => {}
  const success = new Promise<true>((resolve) => {
    succeed = () => resolve(true)
  })
  const call = async () => {
    const outcome = await probe().catch(String)
    if (outcome === 'ok') succeed()
    else error = outcome
  }
  for (;;) {
    const isOk = await Promise.race([success, call(), pause(attemptMs)])
    const ms = performance.now() - sinceMs
    if (isOk === true || ms > giveUpMs) return { ms, error }
    await Promise.race([success, pause(pollMs)])
  }
}

/**
 * Resident megabytes by process and kind, the largest where several have a name: its own, and pages
 * of files (such as a ledger that grows by design), which the kernel takes back when it needs them.
 */
export function memoryOf(stage: Stage): Map<string, number> {
  const memory = new Map<string, number>()
  for (const { name, pid } of stage.processes())
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      const megabytesOf = (key: string) =>
        Number(new RegExp(`${key}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1_024
      const own = megabytesOf('RssAnon') + megabytesOf('RssShmem')
      const kinds = { [name]: own, [`${name}${ofFiles}`]: megabytesOf('RssFile') }
      for (const [kind, megabytes] of Object.entries(kinds))
        if (own > 0) memory.set(kind, Math.max(memory.get(kind) ?? 0, megabytes))
    } catch {
      // It ended in between.
    }
  return memory
}

// Chooses the core of a worker that polls, and pins the worker's thread to it.
// Thread: main chooses, so that a wrong core stops the start; the shred worker pins itself.
import { readFileSync } from 'node:fs'
import { Fault } from '../../base/errors.ts'
import type { Libc } from '../../base/transport/udp-batch.ts'

/** `shredstream.core`: the last core that the process may use. */
export const lastCore = -1
/** Cores in an affinity mask of the kernel's usual size. */
export const coresMax = 1024

/** The core for `io: poll`; throws a Fault where the worker would have none to itself. */
export function pollCoreOf(core: number, allowed: readonly number[] = allowedCores()): number {
  if (allowed.length === 0)
    throw new Fault('shred-core', 'shredstream.io: poll needs Linux; use batch')
  if (allowed.length === 1)
    throw new Fault(
      'shred-core',
      'shredstream.io: poll occupies a core, and this process may use only one; use batch',
    )
  const chosen = core === lastCore ? allowed.at(-1)! : core
  if (!allowed.includes(chosen))
    throw new Fault(
      'shred-core',
      `shredstream.core: ${chosen} is not a core that this process may use ` +
        `(${allowed.join(', ')})`,
    )
  return chosen
}

/** Pins the calling thread to one core. */
export function pinThread(libc: Libc, core: number): void {
  const mask = new Uint8Array(coresMax / 8)
  mask[core >> 3] = 1 << (core & 7)
  if (libc.sched_setaffinity(0, mask.length, mask) === 0) return
  throw new Fault('shred-core', `cannot pin the shred worker to core ${core}`, {
    cause: libc.errno(),
  })
}

/** Cores on which the scheduler may run this thread; none where the kernel does not list them. */
function allowedCores(): number[] {
  let status = ''
  try {
    status = readFileSync('/proc/thread-self/status', 'utf8')
  } catch {
    return []
  }
  return coresOf(/^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? '')
}

/** Numbers of a list such as `0-3,8`. */
export function coresOf(list: string): number[] {
  const ranges = list === '' ? [] : list.split(',')
  return ranges.flatMap((range) => {
    const [first, last = first] = range.split('-').map(Number)
    return Array.from({ length: last! - first! + 1 }, (_, index) => first! + index)
  })
}

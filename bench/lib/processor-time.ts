// Processor time of a process and its children, as the kernel counts it. Thread: any. Linux only.
import { readdirSync, readFileSync } from 'node:fs'

const ticksPerSecond = 100

/** Seconds of processor time that a process and all its descendants, also ended ones, have used. */
export function processorSeconds(pid: number): number {
  // Behind the name, which may hold spaces: fields 14 to 17 are utime and stime, then those of
  // ended children.
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)!.split(' ')
  const own = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / ticksPerSecond
  return own + childrenOf(pid).reduce((sum, child) => sum + processorSeconds(child), 0)
}

/** The same without its children, in nanosecond steps; threads that have ended are not counted. */
export function ownProcessorSeconds(pid: number): number {
  const folder = `/proc/${pid}/task`
  const ofThread = (thread: string) => {
    try {
      return Number(readFileSync(`${folder}/${thread}/schedstat`, 'latin1').split(' ')[0])
    } catch {
      return 0
    }
  }
  return readdirSync(folder).reduce((sum, thread) => sum + ofThread(thread), 0) / 1e9
}

/** Seconds of processor time that all threads of this process have used. */
export function usedSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

/** Seconds of processor time that the descendants of this process have used. */
export function childrenSeconds(): number {
  return childrenOf(process.pid).reduce((sum, child) => sum + processorSeconds(child), 0)
}

function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim()
  return text === '' ? [] : text.split(' ').map(Number)
}

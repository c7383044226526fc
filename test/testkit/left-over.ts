// Finds processes that the tests of this run started and did not end. Every child inherits the run's
// id in its environment, so that other runs on the machine are not taken for ours.
import { readdirSync, readFileSync } from 'node:fs'
import { until } from './until.ts'

/** Set once for each run; a test that starts a process with an environment of its own passes it. */
export const runVariable = 'SLUICE_TEST_RUN'

export interface LeftOver {
  readonly pid: number
  readonly command: string
}

/** Processes with the run's id, without this process and its own children: vitest's workers. */
export function leftOver(run: string): LeftOver[] {
  const mark = `${runVariable}=${run}`
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid && environmentOf(pid).includes(mark))
    .filter((pid) => parentOf(pid) !== process.pid)
    .map((pid) => ({ pid, command: read(pid, 'cmdline').replaceAll('\0', ' ').trim() }))
    .filter(({ command }) => command !== '')
}

/** Ends what is left of the run after `graceMs` and returns it. */
export async function endLeftOver(run: string, graceMs: number): Promise<LeftOver[]> {
  const hasEnded = () => leftOver(run).length === 0
  await until(hasEnded, 'processes to end', graceMs).catch(() => {})
  const left = leftOver(run)
  for (const { pid } of left) end(pid)
  return left
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

function environmentOf(pid: number): string[] {
  return read(pid, 'environ').split('\0')
}

function parentOf(pid: number): number {
  // The name before it is in parentheses and may contain spaces.
  return Number(read(pid, 'stat').split(') ').at(-1)?.split(' ')[1])
}

/** Empty for a process that has ended meanwhile or is another user's. */
function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1')
  } catch {
    return ''
  }
}

// Memory, descriptors and threads of a process and all below it, from /proc, by program.
// Memory is the proportional set size (PSS): pages that processes share count once in all.
import { readdirSync, readFileSync } from 'node:fs'

/** Figures by program and quantity, such as `devnode memory`; bytes or a count. */
export type Figures = Readonly<Record<string, number>>

interface Taken {
  /** PSS, all of it. */
  readonly pss: number
  /** Without pages of files, which the system can take back. */
  readonly own: number
  readonly rss: number
  readonly descriptors: number
  readonly threads: number
}

/** Sums over the processes of each program. */
export function figuresOf(pid: number): Figures {
  const sums: Record<string, number> = {}
  for (const one of processesOf(pid)) {
    const name = programOf(one)
    const taken = name === null ? null : takenBy(one)
    if (taken === null) continue
    for (const [quantity, value] of Object.entries(taken)) {
      for (const line of [`${name} ${quantity}`, `all ${quantity}`])
        sums[line] = (sums[line] ?? 0) + value
    }
  }
  return sums
}

function processesOf(pid: number): number[] {
  const below = namesIn(`/proc/${pid}/task`).flatMap((task) =>
    read(`/proc/${pid}/task/${task}/children`).split(' ').filter(Boolean),
  )
  return [pid, ...below.flatMap((child) => processesOf(Number(child)))]
}

/** The name of its entry; null of a process that has ended. */
function programOf(pid: number): string | null {
  const words = read(`/proc/${pid}/cmdline`).split('\0')
  const entry = words.find((word) => /\.m?js$/.test(word))
  if (words[0] === '') return null
  const name = entry
    ?.split('/')
    .at(-1)
    ?.replace(/\.m?js$/, '')
  return name === 'main' ? 'server' : (name ?? 'other')
}

function takenBy(pid: number): Taken | null {
  const text = read(`/proc/${pid}/smaps_rollup`)
  if (text === '') return null
  const bytes = (field: string) =>
    Number(new RegExp(`^${field}: +(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
  return {
    pss: bytes('Pss'),
    own: bytes('Pss_Anon') + bytes('Pss_Shmem'),
    rss: bytes('Rss'),
    descriptors: namesIn(`/proc/${pid}/fd`).length,
    threads: namesIn(`/proc/${pid}/task`).length,
  }
}

/** '' once the process has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return ''
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

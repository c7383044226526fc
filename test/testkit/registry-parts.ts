// Processes of their own on one registry (testkit/registry-child.mjs), for the tests that kill them.
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { Store } from '../../src/customers/subscriptions/store.ts'

const script = fileURLToPath(new URL('registry-child.mjs', import.meta.url))
const children = new Set<ChildProcess>()

export function killParts(): void {
  for (const child of children) child.kill('SIGKILL')
  children.clear()
}

export interface Part {
  readonly lines: string[]
  readonly child: ChildProcess
  readonly errors: () => string
  readonly exited: () => boolean
}

export function runPart(...args: string[]): Part {
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  children.add(child)
  const lines: string[] = []
  let rest = ''
  let errors = ''
  let isOver = false
  child.stdout!.on('data', (chunk) => {
    const parts = (rest + String(chunk)).split('\n')
    rest = parts.pop()!
    lines.push(...parts)
  })
  child.stderr!.on('data', (chunk) => {
    errors += String(chunk)
  })
  child.on('close', () => {
    isOver = true
  })
  return { lines, child, errors: () => errors, exited: () => isOver }
}

/** The expected result of the changes acknowledged so far, label by label. */
export function checkDone(store: Store, prefix: string, done: number): void {
  for (let number = 0; number < done; number += 5) {
    const last = Math.min(done - 1, number + 4) - number
    const subscription = store.find(`${prefix}-${number}`)
    expect(subscription, `${prefix}-${number}`).not.toBeNull()
    if (last >= 1) expect(store.credentials(subscription!.id)?.graceUntil).not.toBeNull()
    if (last >= 2) expect(subscription!.cidrs).toEqual([`10.0.${(number + 2) % 256}.0/24`])
    if (last >= 3) expect(subscription!.state).toBe('suspended')
    if (last >= 4) expect(subscription!.note).toBe(`change ${number + 4}`)
  }
}

export function acknowledged(part: Part): number {
  return part.lines.filter((line) => line.startsWith('done ')).length
}

import { describe, expect, test } from 'vitest'
import type { Context } from '../../../../src/operator/topology/context.ts'
import { ComponentLifecycle, type Topology } from '../../../../src/operator/topology/lifecycle.ts'

/** Three components that note their starts and stops; `changes` replace what they do. */
function open(changes: { readonly [name: string]: object } = {}) {
  const notes: string[] = []
  const row = (name: string, reads: string[]) => ({
    kind: 'state',
    does: '',
    reads,
    start() {
      notes.push(`+${name}`)
      return { stop: () => void notes.push(`-${name}`) }
    },
    ...changes[name],
  })
  const rows = { a: row('a', ['c']), b: row('b', ['a']), c: row('c', []) }
  // Reason for the casts: the lifecycle looks at no component and no context.
  const table = rows as unknown as Topology
  const onSlow = (name: string) => notes.push(`slow ${name}`)
  return { notes, components: new ComponentLifecycle(table, {} as Context, onSlow) }
}

const broken = {
  start: () => {
    throw new Error('port taken')
  },
}

describe('components', () => {
  test('start after what they read, and stop in the order of the table', async () => {
    const { notes, components } = open()
    await components.start()
    expect(notes).toEqual(['+c', '+a', '+b'])
    await Promise.all([components.stop(), components.stop()])
    expect(notes.slice(3)).toEqual(['-c', '-b', '-a'])
  })

  test('get what they declare, and nothing else', async () => {
    let given: object = {}
    const start = (_: Context, read: object) => {
      given = read
      return { stop() {} }
    }
    await open({ b: { start } }).components.start()
    expect(Object.keys(given)).toEqual(['a'])
  })

  test('that do not depend on each other start at the same time', async () => {
    let release: () => void = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const waiting = { reads: [], start: () => released.then(() => ({ stop() {} })) }
    const { notes, components } = open({ c: waiting, a: { reads: [] } })
    const started = components.start()
    await new Promise((resolve) => setImmediate(resolve))
    expect(notes).toEqual(['+a', '+b'])
    release()
    await started
  })

  test('are all stopped when another one fails to start', async () => {
    const { notes, components } = open({ b: broken })
    await expect(components.start()).rejects.toThrow('port taken')
    expect(notes).toEqual(['+c', '+a', '-c', '-a'])
  })

  test('are all stopped although one of them fails to stop', async () => {
    const full = {
      stop: () => {
        throw new Error('disk full')
      },
    }
    const { notes, components } = open({ b: full })
    await components.start()
    await expect(components.stop()).rejects.toThrow('disk full')
    expect(notes.slice(3)).toEqual(['-c', '-a'])
  })

  test('that are not enabled are null and not started', async () => {
    const { notes, components } = open({ a: { isEnabled: () => false } })
    expect(await components.start()).toMatchObject({ a: null })
    expect(notes).toEqual(['+c', '+b'])
  })
})

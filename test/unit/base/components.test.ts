import { describe, expect, test } from 'vitest'
import { Components } from '../../../src/base/components.ts'

describe('components', () => {
  test('stop in the reverse order of their start', async () => {
    const stopped: string[] = []
    const parts = new Components(() => {})
    for (const name of ['a', 'b', 'c'])
      await parts.add(name, () => ({
        stop() {
          stopped.push(name)
        },
      }))
    await Promise.all([parts.stop(), parts.stop()])
    expect(stopped).toEqual(['c', 'b', 'a'])
  })

  test('are all stopped when a later one fails to start', async () => {
    const stopped: string[] = []
    const parts = new Components(() => {})
    await parts.add('a', async () => ({
      async stop() {
        stopped.push('a')
      },
    }))
    await expect(
      parts.add('b', () => {
        throw new Error('port taken')
      }),
    ).rejects.toThrow('port taken')
    expect(stopped).toEqual(['a'])
  })

  test('are all stopped although one of them fails to stop', async () => {
    const stopped: string[] = []
    const parts = new Components(() => {})
    await parts.add('a', () => ({ stop: () => void stopped.push('a') }))
    await parts.add('b', () => ({
      stop() {
        throw new Error('disk full')
      },
    }))
    await expect(parts.stop()).rejects.toThrow('disk full')
    expect(stopped).toEqual(['a'])
  })
})

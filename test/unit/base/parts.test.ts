import { describe, expect, test } from 'vitest'
import { Parts } from '../../../src/base/parts.ts'

describe('the parts of a service', () => {
  test('stop in the reverse of their start', async () => {
    const stopped: string[] = []
    const parts = new Parts(() => {})
    for (const name of ['a', 'b', 'c'])
      await parts.add(name, () => ({
        stop() {
          stopped.push(name)
        },
      }))
    await Promise.all([parts.stop(), parts.stop()])
    expect(stopped).toEqual(['c', 'b', 'a'])
  })

  test('stop all those before one that fails to start', async () => {
    const stopped: string[] = []
    const parts = new Parts(() => {})
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

  test('stop all, though one of them fails to', async () => {
    const stopped: string[] = []
    const parts = new Parts(() => {})
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

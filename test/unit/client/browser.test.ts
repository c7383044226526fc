import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../../testkit/tree.ts'

test('the compiled client imports nothing that a browser does not have', () => {
  const seen = new Set<string>()
  const follow = (name: string) => {
    if (seen.has(name)) return
    seen.add(name)
    const text = readFileSync(join(root, 'dist/src/client', name), 'utf8')
    expect(text).not.toMatch(/\b(process|Buffer|require)\b\s*[.(]/)
    for (const [, target = ''] of text.matchAll(/^(?:import|export)\b.* from '([^']+)'/gm)) {
      expect(target).toMatch(/^\.\/[a-z-]+\.js$/)
      follow(target.slice(2))
    }
  }
  follow('client.js')
  expect([...seen].sort()).toEqual(['client.js', 'frames.js', 'pubsub.js', 'rest.js', 'socket.js'])
})

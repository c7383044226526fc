import { describe, expect, it } from 'vitest'
import { Router } from '../../../../src/base/transport/http.ts'

const paths = ['/', '/blocks', '/blocks/:number/life', '/files/*', '/blocks/latest/life']
const router = new Router(paths.map((path) => ({ path })))

function found(path: string): [string, readonly string[]] | null {
  const match = router.find(path)
  return match === null ? null : [match.routes[0]!.path, match.params]
}

describe('Router', () => {
  it('finds exact paths before patterns', () => {
    expect(found('/')).toEqual(['/', []])
    expect(found('/blocks/latest/life')).toEqual(['/blocks/latest/life', []])
    expect(router.exact().map(({ path }) => path)).toEqual(['/', '/blocks', '/blocks/latest/life'])
  })

  it('returns the values of named segments, and the rest of an open path', () => {
    expect(found('/blocks/12/life')).toEqual(['/blocks/:number/life', ['12']])
    expect(found('/files/a/b.txt')).toEqual(['/files/*', ['a/b.txt']])
    expect(found('/files/')).toEqual(['/files/*', ['']])
  })

  it('returns null for a path that is longer, shorter or different', () => {
    for (const path of ['/blocks/12', '/blocks/12/life/more', '/block', '', '/blocks/'])
      expect(found(path)).toBeNull()
  })
})

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parseTarget } from '../../../src/loadtest/target.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-target-'))
afterAll(() => rmSync(folder, { recursive: true }))
const kinds = ['rpc', 'websocket', 'shreds'] as const

function parsed(text: string) {
  const target = parseTarget('to', text, kinds)
  if (!target.ok) throw new Error(target.refusal.message)
  const { kind, url, token, label } = target.value
  return { kind, url: url.href, token, label }
}

function problem(text: string): string {
  const target = parseTarget('to', text, kinds)
  return target.ok ? 'accepted' : target.refusal.message
}

describe('a target of a bench', () => {
  test('is a kind, a URL and a token', () => {
    expect(parsed('rpc=https://node.example:443/path?x=1,token=a=b')).toEqual({
      kind: 'rpc',
      url: 'https://node.example/path?x=1',
      token: 'a=b',
      label: 'rpc node.example',
    })
  })

  test('has a scheme by its kind, and loopback for a bare port', () => {
    expect(parsed('websocket=127.0.0.1:8900').url).toBe('ws://127.0.0.1:8900/')
    expect(parsed('shreds=20000').url).toBe('udp://127.0.0.1:20000')
    expect(parsed('rpc=[::1]:8899').url).toBe('http://[::1]:8899/')
  })

  test('shows its name, and never a path, query or credential', () => {
    expect(parsed('rpc=http://u:secret@h:1/k/secret?api-key=secret,token=secret').label).toBe(
      'rpc h:1',
    )
    expect(parsed('rpc=http://h:1,name=east,token=t')).toMatchObject({ label: 'east', token: 't' })
  })

  test('takes a token from a file', () => {
    const file = join(folder, 'token')
    writeFileSync(file, 'slu_x\n')
    expect(parsed(`rpc=http://h,token-file=${file}`).token).toBe('slu_x')
    expect(problem(`rpc=http://h,token-file=${folder}/none`)).toMatch(/token file cannot be read/)
  })

  test('is refused with what to write instead', () => {
    expect(problem('http://127.0.0.1')).toMatch(/has no kind|needs kind=url/)
    expect(problem('rcp=http://h')).toMatch(/the nearest is "rpc"/)
    expect(problem('rpc=')).toMatch(/needs a URL after rpc=/)
    expect(problem('')).toMatch(/needs kind=url/)
    const geyser = parseTarget('a', '127.0.0.1:11010', ['geyser', 'websocket'])
    expect(geyser).toMatchObject({
      refusal: {
        message: '--a needs kind=url, such as --a geyser=127.0.0.1:10010 (geyser, websocket)',
      },
    })
  })
})

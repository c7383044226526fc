import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Running } from '../../src/base/running.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import {
  askOperator,
  operatorSocketPath,
  startOperatorSocket,
} from '../../src/base/transport/unix-socket.ts'

let data: string
const running: Running[] = []

beforeEach(() => {
  data = join(mkdtempSync(join(tmpdir(), 'sluice-socket-')), 'data')
})
afterEach(async () => {
  for (const part of running.splice(0)) await part.stop()
  rmSync(data, { recursive: true, force: true })
})

const handlers = {
  status: () => ({ up: true }),
  echo: (question: { params: unknown }) => question.params,
  broken: () => Promise.reject(new Error('secret detail')),
}

async function start(at = data): Promise<Running> {
  const started = await startOperatorSocket(at, handlers, silentLog)
  running.push(started)
  return started
}

/** Sends raw bytes and gives all that came back. */
function raw(bytes: string | Buffer): Promise<string> {
  return new Promise((done, fail) => {
    const socket = connect(operatorSocketPath(data))
    let got = ''
    socket.on('connect', () => socket.end(bytes))
    socket.on('data', (chunk) => {
      got += chunk
    })
    socket.on('error', fail)
    socket.on('close', () => done(got))
  })
}

describe('operator socket', () => {
  test('answers one JSON line with one JSON line, also a long one', async () => {
    await start()
    expect(await askOperator(data, 'status')).toEqual({ ok: true, value: { up: true } })
    const params = { text: 'é'.repeat(10_000) }
    expect(await askOperator(data, 'echo', params)).toEqual({ ok: true, value: params })
  })

  test('has mode 0600 in a 0700 folder', async () => {
    await start()
    expect(statSync(operatorSocketPath(data)).mode & 0o777).toBe(0o600)
    expect(statSync(data).mode & 0o777).toBe(0o700)
  })

  test('reports that no server runs, before, after and over a stale file', async () => {
    const before = await askOperator(data, 'status')
    expect(before).toMatchObject({ ok: false, reason: 'no-server' })
    const started = await start()
    await started.stop()
    await started.stop()
    expect(await askOperator(data, 'status')).toMatchObject({ ok: false, reason: 'no-server' })
  })

  test('replaces the file of a dead server and refuses beside a live one', async () => {
    mkdirSync(data, { recursive: true })
    const path = operatorSocketPath(data)
    const { execFileSync } = await import('node:child_process')
    const code = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 9))`
    expect(() => execFileSync(process.execPath, ['-e', code])).toThrow()
    expect(statSync(path).isSocket()).toBe(true)
    await start()
    expect(await askOperator(data, 'status')).toMatchObject({ ok: true })
    await expect(start()).rejects.toThrow('another server runs')
    expect(await askOperator(data, 'status')).toMatchObject({ ok: true })
  })

  test('does not remove a file that is no socket', async () => {
    mkdirSync(data, { recursive: true })
    writeFileSync(operatorSocketPath(data), 'mine')
    await expect(start()).rejects.toThrow('is not a socket')
  })

  test('refuses a path that is too long for a socket, with a way out', async () => {
    const deep = join(data, 'd'.repeat(120))
    await expect(start(deep)).rejects.toThrow('use a shorter data folder')
  })

  test.each([
    ['no JSON', 'hello\n', 'not {\\"ask\\"'],
    ['another shape', '[1]\n', 'not {\\"ask\\"'],
    ['an unknown question', '{"ask":"constructor"}\n', 'unknown question'],
    ['a question over 64 KiB', `${'x'.repeat(70_000)}\n`, 'too long'],
    ['a handler that fails, without its detail', '{"ask":"broken"}\n', 'failed to answer'],
  ])('answers %s with an error and stays up', async (_, bytes, sentence) => {
    await start()
    const got = await raw(bytes)
    expect(got).toContain(sentence)
    expect(got).not.toContain('secret detail')
    expect(JSON.parse(got).ok).toBe(false)
    expect(await askOperator(data, 'status')).toMatchObject({ ok: true })
  })

  test('closes a client that leaves without a line', async () => {
    await start()
    expect(await raw('{"ask"')).toBe('')
  })

  test('reports a server that cuts its answer or sends noise', async () => {
    mkdirSync(data, { recursive: true })
    const replies = ['', 'noise\n']
    const server = createServer((socket) => socket.end(replies.shift() ?? ''))
    await new Promise<void>((done) => server.listen(operatorSocketPath(data), done))
    expect(await askOperator(data, 'status')).toMatchObject({ ok: false, reason: 'fault' })
    expect(await askOperator(data, 'status')).toMatchObject({ ok: false, reason: 'fault' })
    server.close()
  })
})

// Tests how the live page is served: paths, codings, caching, policy, and who may load it.
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Listener, openService, type Service } from '../testkit/metrics-service.ts'
import { type Answer, rawGet } from '../testkit/raw-get.ts'
import { until } from '../testkit/until.ts'

let service: Service
const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

beforeAll(async () => {
  service = await openService()
})
afterAll(() => service.running.stop())

const get = (path: string, headers: Record<string, string> = {}) =>
  rawGet(service.origin + path, headers)
const assets = (page: Answer) =>
  [...page.body.toString().matchAll(/"(\/live\/app-\w+\.(?:js|css))"/g)].map(([, path]) => path!)

describe('GET /live', () => {
  test('is a page of three files, at most 45 kB in brotli', async () => {
    const coding = { 'accept-encoding': 'br, gzip' }
    const paths = ['/live', ...assets(await get('/live'))]
    const answers = await Promise.all(paths.map((path) => get(path, coding)))
    expect(answers.map(({ headers }) => headers['content-type'])).toEqual([
      'text/html; charset=UTF-8',
      'text/css; charset=UTF-8',
      'text/javascript; charset=UTF-8',
    ])
    expect(answers.map(({ headers }) => headers['content-encoding'])).toEqual(['br', 'br', 'br'])
    const bytes = answers.reduce((sum, { body }) => sum + body.length, 0)
    expect(bytes).toBeLessThanOrEqual(45_000)
  })

  test('has the same content in every coding, with a tag of its own', async () => {
    const paths = ['/live', ...assets(await get('/live'))]
    for (const path of paths) {
      const plain = await get(path, { 'accept-encoding': 'identity' })
      const zipped = await get(path, { 'accept-encoding': 'gzip' })
      const packed = await get(path, { 'accept-encoding': 'gzip;q=0, br' })
      expect(gunzipSync(zipped.body).equals(plain.body)).toBe(true)
      expect(brotliDecompressSync(packed.body).equals(plain.body)).toBe(true)
      expect(new Set([plain, zipped, packed].map(({ headers }) => headers.etag)).size).toBe(3)
      const again = await get(path, {
        'accept-encoding': 'gzip',
        'if-none-match': zipped.headers.etag!,
      })
      expect([again.status, again.body.length]).toEqual([304, 0])
    }
  })

  test('caches the script and the style for good, and asks again for the page', async () => {
    const page = await get('/live')
    expect(page.headers['cache-control']).toBe('no-cache')
    for (const path of assets(page))
      expect((await get(path)).headers['cache-control']).toContain('immutable')
    expect((await get('/live/app-000000000000.js')).status).toBe(404)
    expect((await get('/live/page.html')).status).toBe(404)
  })

  test('has a policy without inline script, other origins or markup from script', async () => {
    const policy = (await get('/live')).headers['content-security-policy'] ?? ''
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).toContain("require-trusted-types-for 'script'; trusted-types 'none'")
    expect(policy).not.toContain('unsafe')
    expect(policy).toContain(`ws://127.0.0.1:${service.port}`)
  })

  test('names a host in its policy only when it is a plain one', async () => {
    const { headers } = await get('/live', { host: 'evil.example; script-src *' })
    expect(headers['content-security-policy']).toContain("connect-src 'self';")
  })

  test('names the packages of its script and their licences beside it', async () => {
    const { readFileSync } = await import('node:fs')
    const folder = new URL('../../dist/src/products/metrics/live/', import.meta.url)
    const text = readFileSync(new URL('THIRD-PARTY.txt', folder), 'utf8')
    const named = [...text.matchAll(/^(\S+) [\d.]+ \((MIT|ISC)\)$/gm)].map(([, name]) => name)
    expect(named).toEqual(['uplot'])
  })
})

describe('GET /', () => {
  test('is the page for a browser and 426 for anyone else', async () => {
    const page = await get('/', html)
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=UTF-8'])
    expect(page.headers.vary).toContain('accept')
    for (const accept of [
      '*/*',
      'application/json',
      'text/html;q=0',
      'application/json, text/html;q=0.5',
    ]) {
      const other = await get('/', { accept })
      expect([accept, other.status, other.headers.vary]).toEqual([accept, 426, 'accept'])
    }
  })

  test('still upgrades, whatever Accept says', async () => {
    const listener = new Listener(service.ws, [], html)
    await until(() => listener.frames.length > 0, 'the first frame')
    listener.socket.close()
  })
})

describe('metrics.page', () => {
  test('off serves no page', async () => {
    const closed = await openService({ section: { page: 'off' } })
    expect((await rawGet(`${closed.origin}/live`, html)).status).toBe(404)
    expect((await rawGet(`${closed.origin}/`, html)).status).toBe(426)
    await closed.running.stop()
  })

  test('stream leaves out the view of the endpoints', async () => {
    const customers = await openService({ section: { page: 'stream' } })
    const { body } = await rawGet(`${customers.origin}/live`)
    expect(body.toString()).toContain('data-page="stream"')
    await customers.running.stop()
  })
})

describe('metrics.auth: token', () => {
  test('lets anyone load the page, and nobody open the stream by it', async () => {
    const locked = await openService({ section: { auth: 'token' } })
    expect((await rawGet(`${locked.origin}/live`)).status).toBe(200)
    expect((await rawGet(`${locked.origin}/`, html)).status).toBe(200)
    expect((await rawGet(`${locked.origin}/`)).status).toBe(401)
    expect((await rawGet(`${locked.origin}/v1/status`, html)).status).toBe(401)
    for (const path of ['/', '/v1/ws', '/live']) {
      const stranger = new Listener(locked.ws + path, [], html)
      await until(() => stranger.refused !== null || stranger.frames.length > 0, 'an answer')
      expect(stranger.frames).toEqual([])
    }
    const noUpgradeHeader = await rawGet(`${locked.origin}/`, {
      ...html,
      'sec-websocket-key': 'x3JJHMbDL1EzLkh9GBhXDw==',
      'sec-websocket-version': '13',
    })
    expect(noUpgradeHeader.status).toBe(401)
    await locked.running.stop()
  })
})

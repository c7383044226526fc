// Pages of other origins query the indexer from a real browser: those of `indexer.cors` may, all
// others are blocked.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser, noBrowser, openPage, pageDeadlineMs } from '../testkit/browser.ts'
import { IndexerStage } from '../testkit/indexer-stage.ts'

describe.skipIf(noBrowser !== null)(`a page in Chromium (${noBrowser ?? 'present'})`, () => {
  const stage = new IndexerStage()
  const sites: Server[] = []
  let listed: string
  let other: string
  let browser: Browser

  beforeAll(async () => {
    listed = await site()
    other = await site()
    await stage.open([listed])
    browser = await launchBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    for (const server of sites) server.close()
    await stage.bundle.dispose()
  })

  /** An origin with one empty page. */
  async function site(): Promise<string> {
    const server = createServer((_, response) => {
      response.setHeader('content-type', 'text/html')
      response.end('<!doctype html><title>page</title>')
    })
    sites.push(server)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  /** What a query of a page of this origin gives to its script. */
  async function queryFrom(origin: string) {
    const { page } = await openPage(browser, origin)
    await page.goto(origin)
    const asked = { url: `${stage.url}/?query_id=q1`, headers: stage.credentials }
    // Runs in the page; the headers are those of @clickhouse/client-web.
    const answer = await page.evaluate(async ({ url, headers }) => {
      try {
        const response = await fetch(url, { method: 'POST', headers, body: 'SELECT rows 2' })
        const summary = response.headers.get('x-clickhouse-summary')
        return { status: response.status, text: await response.text(), summary }
      } catch (error) {
        return String(error)
      }
    }, asked)
    await page.context().close()
    return answer
  }

  test(
    'queries when its origin is listed, and reads the headers of the result',
    async () => {
      expect(await queryFrom(listed)).toEqual({
        status: 200,
        text: '0\trow 0\n1\trow 1\n',
        summary: expect.stringContaining('"result_rows":"2"'),
      })
    },
    pageDeadlineMs,
  )

  test(
    'is blocked by the browser otherwise',
    async () => {
      expect(await queryFrom(other)).toBe('TypeError: Failed to fetch')
    },
    pageDeadlineMs,
  )
})
